"""A child's run may be carried by anybody: its parent is handed what the child's record ends with, or stops with it."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

import onrecord
from onrecord.journal.reader import JournalReader
from onrecord.store.contract import Claim, Store
from onrecord.store.memory import MemoryStore

lights_out: list[bool] = []
done: list[str] = []


@onrecord.step
async def work(name: str) -> str:
    if lights_out:
        raise SystemExit(1)
    done.append(name)
    if name == "bad":
        raise ValueError(name)
    return name


@onrecord.agent
async def some_child(name: str) -> str:
    return await work(name)


@onrecord.agent
async def some_parent(name: str) -> list[str]:
    try:
        return [await some_child(name), await work("after it")]
    except ValueError as error:
        return ["failed", str(error)]


@onrecord.agent
def sync_child(name: str) -> str:
    return asyncio.run(_in_a_loop(name))


async def _in_a_loop(name: str) -> str:
    return await work(name)


@onrecord.agent
def sync_parent(name: str) -> list[str]:
    try:
        return [sync_child(name)]
    except ValueError as error:
        return ["failed", str(error)]


class HeldByAnother:
    """A store in which somebody else holds the child's run, and perhaps brings it to its end before we look again."""

    def __init__(self, store: Store, child: Any, *, ends: bool) -> None:
        self._store, self._child, self._ends = store, child, ends

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def claim(self, namespace: str, run: str, *args: Any, **options: Any) -> Claim:
        if run == "run":
            return self._store.claim(namespace, run, *args, **options)
        if self._ends:
            thread = threading.Thread(target=self._carry, args=(run,))
            thread.start()
            thread.join(60)
            assert not thread.is_alive()
        return Claim(99, "somebody else", granted=False)

    def _carry(self, run: str) -> None:
        try:
            made = self._child.resume(run, store=self._store)
            if self._child.is_async:
                asyncio.run(_awaited(made))
        except ValueError:
            done.append("ended by another")


async def _awaited(made: Any) -> Any:
    return await made


def result_of(agent: Any, made: Any) -> Any:
    return asyncio.run(_awaited(made)) if agent.is_async else made


def interrupted(parent: Any, name: str, store: Store) -> None:
    done.clear()
    lights_out.append(True)
    try:
        with pytest.raises(SystemExit):
            result_of(parent, parent.run(name, run_id="run", store=store))
    finally:
        lights_out.clear()
    assert done == []


PAIRS = [(some_parent, some_child), (sync_parent, sync_child)]


@pytest.mark.parametrize(("parent", "child"), PAIRS, ids=["async", "sync"])
@pytest.mark.parametrize("name", ["good", "bad"])
def test_a_child_that_another_process_brings_to_its_end(
    parent: Any, child: Any, name: str, memory: MemoryStore
) -> None:
    """That the child was held says nothing about what came of it."""
    interrupted(parent, name, memory)
    found = result_of(parent, parent.resume("run", store=HeldByAnother(memory, child, ends=True)))
    assert found[:2] == (["failed", "bad"] if name == "bad" else ["good", "after it"][: len(found)])
    assert done.count(name) == 1
    assert result_of(parent, parent.replay("run", store=memory)) == found
    errors = [one.event.error for one in JournalReader(memory, "run").scan() if one.kind == "ActionFailed"]
    assert [type(error) for error in errors] == ([ValueError] if name == "bad" else [])


@pytest.mark.parametrize(("parent", "child"), PAIRS, ids=["async", "sync"])
def test_a_child_that_another_process_holds_stops_its_parent(parent: Any, child: Any, memory: MemoryStore) -> None:
    interrupted(parent, "good", memory)
    with pytest.raises(onrecord.OnrecordError) as busy:
        result_of(parent, parent.resume("run", store=HeldByAnother(memory, child, ends=False)))
    assert busy.value.code == "run_busy"
    assert [one.kind for one in JournalReader(memory, "run").scan()] == ["ActionRequested"]
    assert memory.holder("default", "run") is None
    assert result_of(parent, parent.resume("run", store=memory))[0] == "good"
    assert done.count("good") == 1
