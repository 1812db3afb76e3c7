"""Every single bit of a recording matters: one that is flipped is found, and found where it is.

The sweep alters rows as a store would hand them out; that the same holds for rows in a SQLite file, and for any byte of
the file itself, is tried on a sample.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from copy import copy
from functools import cache
from pathlib import Path

import apsw
import pytest

from kit.chance import repeatable, seeded
from kit.children import no_hanging
from kit.kept_rows import NAMESPACE, Rows, Stretch, flipped, record_every_kind, record_much
from kit.soak import SOAK, seeds
from onrecord.core.events import ANSWERS, KINDS, Completed, SignalReceived, TurnTaken
from onrecord.core.merkle import fetch_reachable
from onrecord.core.packing import unpack
from onrecord.errors import Damaged, OnrecordError
from onrecord.journal.journal import Journal
from onrecord.journal.reader import check_node
from onrecord.journal.recovery import recover_run
from onrecord.journal.verify import VerificationReport, verify_run
from onrecord.store.contract import EventRow, Head
from onrecord.store.memory import MemoryStore
from onrecord.store.sqlite import schema
from onrecord.store.sqlite.store import SqliteStore

EVENT_COLUMNS = ("link", "hash", "salt", "match", "prefix", "content")
HEADER_COLUMNS = ("header", "hash", "salt", "match", "content")
SHARDS = 4
STEP = 1 if SOAK else 19
"""The distance between two flipped bits. With 19, every position in a byte and every column of every event occurs."""
LARGE_EVENTS = 2500 if SOAK else 500
LARGE_FLIPS = 50_000 if SOAK else 300
WHOLE_FLIPS = 50 if SOAK else 4
FILE_FLIPS = 6_000 if SOAK else 60


@cache
def small_rows() -> Rows:
    store = MemoryStore()
    record_every_kind(store)
    return Rows(store, "small")


@cache
def large_rows() -> Rows:
    store = MemoryStore()
    record_much(store, LARGE_EVENTS)
    return Rows(store, "large")


def verified(rows: Rows, *, deep: bool = True, expected: Head | None = None) -> VerificationReport:
    return verify_run(rows, rows.run, NAMESPACE, deep=deep, expected=expected)  # type: ignore[arg-type]


def assert_found(report: VerificationReport, seq: int, what: object) -> None:
    assert not report.valid, f"{what}: taken for valid"
    assert report.line.endswith("INVALID")
    assert report.first_bad_seq == seq, f"{what}: found at {report.first_bad_seq}, {report.problems[:4]}"


def bits_of(data: bytes | None, step: int = STEP) -> range:
    return range(0, len(data or b"") * 8, step)


def bits_of_events(rows: Rows) -> Iterator[tuple[EventRow, str, int]]:
    for row in rows.events:
        for column in EVENT_COLUMNS:
            for bit in bits_of(getattr(row, column)):
                yield row, column, bit


def whole_after(rows: Rows, row: EventRow) -> VerificationReport:
    kept = rows.events[row.seq - 1]
    rows.events[row.seq - 1] = row
    try:
        return verified(rows)
    finally:
        rows.events[row.seq - 1] = kept


def check_stretch(stretch: Stretch, altered: EventRow, what: object) -> None:
    problems = stretch.problems(altered)
    assert problems, f"{what}: taken for valid"
    assert min(problems).seq == altered.seq, (what, problems)


def check_whole(rows: Rows, altered: EventRow, what: object) -> None:
    assert_found(whole_after(rows, altered), altered.seq, what)


def test_the_recording_is_what_it_should_be() -> None:
    rows = small_rows()
    kinds = {row.kind for row in rows.events}
    operations = {kind for kind, cls in KINDS.items() if cls.operations_only}
    assert kinds == set(KINDS) - operations - {"Failed", "Cancelled"}
    report = verified(rows)
    assert report.valid
    assert report.notes == []
    assert report.snapshots == 1
    assert report.nodes >= 1
    assert len(rows.nodes_kept) >= 2
    assert report.artifacts == 1
    assert verified(large_rows()).valid
    assert any(blob[:1] != b"\x00" for blob in large_rows().nodes_kept.values()), "nothing is compressed"


# Every bit


@pytest.mark.parametrize("shard", seeds(1, SHARDS))
def test_every_bit_of_every_event(shard: int) -> None:
    """Each bit in its stretch; one of eight in the whole run."""
    rows, stretch = small_rows(), Stretch(small_rows())
    rng = seeded("every bit", shard)
    tried = whole = 0
    for number, (row, column, bit) in enumerate(bits_of_events(rows)):
        if SOAK and number // 8 % SHARDS != shard:
            continue
        altered = row._replace(**{column: flipped(getattr(row, column), bit)})
        what = (row.seq, row.kind, column, bit)
        with repeatable(what=what):
            check_stretch(stretch, altered, what)
            if rng.randrange(8) == 0:
                check_whole(rows, altered, what)
                whole += 1
        tried += 1
    assert tried > (20_000 if SOAK else 4_000)
    assert whole > tried // 12


def test_every_bit_of_the_header() -> None:
    """One bit of every byte in the whole run, the others without its events: that is quicker."""
    whole, alone = copy(small_rows()), copy(small_rows())
    alone.events, alone.snapshots_kept = [], []
    assert verified(alone).valid
    kept = whole.header
    tried = 0
    for column in HEADER_COLUMNS:
        data = getattr(kept, column)
        for bit in bits_of(data):
            rows = whole if bit % 8 == bit // 8 % 8 else alone
            with repeatable(column=column, bit=bit):
                rows.header = kept._replace(**{column: flipped(data, bit)})
                assert_found(verified(rows), 0, (column, bit))
            tried += 1
    assert tried > 3000 // STEP


def first_use(rows: Rows) -> dict[bytes, int]:
    """Node -> seq of the first event that reaches it (0: the facts)."""
    found: dict[bytes, int] = {}

    def fetch(addresses: object) -> dict[bytes, bytes]:
        return {a: check_node(a, rows.nodes_kept[a]) for a in addresses}  # type: ignore[attr-defined]

    contents = [(0, rows.header.content), *((row.seq, row.content) for row in rows.events)]
    for seq, blob in contents:
        assert blob is not None
        for address in fetch_reachable([unpack(blob)], fetch, lambda address: pytest.fail(address.hex())):
            found.setdefault(address, seq)
    return found


def test_every_bit_of_every_node() -> None:
    """One bit of every byte in the whole run, the others without what follows the first event that needs it."""
    rows, short = small_rows(), copy(small_rows())
    short.snapshots_kept = []
    seqs = first_use(rows)
    assert set(seqs) == set(rows.nodes_kept)
    assert 0 in seqs.values()
    tried = 0
    for address, blob in list(rows.nodes_kept.items()):
        short.events = rows.events[: seqs[address]]
        try:
            for bit in bits_of(blob):
                with repeatable(node=address.hex(), bit=bit):
                    rows.nodes_kept[address] = flipped(blob, bit)
                    report = verified(rows if bit % 8 == bit // 8 % 8 else short, deep=bit % 2 == 0)
                    assert_found(report, seqs[address], (address.hex(), bit))
                tried += 1
            del rows.nodes_kept[address]
            assert_found(verified(rows), seqs[address], "a missing node")
        finally:
            rows.nodes_kept[address] = blob
    assert tried > 1500 // STEP


def test_every_bit_of_a_snapshot() -> None:
    rows = small_rows()
    (kept,) = rows.snapshots_kept
    tried = 0
    try:
        for column in ("head", "seal", "blob"):
            data = getattr(kept, column)
            for bit in bits_of(data):
                rows.snapshots_kept = [kept._replace(**{column: flipped(data, bit)})]
                with repeatable(column=column, bit=bit):
                    report = verified(rows, deep=False)
                    assert_found(report, kept.seq, (column, bit))
                    assert [seq for seq, _ in report.rejected_snapshots] == [kept.seq]
                tried += 1
        for altered in (kept._replace(seq=kept.seq - 1), kept._replace(reducer="x"), kept._replace(state_version=2)):
            rows.snapshots_kept = [altered]
            assert_found(verified(rows), altered.seq, altered)
    finally:
        rows.snapshots_kept = [kept]
    assert tried > 500 // STEP


def test_bits_of_an_artifact() -> None:
    """Its file is large: some of its bits in the event's stretch, few of them in the whole run."""
    rows, stretch = small_rows(), Stretch(small_rows())
    ((address, data),) = rows.artifacts.items()
    assert data is not None
    (row,) = (row for row in rows.events if b"$artifact" in (row.content or b""))
    rng = seeded("artifact")
    try:
        for at in range(0, len(data), 8 if SOAK else 512):
            rows.artifacts[address] = flipped(data, at * 8 + rng.randrange(64))
            with repeatable(at=at):
                problems = stretch.problems(row)
                assert problems
                assert min(problems).seq == row.seq
                if at % (2048 if SOAK else 16_384) == 0:
                    assert_found(verified(rows), row.seq, at)
        for altered in (data[:-1], data + b"\0", b"", None):
            rows.artifacts[address] = altered
            assert_found(verified(rows), row.seq, "an artifact of another size")
    finally:
        rows.artifacts[address] = data


