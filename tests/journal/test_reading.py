"""Reading: rows C 20, 21, 23, 24, 27, 28; facts; what is not right is never handed out."""

from __future__ import annotations

from typing import Any

import pytest

from golden.vectors import golden_run
from kit.journals import NS, Altered, Draft, FixedSources, begin, call, flipped, rows_of, small_run, with_content
from onrecord.core.events import KINDS, ActionRequested, Completed, StateUpdated, UnknownEvent
from onrecord.errors import BadPosition, Damaged, NotFound
from onrecord.journal.execution_log import scan_execution_trace
from onrecord.journal.journal import Journal, create_header
from onrecord.journal.reader import JournalReader
from onrecord.store.contract import Head, Store
from onrecord.store.memory import MemoryStore


def test_scan_begins_with_the_event_named(store: Store) -> None:
    small_run(store)
    reader = JournalReader(store, "r1")
    for start in range(1, 8):
        assert [event.seq for event in reader.scan(start)] == list(range(start, 7))
    assert [event.seq for event in reader.scan(2, 5)] == [2, 3, 4]


@pytest.mark.parametrize("start", [0, -1, 8, 100])
def test_a_start_that_cannot_be_is_refused(store: Store, start: int) -> None:
    small_run(store)
    with pytest.raises(BadPosition):
        list(JournalReader(store, "r1").scan(start))


def test_an_unknown_run_is_an_error_and_never_an_empty_success(store: Store) -> None:
    small_run(store)
    for run, namespace in (("r2", NS), ("r1", "other")):
        with pytest.raises(NotFound):
            JournalReader(store, run, namespace)


def test_the_head_is_the_header_before_the_first_event(store: Store) -> None:
    journal = begin(store)
    assert journal.head() == Head(0, journal.header_row.hash)
    journal.append(StateUpdated(1))
    assert journal.head() == Head(1, rows_of(store)[0].hash)


def test_every_kind_comes_back_as_it_was_written(store: Store) -> None:
    golden_run(store)
    events = list(JournalReader(store, "golden-1").scan())
    kinds = {event.kind for event in events}
    assert kinds == {
        kind for kind, cls in KINDS.items() if not cls.operations_only and kind not in ("Failed", "Cancelled")
    }
    assert all(type(event.event) is KINDS[event.kind] for event in events)
    by_seq = {event.seq: event for event in events}
    assert by_seq[2].event.draws[1] == ["main>fetch", "agent.fetch urandom", b"\x00\xff"]  # type: ignore[attr-defined]
    assert by_seq[4].key == "main/ask/0"
    assert by_seq[9].lane == "main>fetch#1"
    assert by_seq[13].event.payload == [1, 1.0, (2**70, float("inf"))]  # type: ignore[attr-defined]
    assert type(by_seq[13].event.payload[1]) is float  # type: ignore[attr-defined]
    assert isinstance(by_seq[10].event.error, ValueError)  # type: ignore[attr-defined]
    assert [e.seq for e in events if e.parent is not None] == [7, 10, 15, 17, 19, 23, 25, 30, 37, 39]


def test_what_was_appended_is_what_is_read(store: Store) -> None:
    journal = begin(store)
    sent = journal.append(
        [ActionRequested("a1", {"z": 1, "a": [1.0, 1]}, name="n", effect="e"), Completed({"t": (1,)})]
    )
    read = list(JournalReader(store, "r1").scan())
    assert read == sent
    assert list(read[0].event.payload) == ["z", "a"]  # type: ignore[attr-defined]


def test_one_event_by_its_seq(store: Store) -> None:
    small_run(store)
    reader = JournalReader(store, "r1")
    assert reader.event(3) == list(reader.scan())[2]
    for seq in (0, 7):
        with pytest.raises(BadPosition):
            reader.event(seq)


def test_facts_come_back_and_header_says_who(store: Store) -> None:
    facts = {"agent": "a", "argv": ("x",), "text": "long " * 200, "blob": bytes(70_000)}
    begin(store, facts=facts)
    reader = JournalReader(store, "r1")
    assert reader.facts() == facts
    assert (reader.header.run, reader.header.namespace, reader.header.kind) == ("r1", NS, "run")
    assert reader.header.format == "onrecord/1"
    assert not reader.imported


