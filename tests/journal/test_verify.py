"""Verifying a store: rows G 72-77 and chain faults 20-25."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from golden.vectors import golden_run
from kit.journals import NS, Altered, Draft, begin, call, flipped, rows_of, small_run, with_content
from kit.soak import SOAK
from onrecord.core.events import (
    ActionRequested,
    ActionSucceeded,
    Completed,
    ContentErased,
    Interrupted,
    Resumed,
    SnapshotTaken,
    StateUpdated,
    WaitCreated,
)
from onrecord.core.hashing import link_hash, render
from onrecord.core.links import link_bytes
from onrecord.core.packing import pack, unpack
from onrecord.core.state import state_link
from onrecord.errors import Damaged, InvalidInput, NotFound
from onrecord.journal.export import export_run
from onrecord.journal.import_file import import_file
from onrecord.journal.operation_records import erasure_record
from onrecord.journal.operations import OperationsJournal
from onrecord.journal.reader import JournalReader
from onrecord.journal.verify import verify_run
from onrecord.store.contract import EventRow, Head, Store
from onrecord.store.memory import MemoryStore


def test_the_line_is_exact(store: Store) -> None:
    small_run(store)
    report = verify_run(store, "r1", deep=True)
    assert str(report) == report.line == "Verification: 6/6 events verified, 0 failures, 0 mismatches - VALID"
    assert (report.events, report.verified, report.failures, report.mismatches) == (6, 6, 0, 0)
    assert report.problems == []
    assert report.first_bad_seq is None
    report.raise_if_invalid()


def test_every_kind_verifies_in_every_store(store: Store) -> None:
    golden_run(store)
    report = verify_run(store, "golden-1", deep=True)
    assert str(report) == "Verification: 45/45 events verified, 0 failures, 0 mismatches - VALID"
    assert (report.nodes, report.snapshots, report.terminal) == (1, 1, "Completed")
    assert (report.orphans, report.open_interrupts, report.open_waits) == ([], [], [])


def test_an_unknown_run_is_not_verified(store: Store) -> None:
    with pytest.raises(NotFound):
        verify_run(store, "nothing")


def test_the_counts_are_those_of_the_damage(memory: MemoryStore) -> None:
    small_run(memory)
    rows = rows_of(memory)
    rows[1] = with_content(rows[1], flipped)
    rows[4] = with_content(rows[4], flipped)
    report = verify_run(Altered(memory, rows=rows), "r1")
    assert str(report) == "Verification: 4/6 events verified, 2 failures, 0 mismatches - INVALID"
    assert [(problem.seq, problem.code) for problem in report.problems] == [(2, "bad_content"), (5, "bad_content")]
    with pytest.raises(Damaged, match="event 2") as caught:
        report.raise_if_invalid()
    assert caught.value.code == "bad_content"


# Every field of every row


def row_alterations(row: EventRow) -> dict[str, EventRow]:
    assert row.salt is not None
    assert row.match is not None
    assert row.content is not None
    made = {
        "content": with_content(row, flipped),
        "packing": row._replace(content=b"\x02" + row.content),
        "no content bytes": row._replace(content=b""),
        "salt": row._replace(salt=flipped(row.salt)),
        "match": row._replace(match=flipped(row.match)),
        "hash": row._replace(hash=flipped(row.hash)),
        "id": row._replace(id="other"),
        "kind": row._replace(kind="Cancelled" if row.kind == "Completed" else "SignalReceived"),
        "lane": row._replace(lane="main>a#6"),
        "content gone": row._replace(content=None),
        "salt gone": row._replace(salt=None),
        "match gone": row._replace(match=None),
        "all gone": row._replace(content=None, salt=None, match=None),
        "link not canonical": row._replace(link=row.link + b" "),
        "link not JSON": row._replace(link=b"{"),
        "link empty": row._replace(link=b""),
    }
    if row.prefix is not None and row.lane_seq is not None:
        made["prefix"] = row._replace(prefix=flipped(row.prefix))
        made["prefix gone"] = row._replace(prefix=None)
        made["lane_seq"] = row._replace(lane_seq=row.lane_seq + 1)
        made["no place in its lane"] = row._replace(lane_seq=None, prefix=None)
    return made


@pytest.mark.parametrize(
    "field", list(row_alterations(EventRow(1, "", "", "main", 1, b"", b"a", b"a", b"a", b"a", b"\0a")))
)
def test_an_altered_field_is_found_and_located(memory: MemoryStore, field: str) -> None:
    small_run(memory)
    original = rows_of(memory)
    for index, row in enumerate(original):
        altered = row_alterations(row).get(field)
        assert altered is not None
        assert altered != row
        report = verify_run(Altered(memory, rows=[*original[:index], altered, *original[index + 1 :]]), "r1")
        assert not report.valid
        assert report.first_bad_seq == row.seq
        assert report.line.endswith("INVALID")


def test_every_bit_of_links_and_digests(memory: MemoryStore) -> None:
    begin(memory).append(call(1, "q", "a"))
    original = rows_of(memory)
    for index, row in enumerate(original):
        for name in ("link", "hash", "salt", "match", "prefix", "content"):
            data: bytes = getattr(row, name)
            for bit in range(0, 8 * len(data), 1 if SOAK else 11):
                altered = row._replace(**{name: flipped(data, bit // 8, 1 << bit % 8)})
                rows = [*original[:index], altered, *original[index + 1 :]]
                report = verify_run(Altered(memory, rows=rows), "r1")
                assert report.first_bad_seq == row.seq, (name, bit)


def header_alterations(row: Any) -> dict[str, Any]:
    return {
        "header": {"header": flipped(row.header, row.header.index(b"created") + 12)},
        "header not canonical": {"header": row.header + b" "},
        "hash": {"hash": flipped(row.hash)},
        "salt": {"salt": flipped(row.salt)},
        "match": {"match": flipped(row.match)},
        "facts": {"content": flipped(row.content)},
        "facts empty": {"content": b""},
        "facts gone": {"content": None, "salt": None, "match": None},
        "created": {"created": row.created + 1},
        "kind": {"kind": "operations"},
        "run": {"header": row.header.replace(b'"run":"r1"', b'"run":"r2"')},
    }


def test_an_altered_header_is_found_at_seq_0(memory: MemoryStore) -> None:
    small_run(memory, facts={"agent": "a"})
    row = memory.run_row(NS, "r1")
    assert row is not None
    for name, changes in header_alterations(row.header).items():
        report = verify_run(Altered(memory, header=changes), "r1")
        assert report.first_bad_seq == 0, name
        assert not report.valid


def test_a_header_replaced_with_its_hash_does_not_fit_the_first_event(memory: MemoryStore) -> None:
    small_run(memory, "r1", facts={"agent": "a"})
    small_run(memory, "r2", facts={"agent": "b"})
    other = memory.run_row(NS, "r2")
    assert other is not None
    report = verify_run(Altered(memory, header=other.header._asdict()), "r1")
    assert not report.valid


# Events as a whole


def located(memory: MemoryStore, rows: list[EventRow]) -> int | None:
    report = verify_run(Altered(memory, rows=rows), "r1")
    assert not report.valid
    return report.first_bad_seq


def test_swapped_dropped_and_duplicated_events_are_located(memory: MemoryStore) -> None:
    small_run(memory)
    rows = rows_of(memory)
    for index in range(5):
        seq = index + 1
        one, two = rows[index], rows[index + 1]
        whole_swap = [*rows[:index], two._replace(seq=seq), one._replace(seq=seq + 1), *rows[index + 2 :]]
        assert located(memory, whole_swap) == seq
        assert located(memory, [*rows[:index], *rows[index + 1 :]]) == seq
        renumbered = [row._replace(seq=number) for number, row in enumerate([*rows[:index], *rows[index + 1 :]], 1)]
        assert located(memory, renumbered) == seq
        doubled = [*rows[: index + 1], rows[index]._replace(seq=seq + 1), *rows[index + 1 :]]
        doubled = [row._replace(seq=number) for number, row in enumerate(doubled, 1)]
        assert located(memory, doubled) == seq + 1


def test_contents_swapped_between_two_events_are_located(memory: MemoryStore) -> None:
    begin(memory).append([StateUpdated(1), StateUpdated(2), StateUpdated(3)])
    rows = rows_of(memory)
    beside = ("content", "salt", "match")
    swapped = [
        rows[0],
        rows[1]._replace(**{name: getattr(rows[2], name) for name in beside}),
        rows[2]._replace(**{name: getattr(rows[1], name) for name in beside}),
    ]
    assert located(memory, swapped) == 2


def test_the_tail_of_another_run_is_located(memory: MemoryStore) -> None:
    small_run(memory, "r1")
    small_run(memory, "r2")
    rows, others = rows_of(memory, "r1"), rows_of(memory, "r2")
    for cut in range(6):
        assert located(memory, [*rows[:cut], *others[cut:]]) == cut + 1


def rehashed(rows: list[EventRow], reader: JournalReader, **changes: Any) -> list[EventRow]:
    """The chain made right again after links were changed: only what stands in them can betray it."""
    made, prev = [], reader.header_row.hash
    for row in rows:
        import msgspec

        link = msgspec.structs.replace(
            reader.link(row), prev="sha256:" + prev.hex(), seq=len(made) + 1, **changes.get(row.id, {})
        )
        data = link_bytes(link)
        prev = link_hash(data)
        made.append(row._replace(seq=link.seq, link=data, hash=prev, kind=link.kind, lane=link.lane))
    return made


def test_a_dropped_event_with_the_chain_made_right_again_needs_a_head(memory: MemoryStore) -> None:
    """Whoever rewrites everything is caught only by what was kept elsewhere, and verify says so."""
    journal = begin(memory)
    journal.append([Draft(ActionRequested(f"a{n}", n), id=f"e{n}") for n in range(4)])
    head = journal.head()
    reader = JournalReader(memory, "r1")
    rows = rehashed([row for row in rows_of(memory) if row.id != "e3"], reader)
    forged = Altered(memory, rows=rows)
    report = verify_run(forged, "r1")
    assert report.valid
    assert report.notes == ["verified to seq 3, nothing later to compare with"]
    report = verify_run(forged, "r1", expected=head)
    assert not report.valid
    assert report.first_bad_seq == 4


def test_an_event_after_the_end_is_found_though_it_chains(memory: MemoryStore) -> None:
    begin(memory).append([Draft(StateUpdated(1), id="e1"), Draft(ActionRequested("a", 1), id="e2")])
    # The kind of the first one is made terminal in link and row; everything chains, nothing may follow it.
    rows = rehashed(rows_of(memory), JournalReader(memory, "r1"), e1={"kind": "Completed"})
    report = verify_run(Altered(memory, rows=rows), "r1")
    assert "after_end" in {problem.code for problem in report.problems if problem.seq == 2}


@pytest.mark.parametrize(
    ("member", "value"),
    [
        *(("time", -1), ("time", 2**53), ("id", "no spaces"), ("id", ""), ("id", "x" * 65)),
        *(("lane", "0.1"), ("lane", ""), ("parent", 2), ("parent", 0), ("key", "k" * 1025), ("run", "r2")),
    ],
)
def test_a_link_that_breaks_a_rule_is_found_though_it_chains(memory: MemoryStore, member: str, value: Any) -> None:
    from onrecord.core.events import TurnTaken

    begin(memory).append([Draft(StateUpdated(1), id="e1"), Draft(TurnTaken([]), id="e2")])
    rows = rehashed(rows_of(memory), JournalReader(memory, "r1"), e2={member: value})
    if member == "id":
        rows[1] = rows[1]._replace(id=value)
    assert located(memory, rows) == 2


# Truncation


def test_truncation_is_found_against_an_expected_head(store: Store) -> None:
    journal = begin(store)
    for number in range(4):
        journal.append(StateUpdated(number))
    head = journal.head()
    rows = rows_of(store)
    for kept in range(4):
        cut = Altered(store, rows=rows[:kept])
        report = verify_run(cut, "r1")
        assert report.valid
        assert f"verified to seq {kept}, nothing later to compare with" in report.notes
        report = verify_run(cut, "r1", expected=head)
        assert (report.valid, report.first_bad_seq) == (False, 4)


def test_an_expected_head_is_compared(store: Store) -> None:
    journal = small_run(store)
    heads = [Head(0, journal.header_row.hash), *(Head(row.seq, row.hash) for row in rows_of(store))]
    for head in heads:
        report = verify_run(store, "r1", expected=head)
        assert report.valid
        assert report.expected_head
        bad = verify_run(store, "r1", expected=Head(head.seq, flipped(head.hash)))
        assert (bad.valid, bad.first_bad_seq, bad.mismatches) == (False, head.seq, 1)
    with pytest.raises(InvalidInput):
        verify_run(store, "r1", expected=Head(-1, bytes(32)))


def test_a_run_that_ended_needs_no_head(store: Store) -> None:
    small_run(store)
    report = verify_run(store, "r1")
    assert (report.terminal, report.notes) == ("Completed", [])


# Nodes, artifacts


def test_missing_and_altered_nodes_are_failures_of_the_event_that_needs_them(memory: MemoryStore) -> None:
    small_run(memory)
    ((address, blob),) = memory.all_nodes(NS)
    for damage in (None, flipped(blob, -3), pack(b'"another text"'), b"", b"\x05"):
        report = verify_run(Altered(memory, nodes={address: damage}), "r1")
        assert (report.first_bad_seq, report.failures, report.mismatches) == (2, 1, 0)
        assert report.verified == 5


def test_every_event_that_needs_a_missing_node_is_not_verified(memory: MemoryStore) -> None:
    shared = [{"text": f"{n} " + "word " * 240} for n in range(3)]
    begin(memory).append([StateUpdated({"list": shared}), StateUpdated({"list": shared}), StateUpdated(1)])
    nodes = {row.address: unpack(row.blob) for row in memory.all_nodes(NS)}
    leaf = next(address for address, stored in nodes.items() if stored.startswith(b'"1 '))
    report = verify_run(Altered(memory, nodes={leaf: None}), "r1")
    assert [problem.seq for problem in report.problems] == [1, 2]
    assert report.verified == 1


def test_a_node_in_a_compressed_frame_is_checked_bit_by_bit(memory: MemoryStore) -> None:
    begin(memory).append(StateUpdated("word " * 400))
    ((address, blob),) = memory.all_nodes(NS)
    assert blob[0] == 2, "compressed"
    for bit in range(8 * len(blob)):
        report = verify_run(Altered(memory, nodes={address: flipped(blob, bit // 8, 1 << bit % 8)}), "r1")
        assert report.first_bad_seq == 1, bit


def test_missing_and_altered_artifacts_are_named(store: Store) -> None:
    begin(store).append([StateUpdated(1), *call(1, bytes(70_000), b"x" * 80_000)])
    assert verify_run(store, "r1").artifacts == 2
    for address in store.all_artifacts(NS):
        data = store.artifact(NS, address)
        assert data is not None
        seq = 2 if len(data) == 70_000 else 3
        for damage, code in ((None, "missing_artifact"), (flipped(data), "bad_artifact"), (b"", "bad_artifact")):
            report = verify_run(Altered(store, artifacts={address: damage}), "r1")
            assert [(problem.seq, problem.code) for problem in report.problems] == [(seq, code)]


def test_an_artifact_inside_a_shared_node_is_looked_at_too(memory: MemoryStore) -> None:
    begin(memory).append(StateUpdated({"list": [bytes(70_000), *("word " * 20 for _ in range(30))]}))
    (address,) = memory.all_artifacts(NS)
    assert verify_run(Altered(memory, artifacts={address: None}), "r1").first_bad_seq == 1


# Deep


def test_deep_recomputes_what_is_only_claimed(memory: MemoryStore) -> None:
    """A writer that lies about the match digest commits to the lie; only recomputing finds it."""
    from onrecord.core.matching import MatchRules

    journal = begin(memory)
    journal.append(StateUpdated(1))
    honest = journal._chain.rules.match

    class Lying(MatchRules):
        def match(self, kind: str, content: Any, **more: Any) -> bytes:
            return bytes(32) if kind == "SignalReceived" else honest(kind, content, **more)

    from onrecord.core.events import SignalReceived

    journal._chain.rules = Lying()
    journal.append([SignalReceived("s", 1), Completed()])
    assert verify_run(memory, "r1").valid
    report = verify_run(memory, "r1", deep=True)
    assert [(problem.seq, problem.code) for problem in report.problems] == [(2, "bad_match")]
    assert report.deep


def test_deep_verifies_runs_with_rules_of_their_own(store: Store) -> None:
    journal = begin(store, volatile=[("*", "/payload/*/date"), ("ActionSucceeded", "/output")])
    journal.append([*call(1, [{"date": 1}], "x"), StateUpdated({"a": {"date": 1}})])
    assert verify_run(store, "r1", deep=True).valid


# Pairing


def test_orphans_are_reported_and_no_error(store: Store) -> None:
    """What a crash leaves: a request without a result."""
    journal = begin(store)
    journal.append([ActionRequested("a1", 1), ActionRequested("a2", 2), ActionSucceeded("a2", 2)])
    report = verify_run(store, "r1")
    assert report.valid
    assert report.orphans == [1]
    journal.append(ActionSucceeded("a1", 1))
    assert verify_run(store, "r1").orphans == []


def test_a_blocked_run_is_valid(store: Store) -> None:
    journal = begin(store)
    journal.append([Interrupted("may I?"), WaitCreated("w1", "approval")])
    report = verify_run(store, "r1")
    assert (report.valid, report.open_interrupts, report.open_waits) == (True, [1], [2])
    journal.append(Resumed("yes"))
    assert verify_run(store, "r1").open_interrupts == []


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"e3": {"parent": None}}, "orphan_answer"),
        ({"e3": {"parent": 1}}, "orphan_answer"),
        ({"e3": {"kind": "Resumed"}}, "orphan_answer"),
    ],
)
def test_an_answer_to_nothing_is_located_though_it_chains(memory: MemoryStore, changes: Any, code: str) -> None:
    events = [Interrupted("?"), ActionRequested("a1", 1), ActionSucceeded("a1", 1)]
    begin(memory).append([Draft(event, id=f"e{n}") for n, event in enumerate(events, 1)])
    rows = rehashed(rows_of(memory), JournalReader(memory, "r1"), **changes)
    report = verify_run(Altered(memory, rows=rows), "r1")
    assert (3, code) in {(problem.seq, problem.code) for problem in report.problems}


def test_a_request_answered_twice_is_located(memory: MemoryStore) -> None:
    events = [ActionRequested("a1", 1), ActionRequested("a2", 1), ActionSucceeded("a1", 1), ActionSucceeded("a2", 1)]
    begin(memory).append([Draft(event, id=f"e{n}") for n, event in enumerate(events, 1)])
    rows = rehashed(rows_of(memory), JournalReader(memory, "r1"), e4={"parent": 1})
    report = verify_run(Altered(memory, rows=rows), "r1")
    assert (4, "orphan_answer") in {(problem.seq, problem.code) for problem in report.problems}


# Missing contents


def test_a_missing_content_without_a_record_is_damage(memory: MemoryStore) -> None:
    small_run(memory)
    rows = rows_of(memory)
    rows[2] = rows[2]._replace(content=None, salt=None, match=None)
    report = verify_run(Altered(memory, rows=rows), "r1")
    assert [(problem.seq, problem.code) for problem in report.problems if problem.sort == "failure"] == [
        (3, "missing_content")
    ]
    # A record of another run's or another event's erasure proves nothing.
    header = JournalReader(memory, "r1").header_row.hash
    OperationsJournal.open_for(memory).note(ContentErased([["r1", 2, render(header)], ["r2", 3, render(header)]], "x"))
    assert not verify_run(Altered(memory, rows=rows), "r1").valid


def test_a_damaged_operations_journal_is_a_problem_and_no_crash(memory: MemoryStore) -> None:
    small_run(memory)
    OperationsJournal.open_for(memory).note(erasure_record("r1", [3], JournalReader(memory, "r1").header_row.hash, "x"))
    rows = rows_of(memory)
    rows[2] = rows[2]._replace(content=None, salt=None, match=None)
    operations = rows_of(memory, "operations")
    broken = Altered(memory, "operations", rows=[with_content(operations[0], flipped)])
    report = verify_run(Altered(broken, "r1", rows=rows), "r1")  # type: ignore[arg-type]
    assert report.first_bad_seq == 3


def test_progress_is_told(memory: MemoryStore) -> None:
    begin(memory).append([StateUpdated(n) for n in range(10)])
    told: list[tuple[int, int]] = []
    verify_run(memory, "r1", progress=lambda done, total: told.append((done, total)))
    assert told[-1] == (10, 10)


def test_two_runs_that_were_swapped_are_found(memory: MemoryStore) -> None:
    """Also when both are marked as imported, which would allow another id than the header's: no import is on record."""
    small_run(memory, "r1")
    small_run(memory, "r2")
    runs = memory._spaces["default"].runs
    runs["r1"], runs["r2"] = runs["r2"], runs["r1"]
    for name, run in runs.items():
        run.header = run.header._replace(run=name, imported=True)
    for name in ("r1", "r2"):
        report = verify_run(memory, name)
        assert report.first_bad_seq == 0, name