# A large recording


@pytest.mark.parametrize("shard", seeds(1, SHARDS))
def test_random_bits_of_a_large_recording(shard: int) -> None:
    rows, stretch = large_rows(), Stretch(large_rows())
    rng = seeded("large", shard)
    every = LARGE_FLIPS // WHOLE_FLIPS
    whole = 0
    for number in range(LARGE_FLIPS):
        row = rng.choice(rows.events)
        column = rng.choice([name for name in EVENT_COLUMNS if getattr(row, name)])
        bit = rng.randrange(len(getattr(row, column)) * 8)
        altered = row._replace(**{column: flipped(getattr(row, column), bit)})
        what = (row.seq, row.kind, column, bit)
        with repeatable(what=what):
            check_stretch(stretch, altered, what)
            if number % every == 0:
                kept = rows.events[row.seq - 1]
                rows.events[row.seq - 1] = altered
                try:
                    assert_found(verified(rows, deep=number % (4 * every) == 0), row.seq, what)
                finally:
                    rows.events[row.seq - 1] = kept
                whole += 1
    assert whole >= WHOLE_FLIPS


def test_random_bits_of_nodes_of_a_large_recording() -> None:
    rows = large_rows()
    rng = seeded("large nodes")
    seqs = first_use(rows)
    for address in rng.sample(sorted(seqs), 12 if SOAK else 3):
        blob = rows.nodes_kept[address]
        rows.nodes_kept[address] = flipped(blob, rng.randrange(len(blob) * 8))
        try:
            assert_found(verified(rows, deep=False), seqs[address], address.hex())
        finally:
            rows.nodes_kept[address] = blob


