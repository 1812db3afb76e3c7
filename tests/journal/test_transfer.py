"""Export and import: row K 109, faults 20, 74-82. A file is hostile until every line of it has been checked."""

from __future__ import annotations

import json
import os
import random
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from golden.vectors import RECORDING, FixedSources, golden_run
from kit.journals import (
    NS,
    Altered,
    begin,
    call,
    crafted,
    everything,
    export,
    flipped,
    node_line,
    rows_of,
    small_run,
    with_content,
    written,
)
from kit.soak import SOAK, seeds
from onrecord.core.events import ActionRequested, Completed, StateUpdated, UnknownEvent
from onrecord.errors import BadRecording, Damaged, InvalidInput, NotFound, OnrecordError, Refused, RunExists
from onrecord.journal.erasure import erase_value
from onrecord.journal.export import export_run
from onrecord.journal.import_file import import_file, verify_file
from onrecord.journal.journal import Journal
from onrecord.journal.reader import JournalReader
from onrecord.journal.verify import VerificationReport, verify_run
from onrecord.store.contract import Head, Store
from onrecord.store.memory import MemoryStore

GOLDEN = RECORDING.read_bytes()
LINES = GOLDEN.split(b"\n")[:-1]


def rich_run(store: Store, run: str = "r1") -> Journal:
    """Nodes in facts and contents, artifacts, two lanes, volatile paths."""
    facts = {"agent": "rich", "text": "fact " * 200, "blob": b"f" * 70_000}
    journal = begin(store, run, facts=facts, volatile=[("*", "/payload/date")])
    messages = [{"role": "user", "content": f"{n} " + "word " * 300} for n in range(6)]
    journal.append(call(1, {"messages": messages, "date": 1}, {"blob": bytes(70_001)}))
    journal.append(call(2, {"messages": [*messages, {"role": "user", "content": "more"}]}, (1, 2**70)))
    journal.append([StateUpdated({"x": {1, 2}}), Completed("end")])
    return journal


# There and back


def test_a_run_comes_through_a_file_unchanged(store: Store, tmp_path: Path) -> None:
    rich_run(store)
    path = tmp_path / "run.jsonl"
    size = export_run(JournalReader(store, "r1"), path)
    assert path.stat().st_size == size
    assert path.stat().st_mode & 0o777 == 0o600
    assert [entry.name for entry in tmp_path.iterdir() if entry.suffix == ".tmp"] == []
    assert verify_file(path, deep=True).valid
    target = MemoryStore()
    imported = import_file(target, path)
    assert imported == ("r1", 6, False, False)
    assert export(target) == path.read_bytes()
    assert verify_run(target, "r1", deep=True).valid
    assert [row[:10] for row in rows_of(target)] == [row[:10] for row in rows_of(store)]
    here, there = JournalReader(store, "r1"), JournalReader(target, "r1")
    assert list(there.scan()) == list(here.scan())
    assert there.facts() == here.facts()
    assert there.imported
    assert there.head() == here.head()


def test_every_kind_comes_into_every_store(store: Store) -> None:
    import_file(store, RECORDING)
    assert export(store, "golden-1") == GOLDEN
    assert str(verify_run(store, "golden-1", deep=True)).endswith(
        "45/45 events verified, 0 failures, 0 mismatches - VALID"
    )


def test_prefix_digests_are_computed_and_not_taken(memory: MemoryStore) -> None:
    original = MemoryStore()
    golden_run(original)
    import_file(memory, RECORDING)
    assert [row.prefix for row in rows_of(memory, "golden-1")] == [row.prefix for row in rows_of(original, "golden-1")]


def test_importing_twice_makes_no_duplicates(store: Store) -> None:
    import_file(store, RECORDING)
    before = everything(store)
    again = import_file(store, RECORDING)
    assert (again.already_there, again.run) == (True, "golden-1")
    assert everything(store) == before


def test_a_run_without_events_can_be_imported_twice(store: Store, tmp_path: Path) -> None:
    begin(store)
    path = written(tmp_path / "empty.jsonl", export(store))
    target = MemoryStore()
    assert import_file(target, path).events == 0
    assert import_file(target, path).already_there
    assert verify_run(target, "r1").events == 0