def test_the_trace_equals_the_log(store: Store) -> None:
    golden_run(store)
    reader = JournalReader(store, "golden-1")
    trace = list(scan_execution_trace(reader))
    log = list(reader.scan())
    assert [(t.run_id, t.seq, t.kind, t.timestamp_ms) for t in trace] == [
        ("golden-1", e.seq, e.kind, e.time // 1000) for e in log
    ]
    assert [t.action_id for t in trace if t.kind == "ActionRequested"] == ["a1", "a2", "a4", "a5", "c1", "i1"]
    assert [t.step_id for t in trace if t.kind == "StateUpdated"] == ["n1", None, None]


def test_follow_hands_out_what_comes_and_ends_with_the_run(store: Store) -> None:
    journal = begin(store)
    journal.append(StateUpdated(1))
    coming: list[list[Any]] = [[StateUpdated(2)], [], [StateUpdated(3), Completed()]]

    def sleep(_: float) -> None:
        if batch := coming.pop(0):
            journal.append(batch)

    seen = [event.seq for event in JournalReader(store, "r1").follow(sleep=sleep)]
    assert seen == [1, 2, 3, 4]
    assert coming == []


def test_follow_ends_when_nothing_comes_for_long(store: Store) -> None:
    begin(store).append(StateUpdated(1))
    clock = iter(range(100))
    slept: list[float] = []
    reader = JournalReader(store, "r1")
    seen = list(reader.follow(timeout_seconds=5, sleep=slept.append, monotonic=lambda: float(next(clock))))
    assert [event.seq for event in seen] == [1]
    assert slept


def test_reading_never_hands_out_altered_bytes(memory: MemoryStore) -> None:
    """Row 8: what is stored is checked before it is trusted."""
    small_run(memory)
    original = rows_of(memory)
    for index, row in enumerate(original):
        for altered in (
            with_content(row, flipped),
            row._replace(salt=flipped(row.salt or b"")),
            row._replace(match=flipped(row.match or b"")),
            row._replace(hash=flipped(row.hash)),
            row._replace(link=row.link.replace(b'"lane":"main"', b'"lane":"main>x"')),
        ):
            rows = [*original[:index], altered, *original[index + 1 :]]
            with pytest.raises(Damaged, match=f"event {row.seq} "):
                list(JournalReader(Altered(memory, rows=rows), "r1").scan())


def test_a_shared_value_that_is_altered_or_missing_is_not_handed_out(memory: MemoryStore) -> None:
    small_run(memory)
    ((address, blob),) = memory.all_nodes(NS)
    for damage, code in ((None, "missing_node"), (flipped(blob), None)):
        reader = JournalReader(Altered(memory, nodes={address: damage}), "r1")
        with pytest.raises(Damaged, match="event 2 ") as caught:
            list(reader.scan())
        assert code is None or caught.value.code == code


def test_altered_facts_and_headers_are_refused(memory: MemoryStore) -> None:
    small_run(memory, facts={"agent": "a"})
    row = memory.run_row(NS, "r1")
    assert row is not None
    with pytest.raises(Damaged):
        JournalReader(Altered(memory, header={"content": flipped(row.header.content or b"")}), "r1").facts()
    with pytest.raises(Damaged):
        JournalReader(Altered(memory, header={"header": row.header.header.replace(b'"r1"', b'"r2"')}), "r1")
    with pytest.raises(Damaged):
        JournalReader(Altered(memory, header={"header": row.header.header + b" "}), "r1")


def test_an_event_of_a_kind_from_the_future_is_shown_as_it_is(memory: MemoryStore) -> None:
    """Written as a later version would, by way of a kind that this version is made to forget."""
    from onrecord.core.canonical import stored_bytes
    from onrecord.core.hashing import commitment, link_hash, render
    from onrecord.core.links import Link, link_bytes
    from onrecord.core.matching import MatchRules
    from onrecord.core.packing import pack
    from onrecord.store.contract import EventRow

    journal = begin(memory)
    content = {"thought": "42"}
    salt, stored, match = bytes(16), stored_bytes(content), MatchRules().match("Telepathy", content)
    link = link_bytes(
        Link(
            content=render(commitment(salt, match, stored)),
            id="e1",
            key=None,
            kind="Telepathy",
            lane="main",
            parent=None,
            prev=render(journal.header_row.hash),
            run="r1",
            seq=1,
            time=1,
        )
    )
    row = EventRow(1, "e1", "Telepathy", "main", None, link, link_hash(link), salt, match, None, pack(stored))
    memory.append(NS, "r1", [row], expected=journal.head(), epoch=journal.epoch)
    (event,) = JournalReader(memory, "r1").scan()
    assert event.event == UnknownEvent("Telepathy", content)
    assert event.kind == "Telepathy"
    assert [line.kind for line in scan_execution_trace(JournalReader(memory, "r1"))] == ["Telepathy"]


def test_two_lanes_have_prefix_digests_of_their_own(store: Store) -> None:
    def record(run: str, order: list[str]) -> None:
        journal = begin(store, run)
        for number, lane in enumerate(order):
            journal.append(Draft(StateUpdated(order[:number].count(lane)), lane=lane))

    record("r1", ["main", "main>a", "main", "main>a"])
    record("r2", ["main>a", "main", "main>a", "main"])
    ends = [{row.lane: row.prefix for row in store.lanes(NS, run)} for run in ("r1", "r2")]
    assert ends[0] == ends[1]
    assert len(set(ends[0].values())) == 1, "the same behaviour in two lanes has one digest"


def prefixes(store: Store, run: str) -> list[bytes | None]:
    return [row.prefix for row in rows_of(store, run) if row.lane_seq is not None]


def test_equal_behaviours_have_equal_prefix_digests_at_every_position(store: Store) -> None:
    for run, holder in (("r1", "one"), ("r2", "two")):
        journal = begin(store, run, sources=FixedSources(run, holder=holder), facts={"pid": run})
        journal.append(Draft(StateUpdated({"a": 1, "b": 2} if run == "r1" else {"b": 2, "a": 1}), id=f"{run}-e"))
        for number in range(20):
            journal.append([ActionRequested(f"{run}-{number}", number)])
            if run == "r2":
                from onrecord.core.events import AttemptRecorded

                journal.append(AttemptRecorded(f"{run}-{number}", 1, "bookkeeping does not count"))
            from onrecord.core.events import ActionSucceeded

            journal.append(ActionSucceeded(f"{run}-{number}", number))
        journal.append(Completed())
    first, second = prefixes(store, "r1"), prefixes(store, "r2")
    assert len(first) == 42
    assert first == second
    assert len(set(first)) == 42


def test_swapped_answers_change_the_prefix_digests(store: Store) -> None:
    from onrecord.core.events import ActionSucceeded

    for run, order in (("r1", ["a", "b"]), ("r2", ["b", "a"])):
        journal = begin(store, run)
        journal.append([ActionRequested("a", "same"), ActionRequested("b", "same")])
        journal.append([ActionSucceeded(name, f"answer {place}") for place, name in enumerate(order)])
    first, second = prefixes(store, "r1"), prefixes(store, "r2")
    assert first[:2] == second[:2]
    assert first[2] != second[2]
    assert first[3] != second[3]
    # Ids take no part, only who was answered does.
    journal = begin(store, "r3")
    journal.append([ActionRequested("x", "same"), ActionRequested("y", "same")])
    journal.append([ActionSucceeded("x", "answer 0"), ActionSucceeded("y", "answer 1")])
    assert prefixes(store, "r3") == first


def test_a_different_answer_changes_every_digest_behind_it(store: Store) -> None:
    for run, answer in (("r1", 1), ("r2", 2)):
        begin(store, run).append([*call(1, "q", answer), *call(2, "q", 0)])
    first, second = prefixes(store, "r1"), prefixes(store, "r2")
    assert [a == b for a, b in zip(first, second, strict=True)] == [True, False, False, False]


def test_declared_volatile_paths_take_no_part(store: Store) -> None:
    volatile = [("ActionRequested", "/payload/headers/*/date"), ("*", "/output/span")]
    for run, date in (("r1", "Monday"), ("r2", "Tuesday")):
        journal = begin(store, run, volatile=volatile)
        payload = {"headers": [{"date": date, "host": "h"}], "date": "kept"}
        journal.append(call(1, payload, {"span": date, "text": "t"}))
    assert prefixes(store, "r1") == prefixes(store, "r2")
    plain = begin(store, "r3")
    plain.append(call(1, {"headers": [{"date": "Monday", "host": "h"}], "date": "kept"}, {"span": "x", "text": "t"}))
    assert prefixes(store, "r3") != prefixes(store, "r1")
    ids = [JournalReader(store, run).header.rules for run in ("r1", "r2", "r3")]
    assert ids[0] == ids[1] != ids[2] == "onrecord.rules/1"
    assert Journal.open(store, "r1", sources=FixedSources("again")).rules().volatile == sorted(volatile)


def test_a_header_can_name_the_run_it_comes_from(store: Store) -> None:
    from onrecord.core.links import ParentRun

    head = small_run(store).head()
    parent = ParentRun(head="sha256:" + head.hash.hex(), relation="fork", run="r1", seq=head.seq)
    begin(store, "r2", parent=parent)
    assert JournalReader(store, "r2").header.parent == parent
    create_header(store, "r3", NS, {}, sources=FixedSources("r3"))
    assert JournalReader(store, "r3").header.parent is None