# Other alterations


@pytest.fixture
def rows() -> Rows:
    """A copy that may be altered, of a run without an end."""
    store = MemoryStore()
    record_every_kind(store, end=False)
    return Rows(store, "small")


SEQS = range(1, len(small_rows().events) - 1)


@pytest.mark.parametrize("seq", SEQS)
def test_a_dropped_event(rows: Rows, seq: int) -> None:
    rows.snapshots_kept = []
    del rows.events[seq - 1]
    assert_found(verified(rows), seq, "dropped")


@pytest.mark.parametrize("seq", SEQS)
def test_a_dropped_event_and_the_rest_renumbered(rows: Rows, seq: int) -> None:
    rows.snapshots_kept = []
    rows.events[seq - 1 :] = [row._replace(seq=row.seq - 1) for row in rows.events[seq:]]
    assert_found(verified(rows), seq, "renumbered")


def duplicated(rows: Rows, seq: int) -> int:
    """One event stands there twice, the rest is renumbered; where that is found."""
    rows.snapshots_kept = []
    kept = list(rows.events)
    rows.events.insert(seq, rows.events[seq - 1])
    assert_found(verified(rows), seq, "duplicated under its own seq")
    rows.events[seq:] = [one._replace(seq=number) for number, one in enumerate(rows.events[seq:], seq + 1)]
    report = verified(rows)
    assert not report.valid
    rows.events = kept
    assert report.first_bad_seq is not None
    return report.first_bad_seq