def test_an_earlier_export_of_a_run_that_went_on_is_already_there(store: Store, tmp_path: Path) -> None:
    journal = begin(store)
    journal.append(StateUpdated(1))
    path = written(tmp_path / "early.jsonl", export(store))
    journal.append(Completed())
    assert import_file(store, path).already_there
    assert len(rows_of(store)) == 2


def test_an_id_that_is_taken_keeps_its_owner(store: Store, tmp_path: Path) -> None:
    small_run(store)
    mine = export(store)
    other = MemoryStore()
    small_run(other, sources=FixedSources("stranger"))
    theirs = export(other)
    path = written(tmp_path / "theirs.jsonl", theirs)
    imported = import_file(store, path)
    assert imported.kept_apart
    assert imported.run != "r1"
    assert export(store, "r1") == mine
    assert export(store, imported.run) == theirs
    assert verify_run(store, imported.run, deep=True).valid
    assert verify_run(store, "r1", deep=True).valid
    assert import_file(store, path) == imported._replace(already_there=True)


def test_the_same_genesis_with_another_history_is_refused(store: Store, tmp_path: Path) -> None:
    """Somebody went on from the same header with other events: not the same run, and no room under that id."""
    for name, answer in (("mine", 1), ("theirs", 2)):
        other = MemoryStore()
        begin(other).append([*call(1, "q", answer), Completed()])
        written(tmp_path / f"{name}.jsonl", export(other))
    import_file(store, tmp_path / "mine.jsonl")
    before = everything(store)
    with pytest.raises(RunExists):
        import_file(store, tmp_path / "theirs.jsonl")
    assert everything(store) == before


def test_a_run_may_be_kept_in_another_namespace(store: Store) -> None:
    import_file(store, RECORDING, "elsewhere")
    assert export(store, "golden-1", "elsewhere") == GOLDEN
    assert verify_run(store, "golden-1", "elsewhere", deep=True).valid
    with pytest.raises(NotFound):
        JournalReader(store, "golden-1")
    with pytest.raises(InvalidInput):
        import_file(store, RECORDING, "no spaces")


def test_an_imported_run_cannot_be_continued(store: Store, tmp_path: Path) -> None:
    begin(MemoryStore())
    other = MemoryStore()
    begin(other).append(StateUpdated(1))
    import_file(store, written(tmp_path / "open.jsonl", export(other)))
    with pytest.raises(Refused) as caught:
        Journal.open(store, "r1")
    assert caught.value.code == "imported_run"


def test_an_operations_journal_stays_where_it_was_written(memory: MemoryStore, tmp_path: Path) -> None:
    from golden.vectors import recordings

    path = written(tmp_path / "operations.jsonl", recordings()["operations"])
    assert verify_file(path, deep=True).valid
    with pytest.raises(BadRecording):
        import_file(memory, path)
    assert memory.namespaces() == []


def test_foreign_class_names_stay_plain_data(memory: MemoryStore, tmp_path: Path) -> None:
    """Nothing is imported or built because a file names it."""
    from onrecord.core.codec import Plain

    bait = b'{"payload":{"$object":{"type":"pathlib:Path","form":"dataclass","fields":{"x":1}}}}'
    error = b'{"payload":{"$error":{"type":"subprocess:CalledProcessError","message":"m","args":[1,"id"]}}}'
    path = written(tmp_path / "bait.jsonl", crafted([("StateUpdated", bait), ("StateUpdated", error)]))
    import_file(memory, path)
    one, two = (event.event.payload for event in JournalReader(memory, "crafted").scan())  # type: ignore[attr-defined]
    assert isinstance(one, Plain)
    assert type(two).__module__.startswith("onrecord.")


def test_a_class_of_this_program_is_built_only_for_runs_recorded_here(memory: MemoryStore, tmp_path: Path) -> None:
    from golden.vectors import Colour
    from onrecord.core.codec import Plain

    begin(memory).append(StateUpdated(Colour.RED))
    assert JournalReader(memory, "r1").event(1).event.payload is Colour.RED  # type: ignore[attr-defined]
    target = MemoryStore()
    import_file(target, written(tmp_path / "f.jsonl", export(memory)))
    assert isinstance(JournalReader(target, "r1").event(1).event.payload, Plain)  # type: ignore[attr-defined]


def test_kinds_from_the_future_are_kept_and_shown(memory: MemoryStore, tmp_path: Path) -> None:
    data = crafted([("Telepathy", b'{"thought":1}'), ("Completed", b"{}")])
    import_file(memory, written(tmp_path / "f.jsonl", data))
    assert JournalReader(memory, "crafted").event(1).event == UnknownEvent("Telepathy", {"thought": 1})
    assert export(memory, "crafted") == data
    assert verify_run(memory, "crafted", deep=True).valid