def test_the_mark_of_an_import_is_covered(memory: MemoryStore, tmp_path: Path) -> None:
    other = MemoryStore()
    small_run(other)
    path = tmp_path / "f.jsonl"
    export_run(JournalReader(other, "r1"), path)
    import_file(memory, path)
    assert verify_run(memory, "r1", deep=True).valid
    run = memory._spaces["default"].runs["r1"]
    run.header = run.header._replace(imported=False)
    assert verify_run(memory, "r1").first_bad_seq == 0


def test_events_before_the_first_are_found(memory: MemoryStore) -> None:
    small_run(memory)
    rows = rows_of(memory)
    for seq in (0, -5):
        forged = [rows[0]._replace(seq=seq, id=f"x{-seq}"), *rows]
        assert verify_run(Altered(memory, rows=forged), "r1").first_bad_seq == seq  # type: ignore[arg-type]


def test_stretches_agree_with_the_whole_on_answers_and_vouchers(memory: MemoryStore) -> None:
    """What reaches over the ends of a stretch is judged by kind, too."""
    from onrecord.journal.verify import _make_range_verifier, merge_results

    journal = begin(memory)
    journal.append([StateUpdated({"n": 1}), ActionRequested("a", 1), Interrupted("?")])
    salt = bytes(range(16))
    journal.append(Draft(SnapshotTaken(3, "replace/1", 1, state_link({"n": 99}, salt)), salt=salt))
    journal.append([Resumed("ok"), ActionSucceeded("a", 2), Completed()])
    rows = rehashed(rows_of(memory), JournalReader(memory, "r1"), **{rows_of(memory)[4].id: {"parent": 2}})
    store = Altered(memory, rows=rows)
    results = []
    for start, stop in ((1, 4), (4, 8)):
        verifier = _make_range_verifier(store, "r1", NS, start, stop, False, None, {})  # type: ignore[arg-type]
        verifier.feed(store.scan(NS, "r1", start, stop))  # type: ignore[attr-defined]
        results.append(verifier.result)
    found = {(problem.seq, problem.code) for problem in merge_results("r1", results, [], 7).problems}
    assert {(4, "bad_snapshot"), (5, "orphan_answer")} <= found


def test_a_row_that_the_store_cannot_give_is_damage_at_its_place(memory: MemoryStore) -> None:
    small_run(memory)

    class Failing(Altered):
        def scan(self, namespace: str, run: str, start: int = 1, stop: int | None = None, **more: Any) -> Any:
            for row in memory.scan(namespace, run, start, stop, **more):
                if row.seq == 4:
                    raise Damaged("event 4 has a column of the wrong type", code="bad_row")
                yield row

    report = verify_run(Failing(memory), "r1")  # type: ignore[arg-type]
    assert (report.first_bad_seq, report.verified) == (4, 3)
    assert report.verdict == "INVALID"


def test_numbers_of_its_own_are_no_damage_however_long(memory: MemoryStore) -> None:
    begin(memory, facts={"n": 10**5000}).append([StateUpdated(10**5000), Completed()])
    assert verify_run(memory, "r1", deep=True).valid