def test_a_duplicated_event(rows: Rows) -> None:
    for seq in SEQS:
        if rows.events[seq - 1].kind not in ANSWERS:
            assert duplicated(rows, seq) == seq + 1


def test_a_duplicated_answer(rows: Rows) -> None:
    wrong = [seq for seq in SEQS if rows.events[seq - 1].kind in ANSWERS and duplicated(rows, seq) != seq + 1]
    assert wrong == []


@pytest.mark.parametrize("first", SEQS[:-1])
def test_swapped_events(rows: Rows, first: int) -> None:
    rows.snapshots_kept = []
    for second in (first + 1, len(rows.events)):
        one, other = rows.events[first - 1], rows.events[second - 1]
        for columns in (EventRow._fields[1:], ("salt", "match", "content"), ("content",), ("salt",)):
            rows.events[first - 1] = one._replace(**{name: getattr(other, name) for name in columns})
            rows.events[second - 1] = other._replace(**{name: getattr(one, name) for name in columns})
            assert_found(verified(rows), first, (second, columns))
        rows.events[first - 1], rows.events[second - 1] = other, one
        assert_found(verified(rows), first, (second, "places"))
        rows.events[first - 1], rows.events[second - 1] = one, other
    assert verified(rows).valid


def test_swapped_links(rows: Rows) -> None:
    rows.snapshots_kept = []
    for first in SEQS[:-1]:
        one, other = rows.events[first - 1 : first + 1]
        rows.events[first - 1] = one._replace(link=other.link, hash=other.hash)
        rows.events[first] = other._replace(link=one.link, hash=one.hash)
        assert_found(verified(rows), first, "links")
        rows.events[first - 1 : first + 1] = [one, other]


@pytest.mark.parametrize("at", SEQS)
def test_the_tail_of_another_run(rows: Rows, at: int) -> None:
    store = MemoryStore()
    record_every_kind(store, "other", end=False)
    other = Rows(store, "other")
    rows.snapshots_kept = []
    rows.nodes_kept.update(other.nodes_kept)
    rows.events[at - 1 :] = other.events[at - 1 :]
    assert_found(verified(rows), at, "spliced")


@pytest.mark.parametrize("seq", SEQS)
def test_a_truncated_run(rows: Rows, seq: int) -> None:
    rows.snapshots_kept = []
    head = Head(len(rows.events), rows.events[-1].hash)
    whole = verified(rows)
    assert whole.notes == [f"verified to seq {len(rows.events)}, nothing later to compare with"]
    del rows.events[seq:]
    alone = verified(rows)
    assert alone.valid
    assert alone.notes == [f"verified to seq {seq}, nothing later to compare with"]
    report = verified(rows, expected=head)
    assert_found(report, head.seq, "truncated")
    assert report.problems[0].code == "bad_head"
    assert f"ends at seq {seq}" in report.problems[0].message
    ended = small_rows()
    assert verified(ended).terminal == "Completed"
    assert verified(ended).notes == []


def test_a_run_of_which_nothing_is_left(rows: Rows) -> None:
    head = Head(len(rows.events), rows.events[-1].hash)
    rows.snapshots_kept, rows.events = [], []
    assert verified(rows).notes == ["verified to seq 0, nothing later to compare with"]
    assert_found(verified(rows, expected=head), head.seq, "empty")


@pytest.mark.parametrize("seq", SEQS)
def test_a_rewritten_event_against_a_head(rows: Rows, seq: int) -> None:
    """Somebody who rehashes everything has another head."""
    head = Head(seq, rows.events[seq - 1].hash)
    store = MemoryStore()
    record_every_kind(store, end=False)
    forged = Rows(store, "small")
    assert verified(forged).valid
    report = verified(forged, expected=head)
    assert_found(report, seq, "rewritten")
    assert "not the expected head" in report.problems[0].message


@pytest.mark.parametrize("columns", [("id",), ("kind",), ("lane",), ("salt",), ("match",), ("content",)])
def test_the_store_s_own_columns_and_half_erased_contents(rows: Rows, columns: tuple[str, ...]) -> None:
    rows.snapshots_kept = []
    values = {"id": "other", "kind": "SignalReceived", "lane": "main>a#8"}
    for seq in SEQS:
        kept = rows.events[seq - 1]
        if kept.kind == values["kind"] and columns == ("kind",):
            continue
        rows.events[seq - 1] = kept._replace(**{name: values.get(name) for name in columns})
        assert_found(verified(rows), seq, columns)
        rows.events[seq - 1] = kept