def test_notes_after_the_end_are_ignored(memory: MemoryStore, tmp_path: Path) -> None:
    path = written(tmp_path / "f.jsonl", GOLDEN + b'{"note":{"signature":"x"}}\n{"note":1}\n')
    assert verify_file(path).valid
    import_file(memory, path)
    assert verify_file(written(path, GOLDEN + b'{"note":1}\n' * 1000)).valid


# Exporting


def test_a_damaged_run_is_never_exported_as_a_whole_one(memory: MemoryStore, tmp_path: Path) -> None:
    small_run(memory)
    rows = rows_of(memory)
    gone = rows[2]._replace(content=None, salt=None, match=None)
    for name, damaged in {
        "altered": [*rows[:2], with_content(rows[2], flipped), *rows[3:]],
        "bad link": [*rows[:2], rows[2]._replace(hash=flipped(rows[2].hash)), *rows[3:]],
        "dropped": [*rows[:2], *rows[3:]],
        "swapped": [rows[0], rows[2], rows[1], *rows[3:]],
        "of another run's tail": [*rows[:3], *rows_of(memory)[4:]],
        "content missing without a record": [*rows[:2], gone, *rows[3:]],
    }.items():
        path = tmp_path / f"{name}.jsonl"
        with pytest.raises(Damaged):
            export_run(JournalReader(Altered(memory, rows=damaged), "r1"), path)
        assert not path.exists(), name
    assert list(tmp_path.iterdir()) == []


def test_facts_missing_without_a_record_are_not_exported_as_erased(memory: MemoryStore, tmp_path: Path) -> None:
    small_run(memory)
    damaged = Altered(memory, header={"content": None, "salt": None, "match": None})
    with pytest.raises(Damaged):
        export_run(JournalReader(damaged, "r1"), tmp_path / "f.jsonl")


def test_a_file_that_cannot_be_written_is_an_error_of_the_store(memory: MemoryStore, tmp_path: Path) -> None:
    from onrecord.errors import StoreUnavailable

    small_run(memory)
    with pytest.raises(StoreUnavailable):
        export_run(JournalReader(memory, "r1"), tmp_path / "missing" / "f.jsonl")


def test_artifacts_stand_in_the_order_of_the_value(memory: MemoryStore) -> None:
    """Section 8: depth first, left to right."""
    begin(memory).append(StateUpdated({"a": b"a" * 70_000, "b": b"b" * 70_000, "c": ["x" * 1200]}))
    lines = export(memory).split(b"\n")
    content = next(line for line in lines if line.startswith(b'{"seq":1'))
    wanted = re.findall(rb"sha256:[0-9a-f]{64}", content.split(b'"after"')[0])
    given = [re.findall(rb"sha256:[0-9a-f]{64}", line)[0] for line in lines if line.startswith((b'{"art', b'{"node'))]
    assert given == wanted


def test_large_artifacts_are_cut_into_parts(memory: MemoryStore, tmp_path: Path) -> None:
    data = random.Random(1).randbytes(4 * 1024 * 1024 + 5)
    begin(memory).append(StateUpdated(data))
    path = written(tmp_path / "f.jsonl", export(memory))
    assert path.read_bytes().count(b'{"artifact":') == 2
    target = MemoryStore()
    import_file(target, path)
    assert JournalReader(target, "r1").event(1).event.payload == data  # type: ignore[attr-defined]


def test_an_erased_run_can_be_exported_imported_and_verified(memory: MemoryStore, tmp_path: Path) -> None:
    begin(memory, facts={"who": "Ada Lovelace"}).append([*call(1, "hello Ada Lovelace", "x"), Completed()])
    erase_value(memory, "Ada Lovelace", reason="asked for")
    path = written(tmp_path / "f.jsonl", export(memory))
    assert b"Lovelace" not in path.read_bytes()
    report = verify_file(path, deep=True)
    assert report.valid
    assert report.erased == [1]
    assert any("erased" in note for note in report.notes)
    target = MemoryStore()
    import_file(target, path)
    assert export(target) == path.read_bytes()
    assert verify_run(target, "r1", deep=True).valid, "a file that verified is not damaged by being imported"


