"""Attempts against each other: at one effect, and at a whole run that was replayed live."""

from __future__ import annotations

import json
from typing import Any

import pytest

import onrecord
from kit.live_replays import Done, asked, write
from onrecord.analysis.compare.tolerance import DriftTolerance
from onrecord.analysis.live import ReplayBroken, compare_attempts, compare_run_attempts, replays_of
from onrecord.core.events import ActionRequested, ActionSucceeded, AttemptRecorded
from onrecord.core.links import ParentRun
from onrecord.errors import BadPosition, InvalidInput, NotFound
from onrecord.journal.chain import Draft
from onrecord.journal.journal import Journal
from onrecord.journal.reader import JournalReader
from onrecord.store.contract import Store
from onrecord.store.memory import MemoryStore

failures: list[str] = []


@onrecord.tool(idempotent=True, retry=onrecord.Retry(attempts=4, delay_seconds=0.001))
def fetch(url: str) -> dict[str, Any]:
    if failures:
        raise ConnectionError(failures.pop(0))
    return {"url": url}


@onrecord.agent
def reading(url: str) -> str:
    return str(fetch(url)["url"])


def tried(*messages: str) -> JournalReader:
    """A run whose effect failed with these messages before it succeeded."""
    store = MemoryStore()
    failures[:] = messages
    reading.run("here", run_id="a", store=store)
    return JournalReader(store, "a")


def test_the_first_and_the_last_attempt() -> None:
    compared = compare_attempts(tried("refused", "refused"), "main/fetch/0")
    assert [(one.number, one.failed) for one in compared.attempts] == [(1, True), (2, True), (3, False)]
    assert (compared.expected, compared.actual) == (1, 3)
    assert compared.verdict == "broken"
    assert [reason.code for reason in compared.reasons] == ["replay_status_diff"]
    with pytest.raises(ReplayBroken):
        compared.raise_if_broken()


def test_two_chosen_attempts_that_failed_alike() -> None:
    same = compare_attempts(tried("refused", "refused"), "main/fetch/0", (1, 2))
    assert same.verdict == "pass"
    other = compare_attempts(tried("refused", "timed out"), "main/fetch/0", (1, 2))
    assert (other.verdict, other.reasons[0].code, other.reasons[0].path) == (
        "broken",
        "replay_content_diff",
        "/message",
    )
    assert json.loads(json.dumps(other.to_data()))["expected"] == 1


def test_the_last_two_attempts() -> None:
    compared = compare_attempts(tried("a", "b", "c"), "main/fetch/0", "last_two")
    assert (compared.expected, compared.actual) == (3, 4)


def test_an_effect_is_named_by_its_key_or_by_its_seq() -> None:
    reader = tried("refused")
    assert compare_attempts(reader, 1).key == compare_attempts(reader, "main/fetch/0").key


def test_one_attempt_is_no_pass() -> None:
    compared = compare_attempts(tried(), "main/fetch/0")
    assert (compared.verdict, compared.exit_status) == ("broken", 1)
    assert [reason.code for reason in compared.reasons] == ["replay_one_attempt"]


def test_what_is_not_there_is_an_error() -> None:
    reader = tried("refused")
    with pytest.raises(NotFound) as unknown:
        compare_attempts(reader, "main/fetch/7")
    assert unknown.value.code == "unknown_effect"
    with pytest.raises(BadPosition):
        compare_attempts(reader, 999)
    with pytest.raises(BadPosition) as no_attempt:
        compare_attempts(reader, "main/fetch/0", (1, 5))
    assert no_attempt.value.code == "unknown_attempt"
    with pytest.raises(InvalidInput) as same:
        compare_attempts(reader, "main/fetch/0", (1, 1))
    assert same.value.code == "same_attempt"


def by_hand(*attempts: dict[str, Any]) -> JournalReader:
    """Attempts with output snapshots of their own, as another runtime records them."""
    store = MemoryStore()
    with Journal.create(store, "hand") as journal:
        journal.append([Draft(ActionRequested("a1", {"q": 1}, name="ask", effect="model_call"), key="k")])
        for number, snapshots in enumerate(attempts, 1):
            journal.append(AttemptRecorded("a1", number, "succeeded", snapshots))
        journal.append([Draft(ActionSucceeded("a1", attempts[-1]["output"]), parent=1)])
    return JournalReader(store, "hand")


def test_output_snapshots_are_judged_under_a_tolerance() -> None:
    reader = by_hand({"output": {"tokens": 1000}}, {"output": {"tokens": 1005}})
    assert compare_attempts(reader, "k").verdict == "broken"
    within = compare_attempts(reader, "a1", tolerance=DriftTolerance(tokens=0.01))
    assert (within.verdict, within.exit_status) == ("drift", 0)


def test_tool_events_of_attempts_are_compared_without_span_ids() -> None:
    def snapshot(span: str, said: str) -> dict[str, Any]:
        return {"output": "fine", "tool_events": [{"name": "sh", "span_id": span, "output": said}]}

    assert compare_attempts(by_hand(snapshot("s1", "ok"), snapshot("s2", "ok")), "k").verdict == "pass"
    other = compare_attempts(by_hand(snapshot("s1", "ok"), snapshot("s2", "no")), "k")
    assert [reason.code for reason in other.reasons] == ["replay_tool_diff"]


def test_an_attempt_without_a_snapshot_is_not_replayable() -> None:
    compared = compare_attempts(by_hand({}, {"output": "fine"}), "k")
    assert (compared.verdict, compared.exit_status) == ("broken", 7)


# Of whole runs

EFFECTS = [asked("one", "first")]


def replayed(store: Store, *answers: str) -> None:
    write(store, "a", EFFECTS)
    for number, answer in enumerate(answers, 1):
        write(store, f"c{number}", [Done("ask", EFFECTS[0].input, answer)], replays="a")


def test_a_run_and_its_replays_are_attempts_at_it(store: Store) -> None:
    replayed(store, "other", "first", "first")
    assert set(replays_of(store, "a")) == {"c1", "c2", "c3"}
    names = ["a", *replays_of(store, "a")]
    first_last = compare_run_attempts(store, "a")
    assert (first_last.run, first_last.replay) == ("a", names[-1])
    last_two = compare_run_attempts(store, "a", which="last_two")
    assert (last_two.run, last_two.replay) == (names[-2], names[-1])
    chosen = compare_run_attempts(store, "a", which=(1, names.index("c1") + 1))
    assert (chosen.verdict, chosen.codes) == ("broken", ("replay_content_diff",))


def test_a_run_that_was_never_replayed_has_one_attempt(memory: MemoryStore) -> None:
    replayed(memory)
    replay = compare_run_attempts(memory, "a")
    assert (replay.verdict, replay.codes, replay.effects) == ("broken", ("replay_one_attempt",), 1)
    with pytest.raises(BadPosition):
        compare_run_attempts(memory, "a", which=(1, 2))
    with pytest.raises(NotFound):
        compare_run_attempts(memory, "nobody")


def test_replays_of_another_run_of_that_name_and_forks_are_not_counted(memory: MemoryStore) -> None:
    replayed(memory, "first")
    head = "sha256:" + "0" * 64
    Journal.create(memory, "other", parent=ParentRun(head=head, relation="replay", run="a", seq=1))
    Journal.create(memory, "child", parent=ParentRun(head=head, relation="child", run="a", seq=1))
    assert replays_of(memory, "a") == ["c1"]