def test_another_place_in_the_lane(rows: Rows) -> None:
    rows.snapshots_kept = []
    for seq in SEQS:
        kept = rows.events[seq - 1]
        for lane_seq in (77, 0, -1, None):
            if lane_seq != kept.lane_seq:
                rows.events[seq - 1] = kept._replace(lane_seq=lane_seq)
                assert_found(verified(rows), seq, lane_seq)
        rows.events[seq - 1] = kept


def test_a_content_erased_without_a_record(rows: Rows) -> None:
    rows.snapshots_kept = []
    for seq in SEQS:
        kept = rows.events[seq - 1]
        rows.events[seq - 1] = kept._replace(salt=None, match=None, content=None)
        assert_found(verified(rows), seq, "erased")
        rows.events[seq - 1] = kept


def shifts(row: EventRow) -> list[EventRow]:
    """The same bytes in the same order, divided otherwise among salt, match digest and content."""
    assert row.salt is not None
    assert row.match is not None
    assert row.content is not None
    whole = row.salt + row.match + row.content[1:]
    cuts = ((15, 47), (17, 49), (16, 47), (15, 48), (0, 0), (len(whole), len(whole)), (16, len(whole)))
    return [
        row._replace(salt=whole[:one], match=whole[one:other], content=b"\0" + whole[other:]) for one, other in cuts
    ]


@pytest.mark.parametrize("deep", [False, True])
def test_bytes_moved_between_salt_match_and_content(rows: Rows, deep: bool) -> None:
    """One preimage, two readings: the content is destroyed, and the commitment holds."""
    rows.snapshots_kept = []
    valid: list[object] = []
    for seq in SEQS:
        kept = rows.events[seq - 1]
        for number, altered in enumerate(shifts(kept)):
            rows.events[seq - 1] = altered
            report = verified(rows, deep=deep)
            if report.valid or report.first_bad_seq != seq:
                valid.append((seq, kept.kind, number))
        rows.events[seq - 1] = kept
    assert valid == []


def test_columns_cut_to_nothing(rows: Rows) -> None:
    rows.snapshots_kept = []
    for seq in SEQS:
        kept = rows.events[seq - 1]
        for column in EVENT_COLUMNS:
            if getattr(kept, column) is not None:
                rows.events[seq - 1] = kept._replace(**{column: b""})
                assert_found(verified(rows), seq, column)
        rows.events[seq - 1] = kept


def test_an_event_after_the_end() -> None:
    store = MemoryStore()
    journal = Journal.create(store, "small")
    journal.append([SignalReceived(name="x", payload=1), Completed(output=1)])
    journal._chain.closed_by = None  # a writer that breaks the rule, with hashes that hold
    journal.append(TurnTaken(turns=[1]))
    assert_found(verified(Rows(store, "small")), 3, "after the end")


def test_recovery_with_a_damaged_snapshot_keeps_every_event() -> None:
    store, target = MemoryStore(), MemoryStore()
    record_every_kind(store)
    (kept,) = store.snapshots(NAMESPACE, "small")
    store.put_snapshot(NAMESPACE, "small", kept._replace(seal=flipped(kept.seal, 5)))
    events = len(list(store.scan(NAMESPACE, "small")))
    recovered = recover_run(store, "small", target)
    assert (recovered.events, recovered.lost) == (events, 0)


# In a SQLite file


@pytest.fixture(scope="module")
def kept_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("flips") / "store.db"
    store = SqliteStore(path)
    record_every_kind(store)
    store.close()
    return path


def copied(kept: Path, folder: Path) -> Path:
    path = folder / "store.db"
    shutil.copy2(kept, path)
    target = Path(str(path) + ".artifacts")
    if not target.exists():
        shutil.copytree(str(kept) + ".artifacts", target)
    return path