# Hostile files


def assert_refused(
    memory: MemoryStore, path: Path, data: bytes, *, match: str = "", seconds: float = 60.0
) -> OnrecordError:
    written(path, data)
    begun = time.monotonic()
    with pytest.raises(Damaged) as caught:
        import_file(memory, path)
    assert time.monotonic() - begun < seconds
    assert isinstance(caught.value, BadRecording)
    assert memory.namespaces() == []
    assert list(memory.all_nodes(NS)) == list(memory.all_artifacts(NS)) == []
    assert re.search(match, str(caught.value)), caught.value
    assert "\n" not in str(caught.value)
    return caught.value


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "hostile.jsonl"


def test_a_file_cut_at_any_line_or_inside_one_is_refused(memory: MemoryStore, path: Path) -> None:
    for count in range(len(LINES)):
        assert_refused(memory, path, b"".join(line + b"\n" for line in LINES[:count]))
    for cut in range(0, len(GOLDEN), 97):
        assert_refused(memory, path, GOLDEN[:cut])
    assert_refused(memory, path, GOLDEN[:-1])


def test_a_missing_doubled_or_moved_line_is_refused(memory: MemoryStore, path: Path) -> None:
    for number, line in enumerate(LINES):
        without = [*LINES[:number], *LINES[number + 1 :]]
        assert_refused(memory, path, b"".join(each + b"\n" for each in without))
        doubled = [*LINES[: number + 1], line, *LINES[number + 1 :]]
        assert_refused(memory, path, b"".join(each + b"\n" for each in doubled))
        if number and not any(each.startswith(b'{"node":') for each in LINES[number - 1 : number + 1]):
            swapped = [*LINES[: number - 1], line, LINES[number - 1], *LINES[number + 1 :]]
            assert_refused(memory, path, b"".join(each + b"\n" for each in swapped))


EXTRA = [
    b"",
    b" ",
    b"{}",
    b"null",
    b'{"note":1}',
    b'{"seq":23,"kind":"Completed","stored":{}}',
    b'{"node":"sha256:' + b"0" * 64 + b'","stored":1}',
    node_line(b'"not needed by anybody"')[1],
]


@pytest.mark.parametrize("extra", EXTRA)
def test_an_additional_line_is_refused_wherever_it_stands(memory: MemoryStore, path: Path, extra: bytes) -> None:
    for number in range(len(LINES) + 1):
        if extra == b'{"note":1}' and number == len(LINES):
            continue
        lines = [*LINES[:number], extra, *LINES[number:]]
        assert_refused(memory, path, b"".join(line + b"\n" for line in lines))


def test_too_many_notes_are_refused(memory: MemoryStore, path: Path) -> None:
    assert_refused(memory, path, GOLDEN + b'{"note":1}\n' * 1001)
    assert_refused(memory, path, GOLDEN + b'{"note":\n')
    assert_refused(memory, path, GOLDEN + b'{"note":1,"note":2}\n')


def test_a_node_out_of_its_place_is_refused(memory: MemoryStore, path: Path) -> None:
    """A node stands right before the first event that needs it, those of the facts right behind line 1."""
    at = next(number for number, line in enumerate(LINES) if line.startswith(b'{"node":'))
    for place in (1, 2):
        lines = [*LINES[:at], *LINES[at + 1 :]]
        lines.insert(place, LINES[at])
        assert_refused(memory, path, b"".join(line + b"\n" for line in lines))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"format":1', b'"format":2'),
        (b'{"onrecord"', b'\xef\xbb\xbf{"onrecord"'),
        (b'{"onrecord"', b' {"onrecord"'),
        (b'"kind":"run"', b'"kind":"other"'),
        (b'"parent":null,"reducer"', b'"parent":{},"reducer"'),
        (b'"run":"golden-1"},', b'"run":"golden-1","more":1},'),
        (b'"rules":"onrecord.rules/1"', b'"rules":"onrecord.rules/2"'),
        (b'"agent":"golden"', b'"agent":"golden","agent":"golden"'),
        (b'"agent":"golden"', b'"agent":NaN'),
        (b'"stored":{"agent', b'"stored": {"agent'),
        (b'"salt":"', b'"salt":null,"x":"'),
        (b"\n", b"\r\n"),
        (b"\n", b"\n\n"),
    ],
)
def test_a_wrong_first_line_is_refused(memory: MemoryStore, path: Path, old: bytes, new: bytes) -> None:
    assert old in GOLDEN
    assert_refused(memory, path, GOLDEN.replace(old, new, 1))


