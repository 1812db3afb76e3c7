"""Journals are retired with the session or process they belong to."""

from __future__ import annotations

import asyncio

import pytest

from onrecord.errors import InvalidInput
from onrecord.hosts.journal_backed import JournalEffectHost
from onrecord.hosts.retirement import RetirementCounts, retire_process, retire_session
from onrecord.hosts.scopes import ExecutionScope, run_id
from onrecord.journal.operations import OperationsJournal
from onrecord.store.contract import Store
from onrecord.testing.effect_conformance import Calls, step

SCOPES = [
    ExecutionScope.turn("s", "t1"),
    ExecutionScope.turn("s", "t2"),
    ExecutionScope.queue_drain("s", "d"),
    ExecutionScope.session_delete("s"),
    ExecutionScope.turn("other", "t1"),
    ExecutionScope.process("s"),
]


def fill(store: Store, ended: list[ExecutionScope]) -> JournalEffectHost:
    host, calls = JournalEffectHost(store), Calls()

    async def work() -> None:
        for scope in SCOPES:
            await host.scoped(scope).execute_effect(step("one"), calls.returning(1))
            if scope in ended:
                await host.end_scope(scope)

    asyncio.run(work())
    return host


def left(store: Store) -> set[ExecutionScope]:
    return {scope for scope in SCOPES if store.run_row("default", run_id("default", scope)) is not None}


def test_only_ended_runs_of_that_session_are_removed(store: Store) -> None:
    host = fill(store, ended=[SCOPES[0], SCOPES[2], SCOPES[4], SCOPES[5]])
    assert host.retire_session("s") == RetirementCounts(retired=2, events=6, still_open=2, busy=0)
    assert left(store) == {SCOPES[1], SCOPES[3], SCOPES[4], SCOPES[5]}
    assert host.retire_session("s") == RetirementCounts(0, 0, 2, 0)
    tombstones = [event.event for event in OperationsJournal.open_for(store).scan()]
    assert {tombstone.run for tombstone in tombstones} == {run_id("default", SCOPES[0]), run_id("default", SCOPES[2])}


def test_process_and_session_of_one_name_are_apart(store: Store) -> None:
    host = fill(store, ended=SCOPES)
    assert host.retire_process("s") == RetirementCounts(1, 3, 0, 0)
    assert left(store) == set(SCOPES[:5])
    assert host.retire_session("s").retired == 4
    assert left(store) == {SCOPES[4]}


def test_open_runs_are_ended_when_asked_for_and_not_held(store: Store) -> None:
    host = fill(store, ended=[])
    for scope in SCOPES[1:4]:
        host.release(scope)
    assert retire_session(store, "s", end_open=True) == RetirementCounts(retired=3, events=9, still_open=0, busy=1)
    assert left(store) == {SCOPES[0], SCOPES[4], SCOPES[5]}


def test_nothing_to_retire(store: Store) -> None:
    assert retire_session(store, "unknown") == RetirementCounts(0, 0, 0, 0)
    with pytest.raises(InvalidInput) as caught:
        retire_process(store, " ")
    assert caught.value.code == "missing_execution_scope_id"


def test_a_retired_scope_can_begin_anew(store: Store) -> None:
    fill(store, ended=SCOPES).retire_session("s")
    host, calls = JournalEffectHost(store), Calls()
    asyncio.run(host.scoped(SCOPES[0]).execute_effect(step("one"), calls.returning(2)))
    assert calls.made == ["one"]