def alter(path: Path, change: Callable[[apsw.Connection], None]) -> None:
    """Somebody who edits the file on purpose: the triggers are taken away and put back."""
    connection = apsw.Connection(str(path))
    for _, name in [key for key in schema.EXPECTED if key[0] == "trigger"]:
        connection.execute(f"DROP TRIGGER {name}")
    change(connection)
    for sql in schema.TRIGGERS:
        connection.execute(sql)
    connection.close()


def test_bits_of_rows_in_a_file(kept_file: Path, tmp_path: Path) -> None:
    rng = seeded("file rows")
    for number in range(60 if SOAK else 12):
        path = copied(kept_file, tmp_path)
        row = rng.choice(small_rows().events)
        columns = [name for name in EVENT_COLUMNS if getattr(row, name)]
        column = rng.choice(columns)

        def change(connection: apsw.Connection, row: EventRow = row, column: str = column) -> None:
            where = "WHERE seq = ?"
            data = connection.execute(f"SELECT {column} FROM events {where}", (row.seq,)).get
            altered = flipped(data, rng.randrange(len(data) * 8))
            connection.execute(f"UPDATE events SET {column} = ? {where}", (altered, row.seq))

        with repeatable(number=number, seq=row.seq, column=column):
            alter(path, change)
            store = SqliteStore(path)
            assert_found(verify_run(store, "small", deep=True), row.seq, (row.seq, column))
            store.close()


def read_back(path: Path) -> tuple[VerificationReport | None, list[EventRow], str]:
    """The verdict on a file that may be anything, what can be read of it, or the error; nothing else may happen."""
    try:
        store = SqliteStore(path)
    except OnrecordError as error:
        return None, [], str(error)
    try:
        report = verify_run(store, "small", deep=True)
        return report, list(store.scan(NAMESPACE, "small")) if report.valid else [], ""
    except OnrecordError as error:
        return None, [], str(error)
    finally:
        store.close()


def test_any_byte_of_the_file(kept_file: Path, tmp_path: Path) -> None:
    """A flipped bit anywhere: an error, a finding, or nothing that mattered; never another recording called valid."""
    rng = seeded("file bytes")
    original = kept_file.read_bytes()
    _, expected, _ = read_back(copied(kept_file, tmp_path))
    assert expected
    outcomes = {"error": 0, "found": 0, "harmless": 0}
    for number in range(FILE_FLIPS):
        path = copied(kept_file, tmp_path)
        bit = rng.randrange(len(original) * 8)
        path.write_bytes(flipped(original, bit))
        with repeatable(number=number, bit=bit, page=bit // 8 // 4096), no_hanging():
            report, found, error = read_back(path)
            if error:
                outcomes["error"] += 1
            elif report is not None and not report.valid:
                outcomes["found"] += 1
            else:
                assert found == expected
                outcomes["harmless"] += 1
        for suffix in ("-wal", "-shm", "-journal"):
            Path(str(path) + suffix).unlink(missing_ok=True)
    assert outcomes["found"] > FILE_FLIPS // 15, outcomes


@pytest.mark.parametrize("text", [b"events are never chang", b"ActionFailed"])
def test_text_that_is_not_utf8(kept_file: Path, tmp_path: Path, text: bytes) -> None:
    """In the schema, and in a column: damage, said as such."""
    path = copied(kept_file, tmp_path)
    original = path.read_bytes()
    at = original.index(text) + len(text) - 1
    path.write_bytes(flipped(original, at * 8 + 7))
    with pytest.raises(Damaged), closing(SqliteStore(path)) as store:
        verify_run(store, "small").raise_if_invalid()


def test_a_file_cut_off(kept_file: Path, tmp_path: Path) -> None:
    rng: random.Random = seeded("cut off")
    original = kept_file.read_bytes()
    pages, others = (4096, 40) if SOAK else (5 * 4096, 6)
    sizes = [*range(0, len(original), pages), *(rng.randrange(1, len(original)) for _ in range(others))]
    for size in sizes:
        path = copied(kept_file, tmp_path)
        path.write_bytes(original[:size])
        with repeatable(size=size), no_hanging():
            report, found, error = read_back(path)
            assert error or report is None or not report.valid, (size, len(found))
        for suffix in ("-wal", "-shm", "-journal"):
            Path(str(path) + suffix).unlink(missing_ok=True)