def deep_json(depth: int) -> bytes:
    return b'{"payload":' + b"[" * depth + b"]" * depth + b"}"


def laughing() -> tuple[list[bytes], str]:
    lines, address = [], ""
    address, line = node_line(b'"' + b"ha" * 300 + b'"')
    lines.append(line)
    for _ in range(30):
        address, line = node_line(b'[{"$node":"%s"},{"$node":"%s"}]' % (address.encode(), address.encode()))
        lines.append(line)
    return lines, address


def test_a_billion_laughs_is_refused(memory: MemoryStore, path: Path) -> None:
    lines, address = laughing()
    event = ("SignalReceived", b'{"name":"n","payload":{"$node":"%s"}}' % address.encode())
    assert_refused(memory, path, crafted([event], lines={1: lines}))


def test_values_nested_too_deep_through_nodes_are_refused(memory: MemoryStore, path: Path) -> None:
    address, line = node_line(b"[" * 600 + b"]" * 600)
    lines = [line]
    nested = b"[" * 600 + b'{"$node":"%s"}' % address.encode() + b"]" * 600
    address, line = node_line(nested)
    lines.append(line)
    event = ("SignalReceived", b'{"name":"n","payload":{"$node":"%s"}}' % address.encode())
    assert_refused(memory, path, crafted([event], lines={1: lines}))


HOSTILE: dict[str, tuple[str, bytes]] = {
    "1,001 levels": ("SignalReceived", deep_json(1001)),
    "100,000 levels": ("SignalReceived", deep_json(100_000)),
    "a million digits": ("SignalReceived", b'{"name":"n","payload":' + b"9" * 1_000_000 + b"}"),
    "1e400": ("SignalReceived", b'{"name":"n","payload":1e400}'),
    "an integer beyond 2^53": ("SignalReceived", b'{"name":"n","payload":9007199254740993}'),
    "NaN": ("SignalReceived", b'{"name":"n","payload":NaN}'),
    "duplicate keys": ("SignalReceived", b'{"name":"n","payload":1,"payload":2}'),
    "duplicate keys inside": ("SignalReceived", b'{"name":"n","payload":{"a":1,"\\u0061":2}}'),
    "a lone surrogate": ("SignalReceived", b'{"name":"n","payload":"\\ud800"}'),
    "bytes that are no UTF-8": ("SignalReceived", b'{"name":"n","payload":"\xff"}'),
    "something after the value": ("SignalReceived", b'{"name":"n","payload":1}{}'),
    "a member that is missing": ("ActionRequested", b'{"action_id":"a1"}'),
    "no state": ("StateUpdated", b"{}"),
    "a reference that is none": ("SignalReceived", b'{"name":"n","payload":{"$node":5}}'),
    "a list of references that is none": ("SignalReceived", b'{"name":"n","payload":{"$list":{}}}'),
    "a missing node": ("SignalReceived", b'{"name":"n","payload":{"$node":"sha256:%s"}}' % (b"0" * 64)),
    "a missing artifact": (
        "SignalReceived",
        b'{"name":"n","payload":{"$artifact":{"digest":"sha256:%s","size":1,"type":"bytes"}}}' % (b"0" * 64),
    ),
    "a tag that holds something else": ("SignalReceived", b'{"name":"n","payload":{"$int":5}}'),
    "white space": ("SignalReceived", b'{"name":"n", "payload":1}'),
    "operations in a run": ("ContentErased", b'{"contents":[],"reason":"r"}'),
    "an answer to nothing": ("ActionSucceeded", b'{"action_id":"a1","output":1}'),
}


@pytest.mark.parametrize("name", list(HOSTILE))
def test_hostile_contents_are_refused(memory: MemoryStore, path: Path, name: str) -> None:
    assert_refused(memory, path, crafted([HOSTILE[name]]))


def test_the_crafted_file_is_good_when_nothing_is_wrong_with_it(memory: MemoryStore, path: Path) -> None:
    """The counterpart of all refusals here."""
    data = crafted([("SignalReceived", b'{"name":"n","payload":[1,1.0]}'), ("Completed", b"{}")])
    assert import_file(memory, written(path, data)).events == 2
    assert verify_run(memory, "crafted", deep=True).valid


@pytest.mark.parametrize(
    ("stored", "node"),
    [
        (b'{"$node":"ADDRESS"}', b"[1]"),
        (b'{"$node":"ADDRESS"}', b'{"name":"n","payload":1}'),
        (b'{"$list":["ADDRESS"]}', b"[1]"),
        (b'{"name":"n","payload":{"$list":["ADDRESS"]}}', b'"text"'),
        (b'{"name":"n","payload":{"$string":["ADDRESS"]}}', b"[1]"),
        (b'{"name":"n","payload":{"$node":"ADDRESS"}}', b'{"a":1,"a":2}'),
        (b'{"name":"n","payload":{"$node":"ADDRESS"}}', b"[1] "),
        (b'{"name":"n","payload":{"$node":"ADDRESS"}}', b"not json"),
    ],
)
def test_references_to_the_wrong_thing_are_refused(memory: MemoryStore, path: Path, stored: bytes, node: bytes) -> None:
    address, line = node_line(node)
    event = ("SignalReceived", stored.replace(b"ADDRESS", address.encode()))
    assert_refused(memory, path, crafted([event], lines={1: [line]}))


TWO = [("SignalReceived", b'{"name":"n","payload":1}'), ("SignalReceived", b'{"name":"n","payload":2}')]


@pytest.mark.parametrize(
    "link",
    [
        *({"time": -1}, {"time": 2**53}, {"time": 1.5}, {"time": "1"}, {"id": "a b"}, {"id": "e1"}, {"id": "x" * 65}),
        *({"lane": "00"}, {"lane": ""}, {"lane": 0}, {"parent": 2}, {"parent": 0}, {"parent": -1}, {"key": "k" * 1025}),
        *(
            {"key": 5},
            {"run": "other"},
            {"seq": 3},
            {"seq": 1},
            {"kind": "Completed"},
            {"more": 1},
            {"key": "k" * 20_000},
        ),
    ],
)
def test_links_that_break_a_rule_are_refused_though_they_chain(memory: MemoryStore, path: Path, link: Any) -> None:
    refused = assert_refused(memory, path, crafted(TWO, links={2: link}))
    assert "event 2" in str(refused)


def test_a_link_that_is_not_canonical_is_refused_though_it_is_hashed_as_it_stands(
    memory: MemoryStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = json.dumps
    for spelling in (
        lambda value, **more: real(dict(reversed(value.items())), **{**more, "sort_keys": False}),
        lambda value, **more: real(value, **{**more, "separators": (", ", ":")}),
        lambda value, **more: real(value, **more).replace('"SignalReceived"', '"\\u0053ignalReceived"'),
        lambda value, **more: real(value, **more).replace('"seq":2', '"seq":2.0'),
    ):
        with monkeypatch.context() as patched:
            patched.setattr(json, "dumps", spelling)
            data = crafted(TWO)
        assert_refused(memory, path, data)


def test_an_event_after_the_end_is_refused(memory: MemoryStore, path: Path) -> None:
    for kind in ("Completed", "Failed", "Cancelled"):
        refused = assert_refused(memory, path, crafted([(kind, b'{"error":1}'), TWO[1]]))
        assert "event 2" in str(refused)


def test_a_match_digest_that_is_a_lie_is_refused(memory: MemoryStore, path: Path) -> None:
    assert_refused(memory, path, crafted(TWO, match=lambda *_: bytes(32)), match="event 1")


def test_facts_that_are_no_facts_are_refused(memory: MemoryStore, path: Path) -> None:
    for facts in (
        b'{"volatile":5}',
        b'{"volatile":[["*","no pointer"]]}',
        b'{"volatile":[["*"]]}',
        b'{"$tuple":[1]}',
        b'{"volatile":[["*","/payload"]]}',
        b'{"n":9007199254740993}',
    ):
        assert_refused(memory, path, crafted(TWO, facts=facts))


def test_a_header_with_a_bad_name_is_refused(memory: MemoryStore, path: Path) -> None:
    for run in ("../../etc/passwd", "a b", "", "x" * 129, "a\n", "-x"):
        assert_refused(memory, path, crafted(TWO, run=run))


def test_a_run_that_calls_itself_operations_is_kept_apart(memory: MemoryStore, path: Path) -> None:
    imported = import_file(memory, written(path, crafted(TWO, run="operations")))
    assert imported.kept_apart
    operations = memory.run_row(NS, "operations")
    assert operations is not None
    assert operations.header.kind == "operations", "the name stays with its owner"


def test_the_commitment_of_a_long_file_is_checked_to_the_end(memory: MemoryStore, path: Path) -> None:
    data = crafted([("SignalReceived", b'{"name":"n","payload":%d}' % n) for n in range(1200)])
    assert_refused(memory, path, data.replace(b'"payload":1199}', b'"payload":1198}'), match="event 1200")
    import_file(memory, written(path, data))
    assert len(rows_of(memory, "crafted")) == 1200


def artifact_file() -> tuple[bytes, bytes]:
    store = MemoryStore()
    begin(store).append([StateUpdated(b"z" * 65_537), Completed()])
    data = export(store)
    return data, next(line for line in data.split(b"\n") if line.startswith(b'{"artifact":'))


def test_artifacts_are_checked_to_the_last_bit_of_their_base64(memory: MemoryStore, path: Path) -> None:
    data, line = artifact_file()
    assert line.endswith(b'="}')
    assert_refused(memory, path, data.replace(line, line.replace(b"enp6", b"enp7", 1)))
    tail = data.index(line) + len(line) - 12
    for at in range(tail, tail + 12):
        for bit in range(8):
            assert_refused(memory, path, flipped(data, at, 1 << bit))


def test_parts_of_artifacts_are_as_the_format_says(memory: MemoryStore, path: Path) -> None:
    data, line = artifact_file()
    head, base64_text = line.split(b'"base64":"')
    text = base64_text.removesuffix(b'"}')
    part = head.replace(b'"parts":1,"part":0', b'"parts":%d,"part":%d') + b'"base64":"%s"}'
    pieces = {
        "cut small": [part % (2, 0, text[:400]), part % (2, 1, text[400:])],
        "an empty part more": [line, part % (2, 1, b"")],
        "parts that disagree": [part % (3, 0, text[:400]), part % (2, 1, text[400:])],
        "a part twice": [line, line],
        "the second first": [part % (2, 1, text[400:]), part % (2, 0, text[:400])],
        "one part missing": [part % (2, 0, text)],
        "not base64": [part % (1, 0, b"*" + text[1:])],
        "no part": [],
    }
    for lines in pieces.values():
        assert_refused(
            memory, path, data.replace(line, b"\n".join(lines)) if lines else data.replace(line + b"\n", b"")
        )


def test_what_is_no_regular_file_is_refused(memory: MemoryStore, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    for odd in (tmp_path / "fifo", tmp_path, Path("/dev/zero")):
        with pytest.raises(OnrecordError):
            import_file(memory, odd)
    with pytest.raises(NotFound):
        import_file(memory, tmp_path / "nothing")
    for data in (b"", b"\n", b"{}\n", b"SQLite format 3\x00", b"\x80\x04\x95", b"!!python/object:os.system\n"):
        assert_refused(memory, tmp_path / "odd", data)


def test_an_endless_line_is_refused_before_it_is_read_whole(memory: MemoryStore, path: Path) -> None:
    with path.open("wb") as file:
        file.write(LINES[0] + b"\n")
        file.truncate(1 << 30)
    with pytest.raises(BadRecording):
        import_file(memory, path)


def test_a_failing_store_is_left_as_it_was(tmp_path: Path) -> None:
    """Atomic: when the store refuses in the middle, nothing of the file is there, artifacts included."""
    source = MemoryStore()
    rich_run(source)
    path = written(tmp_path / "f.jsonl", export(source))

    class Failing(MemoryStore):
        def import_run(self, namespace: str, header: Any, nodes: Any, batches: Any) -> None:
            list(batches)
            raise OSError("disk full")

    target = Failing()
    with pytest.raises(OSError, match="disk full"):
        import_file(target, path)
    assert target.list_runs(NS) == [], "all that is left is the note of what was tried"
    assert list(target.all_artifacts(NS)) == []


# Expected heads, and files as they lie


def test_a_file_is_compared_with_an_expected_head(tmp_path: Path) -> None:
    import re as _re

    hashes = [bytes.fromhex(found.decode()) for found in _re.findall(rb'"hash":"sha256:([0-9a-f]{64})"', GOLDEN)]
    for seq, digest in enumerate(hashes):
        if seq:
            assert verify_file(RECORDING, expected=Head(seq, digest)).valid
        report = verify_file(RECORDING, expected=Head(seq, flipped(digest)))
        assert (report.valid, report.first_bad_seq) == (False, seq)
    assert not verify_file(RECORDING, expected=Head(23, bytes(32))).valid


def test_the_genesis_is_a_head_too() -> None:
    genesis = bytes.fromhex(GOLDEN.split(b'"hash":"sha256:')[1][:64].decode())
    assert verify_file(RECORDING, expected=Head(0, genesis)).valid


def test_a_run_without_an_end_is_verified_to_its_last_seq(memory: MemoryStore, path: Path) -> None:
    begin(memory).append(ActionRequested("a1", 1))
    report = verify_file(written(path, export(memory)))
    assert report.notes == ["verified to seq 1, nothing later to compare with"]
    assert report.orphans == [1]


# Every bit


class Place:
    """Which line and which event a byte of the file belongs to."""

    def __init__(self, data: bytes) -> None:
        self.lines: list[int] = []
        self.seqs: list[int | None] = []
        for number, line in enumerate(data.split(b"\n")[:-1], 1):
            seq: int | None = None
            if line.startswith(b'{"seq":'):
                seq = int(line[7 : line.index(b",")])
            elif line.startswith(b'{"link":'):
                seq = json.loads(line)["link"]["seq"]
            elif number == 1:
                seq = 0
            self.lines += [number] * (len(line) + 1)
            self.seqs += [seq] * (len(line) + 1)


def sweep(path: Path, data: bytes, flips: Callable[[int], list[int]]) -> int:
    """Flips bits of the file in place; each has to be found, and located by its event or by its line."""
    written(path, data)
    place = Place(data)
    done = 0
    wrong: list[str] = []
    with path.open("r+b", buffering=0) as file:
        for at in range(len(data)):
            for mask in flips(at):
                os.pwrite(file.fileno(), bytes([data[at] ^ mask]), at)
                found: VerificationReport | str
                try:
                    found = verify_file(path)
                except BadRecording as error:
                    found = str(error)
                done += 1
                if (reason := _wrong(found, data[at] ^ mask, at, mask, place)) is not None:
                    wrong.append(f"byte {at} (line {place.lines[at]}, event {place.seqs[at]}) xor {mask:#x}: {reason}")
            os.pwrite(file.fileno(), data[at : at + 1], at)
    assert wrong == [], f"{len(wrong)} of {done} flips"
    return done


def _wrong(found: VerificationReport | str, byte: int, at: int, mask: int, place: Place) -> str | None:
    seq, line = place.seqs[at], place.lines[at]
    if isinstance(found, VerificationReport):
        if found.valid:
            return "not found"
        return None if seq is None or found.first_bad_seq == seq else f"located at event {found.first_bad_seq}"
    named = re.search(r", event (\d+)", found)
    said = re.search(r", line (\d+)", found)
    if named is not None and seq is not None:
        return None if int(named[1]) == seq else found
    if "not needed by anything" in found or "\n" in (chr(byte), chr(byte ^ mask)):
        return None  # seen only at the end of the contents, or lines were joined
    return None if said is not None and int(said[1]) == line else found


def small_recording() -> bytes:
    store = MemoryStore()
    journal = begin(store, facts={"agent": "small"})
    journal.append(StateUpdated({"n": 1}))
    journal.append([*call(1, {"text": "one word " * 57}, "four"), Completed("é")])
    return export(store)


@pytest.mark.parametrize("part", seeds(1, 4))
def test_every_bit_of_a_small_recording_is_guarded(tmp_path: Path, part: int) -> None:
    check_guarded(tmp_path / "f.jsonl", small_recording(), part, apart=2)


@pytest.mark.parametrize("part", seeds(1, 4))
def test_every_bit_of_the_golden_recording_is_guarded(tmp_path: Path, part: int) -> None:
    check_guarded(tmp_path / "f.jsonl", GOLDEN, part, apart=16)


def check_guarded(path: Path, data: bytes, part: int, *, apart: int) -> None:
    """Flip every bit of every fourth byte in `make soak`; in `make test` one bit of some bytes, each time another."""

    def flips(at: int) -> list[int]:
        if SOAK:
            return [1 << bit for bit in range(8)] if at % 4 == part else []
        return [1 << at // apart % 8] if at % apart == 0 else []

    assert sweep(path, data, flips) >= len(data) // max(4, apart)
