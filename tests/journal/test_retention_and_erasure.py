"""Retention and erasure: row K 110, faults 87, 88. What goes is gone from every file; what stays proves itself."""

from __future__ import annotations

import hashlib
import itertools
import time
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest

from kit.journals import (
    NS,
    Altered,
    Counting,
    FixedSources,
    begin,
    call,
    everything,
    export,
    rows_of,
    small_run,
    written,
)
from onrecord.core.canonical import canonical_bytes
from onrecord.core.codec import encode
from onrecord.core.events import (
    ActionRequested,
    ActionSucceeded,
    Completed,
    Event,
    RunRetired,
    SignalReceived,
    SnapshotTaken,
    StateUpdated,
)
from onrecord.core.hashing import commitment, match_digest, render, state_hash_of, state_link_of
from onrecord.core.packing import unpack
from onrecord.core.state import StateUpdatedOnlyReducer
from onrecord.errors import Damaged, InvalidInput, MovedHead, NotFound, Refused
from onrecord.journal.erasure import erase_value, plan_erasure
from onrecord.journal.execution_log import scan_execution_trace
from onrecord.journal.import_file import import_file
from onrecord.journal.journal import Draft, Journal
from onrecord.journal.operation_records import erasure_record
from onrecord.journal.operations import OperationsJournal
from onrecord.journal.reader import ErasedEvent, JournalReader
from onrecord.journal.retention import retirable_runs, retire_run
from onrecord.journal.snapshots import EveryEvents, SnapshotManager, StateFold, take_snapshot
from onrecord.journal.verify import verify_run
from onrecord.store.contract import Store
from onrecord.store.memory import MemoryStore

SECRET = "4111 1111 1111 1111"
LONG = "conversation " * 100
REPLACE = StateUpdatedOnlyReducer()


def operations(store: Store) -> list[Event]:
    return [event.event for event in JournalReader(store, "operations").scan()]


def ended(store: Store, run: str, *events: Any, **more: Any) -> Journal:
    journal = begin(store, run, **more)
    journal.append([*events, Completed()])
    return journal


# Retention


def test_a_retired_run_leaves_a_tombstone_that_can_be_checked(store: Store, tmp_path: Path) -> None:
    ended(store, "r1", StateUpdated(LONG))
    kept = written(tmp_path / "kept.jsonl", export(store))
    head = JournalReader(store, "r1").head()
    genesis = JournalReader(store, "r1").header_row.hash
    tombstone = retire_run(store, "r1", reason="older than a year")
    assert tombstone == RunRetired("r1", render(genesis), 2, render(head.hash), "older than a year")
    assert operations(store) == [tombstone]
    assert verify_run(store, "operations", deep=True).valid
    with pytest.raises(NotFound):
        JournalReader(store, "r1")
    assert list(store.all_nodes(NS)) == []
    # Whoever kept an export can show that this very run existed and ended like that.
    from onrecord.journal.import_file import verify_file

    assert verify_file(kept, expected=head).head == tombstone.head


def test_what_other_runs_share_survives(store: Store) -> None:
    only_mine = "mine alone " * 100
    ended(store, "r1", StateUpdated([LONG, only_mine]), *call(1, b"a" * 70_000, b"b" * 70_000))
    ended(store, "r2", StateUpdated([LONG]), *call(1, b"a" * 70_000, None))
    retire_run(store, "r1", reason="x")
    assert verify_run(store, "r2", deep=True).valid
    texts = b"".join(unpack(row.blob) for row in store.all_nodes(NS))
    assert LONG.encode() in texts
    assert only_mine.encode() not in texts
    assert [store.artifact(NS, address) for address in store.all_artifacts(NS)] == [b"a" * 70_000]
    assert JournalReader(store, "r2").event(1).event.payload == [LONG]  # type: ignore[attr-defined]


def test_artifacts_of_the_retired_runs_own_snapshots_go_too(memory: MemoryStore) -> None:
    journal = begin(memory)
    journal.append(StateUpdated(1))
    take_snapshot(journal, REPLACE, b"only in the snapshot" * 4000, 1)
    journal.append(Completed())
    assert len(list(memory.all_artifacts(NS))) == 1
    retire_run(memory, "r1", reason="x")
    assert list(memory.all_artifacts(NS)) == []


def test_a_running_run_is_never_retired(store: Store) -> None:
    begin(store, "empty")
    begin(store, "open").append(ActionRequested("a1", 1))
    before = everything(store)
    for run in ("empty", "open"):
        with pytest.raises(InvalidInput) as caught:
            retire_run(store, run, reason="x")
        assert caught.value.code == "run_not_ended"
    assert retirable_runs(store, older_than_us=0, keep_newest=0) == []
    assert everything(store) == before
    for run in ("nothing", "operations"):
        with pytest.raises(NotFound):
            retire_run(store, run, reason="x")


def test_rules_choose_by_age_and_number(store: Store) -> None:
    for number in range(5):
        sources = FixedSources(f"r{number}")
        for _ in range(number * 1000):
            sources.now_us()
        ended(store, f"r{number}", sources=sources)
    begin(store, "running", sources=FixedSources("old"))

    class Now(FixedSources):
        def now_us(self) -> int:
            return 1_763_236_044_000_000 + 4000

    def chosen(**rule: Any) -> list[str]:
        return [run.run for run in retirable_runs(store, sources=Now(), **rule)]

    assert chosen(keep_newest=2) == ["r0", "r1", "r2"]
    assert chosen(older_than_us=2500) == ["r0", "r1"]
    assert chosen(older_than_us=2500, keep_newest=4) == ["r0"]
    assert chosen(keep_newest=5) == []
    for rule in ({}, {"keep_newest": -1}, {"older_than_us": -1}):
        with pytest.raises(InvalidInput):
            retirable_runs(store, **rule)


def test_an_id_is_free_again_after_retirement(store: Store) -> None:
    ended(store, "r1", StateUpdated(1))
    retire_run(store, "r1", reason="x")
    ended(store, "r1", StateUpdated(2), sources=FixedSources("again"))
    assert verify_run(store, "r1").valid
    retire_run(store, "r1", reason="y")
    assert [event.reason for event in operations(store)] == ["x", "y"]  # type: ignore[attr-defined]


def test_tombstone_and_removal_are_one(memory: MemoryStore) -> None:
    ended(memory, "r1", StateUpdated(LONG))
    before = everything(memory)

    class Failing(MemoryStore):
        def __getattr__(self, name: str) -> Any:
            return getattr(memory, name)

    def fail(*_: Any) -> None:
        raise OSError("killed")

    original, memory.delete_run = memory.delete_run, fail  # type: ignore[method-assign]
    with pytest.raises(OSError, match="killed"):
        retire_run(memory, "r1", reason="x")
    memory.delete_run = original  # type: ignore[method-assign]
    assert everything(memory)[0] == before[0]
    assert operations(memory) == []


# Erasure


def secret_run(store: Store, run: str = "r1") -> Journal:
    """The secret in facts, in a request, inside a longer text of a shared node, as bytes, and in a state."""
    journal = begin(store, run, facts={"customer": f"card {SECRET}"})
    journal.append(StateUpdated({"n": 1}))
    journal.append(call(1, {"text": f"{LONG} {SECRET} {LONG}"}, "fine"))
    journal.append(call(2, "nothing", {"raw": f"x{SECRET}".encode()}))
    journal.append([StateUpdated({"card": SECRET}), StateUpdated({"n": 2}), Completed(f"bye {SECRET}")])
    return journal


ERASED = [0, 2, 5, 6, 8]


def test_every_content_that_reaches_the_value_is_erased_and_the_chain_is_whole(store: Store) -> None:
    secret_run(store)
    before = rows_of(store)
    assert plan_erasure(store, SECRET).contents == [("r1", seq) for seq in ERASED]
    assert rows_of(store) == before, "planning changes nothing"
    erased = erase_value(store, SECRET, reason="asked for", sources=FixedSources("eraser"))
    assert erased.contents == [("r1", seq) for seq in ERASED]
    after = rows_of(store)
    assert [row.seq for row in after if row.content is None] == ERASED[1:]
    assert all((row.salt, row.match) == (None, None) for row in after if row.content is None)
    assert [(row.link, row.hash) for row in after] == [(row.link, row.hash) for row in before]
    report = verify_run(store, "r1", deep=True)
    assert report.valid
    assert report.erased == ERASED[1:]
    assert JournalReader(store, "r1").facts() is None
    header = JournalReader(store, "r1").header_row.hash
    assert operations(store) == [erasure_record("r1", ERASED, header, "asked for")]
    assert verify_run(store, "operations", deep=True).valid


def test_erased_events_are_shown_as_erased(store: Store) -> None:
    secret_run(store)
    erase_value(store, SECRET, reason="x")
    events = list(JournalReader(store, "r1").scan())
    assert [event.seq for event in events if event.erased] == ERASED[1:]
    assert [event.kind for event in events if isinstance(event.event, ErasedEvent)] == [
        *("ActionRequested", "ActionSucceeded", "StateUpdated", "Completed")
    ]
    assert [line.kind for line in scan_execution_trace(JournalReader(store, "r1"))] == [event.kind for event in events]


def test_a_value_that_is_nowhere_is_not_found(store: Store) -> None:
    small_run(store)
    with pytest.raises(NotFound) as caught:
        erase_value(store, SECRET, reason="x")
    assert caught.value.code == "value_not_found"
    assert store.run_row(NS, "operations") is None
    for short in ("", "abc"):
        with pytest.raises(InvalidInput):
            erase_value(store, short, reason="x")


def spellings(value: str) -> list[bytes]:
    raw = value.encode()
    return [raw, *(b64encode(bytes(shift) + raw + bytes(2))[4:-4] for shift in range(3))]


def assert_in_no_file(folder: Path, *values: str) -> None:
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert files
    for path in files:
        data = path.read_bytes()
        for value in values:
            for spelling in spellings(value):
                assert spelling not in data, f"{path.name} still holds it"


def test_no_file_of_the_store_holds_the_value(sqlite: Any, tmp_path: Path) -> None:
    """Raw bytes of every file, the -wal and free pages included, while the store is open and after it was closed."""
    secret_run(sqlite, "r1")
    secret_run(sqlite, "r2")
    begin(sqlite, "r3").append([StateUpdated(b"\x00" * 66_000 + SECRET.encode()), Completed()])
    found = [path for path in tmp_path.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]
    assert found, "the counterpart: before, it is there"
    erase_value(sqlite, SECRET, reason="asked for")
    assert_in_no_file(tmp_path, SECRET)
    for run in ("r1", "r2", "r3"):
        assert verify_run(sqlite, run, deep=True).valid
    sqlite.close()
    assert_in_no_file(tmp_path, SECRET)


def test_a_retired_run_is_in_no_file_either(sqlite: Any, tmp_path: Path) -> None:
    secret_run(sqlite)
    retire_run(sqlite, "r1", reason="age")
    sqlite.close()
    assert_in_no_file(tmp_path, SECRET)


def test_the_inbox_is_searched_and_cleared_too(store: Store) -> None:
    """A signal came by the inbox and was folded in: erasing the event and leaving the letter would be vain."""
    journal = begin(store)
    store.inbox_put(NS, "r1", "signal/1", f'{{"card":"{SECRET}"}}'.encode(), 1)
    journal.append([SignalReceived("pay", {"card": SECRET}), Completed()])
    erase_value(store, SECRET, reason="x")
    assert all(SECRET.encode() not in row.payload for row in store.inbox(NS, "r1"))


def test_a_value_only_in_the_inbox_is_found(memory: MemoryStore) -> None:
    begin(memory).append(Completed())
    memory.inbox_put(NS, "r1", "signal/1", f'{{"card":"{SECRET}"}}'.encode(), 1)
    try:
        erase_value(memory, SECRET, reason="x")
    except Refused:
        return  # said aloud is as good as done
    assert memory.inbox(NS, "r1") == []


def test_snapshots_of_those_runs_and_their_artifacts_go(store: Store) -> None:
    journal = begin(store)
    journal.append(StateUpdated({"blob": b"\x00" * 66_000 + SECRET.encode()}))
    take_snapshot(journal, REPLACE, {"blob": b"\x00" * 66_000 + SECRET.encode()}, 1)
    journal.append([StateUpdated(2), Completed()])
    assert len(list(store.all_artifacts(NS))) == 1
    erase_value(store, SECRET, reason="x")
    assert store.snapshots(NS, "r1") == []
    assert list(store.all_artifacts(NS)) == []
    report = verify_run(store, "r1", deep=True)
    assert report.valid
    assert report.erased == [1, 2], "the voucher's state link would let the state be guessed"
    assert StateFold(JournalReader(store, "r1"), REPLACE).replay_all() == 2


def test_a_state_seen_only_in_a_snapshot_is_erased_with_it(memory: MemoryStore) -> None:
    """A reducer of one's own may have put together in a snapshot what stands in no single content."""
    first, second = SECRET[:9], SECRET[9:]
    journal = begin(memory)
    journal.append([SignalReceived("a", first), SignalReceived("b", second)])
    take_snapshot(journal, REPLACE, {"card": SECRET}, 2)
    journal.append(Completed())
    plan = plan_erasure(memory, SECRET)
    assert plan.contents or plan.blocked
    try:
        erase_value(memory, SECRET, reason="x")
    except Refused:
        return
    assert memory.snapshots(NS, "r1") == []


def candidates(value: str) -> list[Any]:
    """What a guesser would try, knowing everything but the value."""
    return [
        value,
        {"card": value},
        {"text": f"{LONG} {value} {LONG}"},
        f"bye {value}",
        {"raw": f"x{value}".encode()},
        {"customer": f"card {value}"},
        {"sum": 2, "seen": [value, "later"]},
        {"sum": 1, "seen": [value]},
    ]


def guesses(store: Store, value: str) -> set[bytes]:
    """Every digest that can be made of the guess with what is still in the store: salts, matches, prefixes."""
    rows = [row for run in ("r1", "r2") for row in rows_of(store, run)] if store.run_row(NS, "r2") else rows_of(store)
    salts = {row.salt for row in rows if row.salt} | {bytes(16)}
    known_prefixes = {row.prefix for row in rows if row.prefix} | {bytes(32)}
    made: set[bytes] = set()
    for guess in candidates(value):
        tree = encode(guess).tree
        canonical = canonical_bytes(tree)
        made |= {state_hash_of(canonical)} | {state_link_of(salt, canonical) for salt in salts}
        for kind, content in (
            ("StateUpdated", {"payload": tree}),
            ("ActionRequested", {"payload": tree}),
            ("ActionSucceeded", {"output": tree}),
            ("SignalReceived", {"name": "n", "payload": tree}),
            ("Completed", {"output": tree}),
            ("Header", tree),
        ):
            match = match_digest(canonical_bytes({"content": content, "kind": kind}))
            made.add(match)
            from onrecord.core.hashing import next_prefix

            made |= {next_prefix(p, match, d) for p, d in itertools.product(known_prefixes, range(4))}
            from onrecord.core.canonical import stored_bytes

            made |= {commitment(salt, match, stored_bytes(content)) for salt in salts}
        made.add(hashlib.sha256(b"onrecord.node/1\0" + canonical).digest())
    return made


def kept_digests(store: Store) -> set[bytes]:
    """Every 32 bytes that the store shows anywhere, as bytes or as hex."""
    import re

    found: set[bytes] = set()
    for row in [*store.list_runs(NS), store.run_row(NS, "operations")]:
        if row is None:
            continue
        header = row.header
        texts = [header.header, header.content or b""]
        found |= {header.hash, header.match or b""}
        for event in store.scan(NS, header.run):
            found |= {event.hash, event.match or b"", event.prefix or b""}
            texts += [event.link, unpack(event.content) if event.content else b""]
        for text in texts:
            found |= {bytes.fromhex(each.decode()) for each in re.findall(rb"[0-9a-f]{64}", text)}
    found |= {address for address, _ in store.all_nodes(NS)} | set(store.all_artifacts(NS))
    return found


def test_nothing_is_left_to_guess_the_value_from(store: Store) -> None:
    secret_run(store)
    assert guesses(store, SECRET) & kept_digests(store), "the counterpart: before, a guess is confirmed"
    erase_value(store, SECRET, reason="asked for")
    assert not guesses(store, SECRET) & kept_digests(store)


class Gathering:
    """A reducer that keeps everything it was shown: later states hold what earlier events said."""

    id = "gathering/1"
    state_version = 1

    def initial(self) -> Any:
        return {"sum": 0, "seen": []}

    def apply(self, state: Any, event: Event) -> Any:
        if not isinstance(event, StateUpdated):
            return state
        return {"sum": state["sum"] + 1, "seen": [*state["seen"], event.payload]}


def test_later_states_of_a_gathering_reducer_do_not_let_it_be_guessed(memory: MemoryStore) -> None:
    """Section 9: once a content is erased nothing is left to guess its state from."""
    journal = begin(memory, reducer=Gathering())
    journal.append([StateUpdated(SECRET), StateUpdated("later"), Completed()])
    assert guesses(memory, SECRET) & kept_digests(memory)
    erase_value(memory, SECRET, reason="x")
    assert not guesses(memory, SECRET) & kept_digests(memory)
    assert verify_run(memory, "r1", deep=True).valid


def test_vouchers_of_later_snapshots_do_not_let_it_be_guessed(memory: MemoryStore) -> None:
    journal = begin(memory, reducer=Gathering())
    manager = SnapshotManager(journal, Gathering(), EveryEvents(1))
    manager.observe(journal.append(StateUpdated(SECRET)))
    journal.append(Completed())
    assert isinstance(JournalReader(memory, "r1").event(2).event, SnapshotTaken)
    assert guesses(memory, SECRET) & kept_digests(memory)
    erase_value(memory, SECRET, reason="x")
    assert not guesses(memory, SECRET) & kept_digests(memory)


def test_all_runs_that_share_the_value_are_erased_together(store: Store) -> None:
    for run in ("r1", "r2"):
        begin(store, run).append([StateUpdated(f"{LONG} {SECRET}"), StateUpdated("harmless " * 200), Completed()])
    assert len(list(store.all_nodes(NS))) == 2
    erased = erase_value(store, SECRET, reason="x")
    assert erased.contents == [("r1", 1), ("r2", 1)]
    assert len(list(store.all_nodes(NS))) == 1
    for run in ("r1", "r2"):
        assert verify_run(store, run, deep=True).valid
        assert JournalReader(store, run).event(2).event.payload == "harmless " * 200  # type: ignore[attr-defined]


def test_other_namespaces_are_another_world(store: Store) -> None:
    begin(store, "r1").append([StateUpdated(SECRET), Completed()])
    begin(store, "r1", namespace="other").append([StateUpdated(SECRET), Completed()])
    erase_value(store, SECRET, reason="x")
    assert JournalReader(store, "r1", "other").event(1).event.payload == SECRET  # type: ignore[attr-defined]


def test_erasure_is_refused_while_a_sharer_is_being_written(store: Store) -> None:
    begin(store, "r1").append([StateUpdated(SECRET), Completed()])
    begin(store, "r2", sources=FixedSources("r2", holder="alive")).append(StateUpdated(SECRET))
    before = everything(store)
    with pytest.raises(Refused) as caught:
        erase_value(store, SECRET, reason="x")
    assert caught.value.code == "run_busy"
    assert everything(store) == before


def test_a_run_that_rests_is_erased_and_its_old_handle_is_fenced(store: Store) -> None:
    old = begin(store, sources=FixedSources("r1", holder="old"))
    old.append([StateUpdated(SECRET), ActionRequested("a1", 1)])
    old.release()
    erase_value(store, SECRET, reason="x")
    with pytest.raises(Refused):
        old.append(ActionSucceeded("a1", 1))


def test_a_run_can_be_continued_right_after_an_erasure(store: Store) -> None:
    journal = begin(store, sources=FixedSources("r1", holder="old"))
    journal.append([StateUpdated(SECRET), ActionRequested("a1", 1)])
    journal.release()
    erase_value(store, SECRET, reason="x")
    again = Journal.open(store, "r1", sources=FixedSources("again", holder="new"))
    again.append([ActionSucceeded("a1", 1), StateUpdated(2), Completed()])
    assert verify_run(store, "r1", deep=True).valid


def test_links_are_never_erased_so_a_value_in_a_key_blocks(store: Store) -> None:
    begin(store).append([Draft(StateUpdated(SECRET), key=f"pay/{SECRET}"), Completed()])
    plan = plan_erasure(store, SECRET)
    assert plan.blocked
    before = everything(store)
    with pytest.raises(Refused) as caught:
        erase_value(store, SECRET, reason="x")
    assert caught.value.code == "erasure_refused"
    assert everything(store) == before


def test_headers_are_never_erased_so_a_value_in_a_run_id_blocks(memory: MemoryStore) -> None:
    begin(memory, "customer-4711", facts={"who": "customer-4711"})
    assert plan_erasure(memory, "customer-4711").blocked
    with pytest.raises(Refused):
        erase_value(memory, "customer-4711", reason="x")
    assert JournalReader(memory, "customer-4711").facts() == {"who": "customer-4711"}


def test_the_reason_may_not_hold_the_value(memory: MemoryStore) -> None:
    """Erases everywhere, or raises and erases nothing: the record would bring back what it says is gone."""
    begin(memory).append([StateUpdated(SECRET), Completed()])
    before = everything(memory)
    with pytest.raises((Refused, InvalidInput)):
        erase_value(memory, SECRET, reason=f"card {SECRET} was asked for")
    assert everything(memory) == before


def test_a_value_in_the_operations_journal_blocks(store: Store) -> None:
    from onrecord.core.events import OperationNoted

    begin(store).append([StateUpdated(SECRET), Completed()])
    OperationsJournal.open_for(store).note(OperationNoted("late", {"card": SECRET}))
    with pytest.raises(Refused):
        erase_value(store, SECRET, reason="x")
    assert JournalReader(store, "r1").event(1).event.payload == SECRET  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "value",
    [
        'quote " and \\ backslash',
        "line\nbreak\tand tab",
        "Zoë 😀 größer",
        "x" * 1400,
        "a € b " * 20_000,
        "\u0001\u007f ctl",
    ],
)
def test_values_of_any_characters_are_found(memory: MemoryStore, value: str) -> None:
    begin(memory).append(
        [StateUpdated(["before", f"in a text: {value}."]), StateUpdated({value[:900]: 1}), Completed()]
    )
    contents = plan_erasure(memory, value).contents
    assert ("r1", 1) in contents
    if len(value) <= 900:
        assert ("r1", 2) in contents, "keys count too"
    erase_value(memory, value, reason="x")
    assert verify_run(memory, "r1", deep=True).valid


def test_a_value_across_a_cut_of_a_long_text_is_found(memory: MemoryStore) -> None:
    from onrecord.core.cuts import cut_text

    text = "".join(hashlib.sha256(str(n).encode()).hexdigest() for n in range(2000))
    cut = len(cut_text(text.encode())[0])
    begin(memory).append([StateUpdated(text), Completed()])
    assert plan_erasure(memory, text[cut - 10 : cut + 10]).contents == [("r1", 1)]


@pytest.mark.parametrize("size", [4, 5, 6, 17])
def test_values_inside_bytes_are_found_at_every_alignment(memory: MemoryStore, size: int) -> None:
    value = SECRET.replace(" ", "x")[:size]
    events = [StateUpdated(b"." * shift + value.encode() + b"!!") for shift in range(3)]
    begin(memory).append([*events, Completed()])
    assert plan_erasure(memory, value).contents == [("r1", 1), ("r1", 2), ("r1", 3)]


def test_values_inside_json_text_are_found(memory: MemoryStore) -> None:
    """Escaped once more: JSON inside a string is how most tools answer."""
    import json

    begin(memory).append(
        [StateUpdated(json.dumps({"name": 'Zoë "Z"'})), StateUpdated(json.dumps("Zoë O'Hara")), Completed()]
    )
    assert plan_erasure(memory, "Zoë O'Hara").contents == [("r1", 2)]
    assert plan_erasure(memory, 'Zoë "Z"').contents == [("r1", 1)]


def test_prefix_digests_behind_an_erased_event_are_computed_over_the_marker(store: Store) -> None:
    """Two runs that differ only in what was erased look alike from then on; what stands before keeps its digests."""
    for run, secret in (("r1", SECRET), ("r2", "other " + SECRET)):
        begin(store, run).append([*call(1, "q", "a"), *call(2, secret, "b"), *call(3, "q", "c"), Completed()])
    before = [[row.prefix for row in rows_of(store, run)] for run in ("r1", "r2")]
    assert before[0][:2] == before[1][:2]
    assert all(a != b for a, b in zip(before[0][2:], before[1][2:], strict=True))
    erase_value(store, SECRET, reason="x")
    after = [[row.prefix for row in rows_of(store, run)] for run in ("r1", "r2")]
    assert after[0] == after[1]
    assert after[0][:2] == before[0][:2]
    assert not set(after[0][2:]) & {*before[0], *before[1]}


def test_erasing_again_what_came_again(store: Store) -> None:
    begin(store, "r1").append([StateUpdated(SECRET), Completed()])
    erase_value(store, SECRET, reason="first")
    begin(store, "r2").append([StateUpdated(SECRET), StateUpdated(1), Completed()])
    erase_value(store, SECRET, reason="second")
    assert [([row[:2] for row in e.contents], e.reason) for e in operations(store)] == [  # type: ignore[attr-defined]
        ([["r1", 1]], "first"),
        ([["r2", 1]], "second"),
    ]
    assert all(verify_run(store, run, deep=True).valid for run in ("r1", "r2"))


def test_an_imported_run_is_erased_like_any_other(memory: MemoryStore, tmp_path: Path) -> None:
    other = MemoryStore()
    begin(other).append([StateUpdated(SECRET), Completed()])
    import_file(memory, written(tmp_path / "f.jsonl", export(other)))
    erase_value(memory, SECRET, reason="x")
    assert verify_run(memory, "r1", deep=True).valid


def test_erased_facts_take_the_volatile_rules_with_them_and_the_run_stays_valid(memory: MemoryStore) -> None:
    """The rules stood in the facts. What was matched by them cannot be recomputed, which is no damage."""
    journal = begin(memory, facts={"who": SECRET}, volatile=[("*", "/payload/date")])
    journal.append([*call(1, {"date": 1, "q": 2}, "x"), Completed()])
    erase_value(memory, SECRET, reason="x")
    assert verify_run(memory, "r1").valid
    assert verify_run(memory, "r1", deep=True).valid


def test_a_run_with_erased_facts_keeps_its_reducer(memory: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = begin(memory, facts={"who": SECRET}, reducer=Counting(), sources=FixedSources("r1", holder="one"))
    journal.append(StateUpdated(1))
    journal.release()
    erase_value(memory, SECRET, reason="x")
    later = time.clock_gettime(time.CLOCK_BOOTTIME) + 60  # the lease of the erasure has expired
    monkeypatch.setattr(time, "clock_gettime", lambda _: later)
    with pytest.raises((Refused, InvalidInput)):
        Journal.open(memory, "r1", sources=FixedSources("b", holder="two")).append([StateUpdated(2), StateUpdated(3)])


def test_erasure_and_its_record_are_one(memory: MemoryStore) -> None:
    begin(memory).append([StateUpdated(SECRET), Completed()])
    OperationsJournal.open_for(memory)
    before = everything(memory)
    original = memory.erase_contents

    def fail(*_: Any) -> None:
        raise OSError("killed")

    memory.erase_contents = fail  # type: ignore[method-assign]
    with pytest.raises(OSError, match="killed"):
        erase_value(memory, SECRET, reason="x")
    memory.erase_contents = original  # type: ignore[method-assign]
    assert everything(memory) == before

    moved: list[int] = []

    def beaten_once(*args: Any) -> None:
        if not moved:
            moved.append(1)
            OperationsJournal.open_for(memory).note(RunRetired("x", "h", 1, "h", "somebody was faster"))
            raise MovedHead("moved")
        original(*args)

    memory.erase_contents = beaten_once  # type: ignore[method-assign]
    erase_value(memory, SECRET, reason="x")
    assert [event.kind for event in operations(memory)] == ["RunRetired", "ContentErased"]
    assert verify_run(memory, "operations").valid


def test_a_content_taken_away_without_a_record_is_damage(memory: MemoryStore) -> None:
    small_run(memory)
    rows = rows_of(memory)
    for index in range(len(rows)):
        gone = rows[index]._replace(content=None, salt=None, match=None)
        report = verify_run(Altered(memory, rows=[*rows[:index], gone, *rows[index + 1 :]]), "r1")
        assert not report.valid
        assert report.first_bad_seq == index + 1
    store = Altered(memory, header={"content": None, "salt": None, "match": None})
    report = verify_run(store, "r1")
    assert report.first_bad_seq == 0
    with pytest.raises(Damaged):
        report.raise_if_invalid()


def test_an_erasure_record_is_of_one_run_and_not_of_its_name(memory: MemoryStore) -> None:
    """The id comes back after retention; what was erased of its predecessor excuses nothing."""
    begin(memory).append([StateUpdated(SECRET), StateUpdated(2), Completed()])
    erase_value(memory, SECRET, reason="x")
    retire_run(memory, "r1", reason="old")
    begin(memory, sources=FixedSources("again")).append([StateUpdated(1), StateUpdated(2), Completed()])
    rows = rows_of(memory)
    rows[0] = rows[0]._replace(content=None, salt=None, match=None)
    report = verify_run(Altered(memory, rows=rows), "r1")  # type: ignore[arg-type]
    assert "missing_content" in {problem.code for problem in report.problems if problem.seq == 1}


def test_a_value_in_json_inside_bytes_and_artifacts_is_found(memory: MemoryStore) -> None:
    import json

    value = 'päss"word-77'
    spelled = json.dumps({"password": value}).encode()
    begin(memory).append([StateUpdated(spelled), StateUpdated(spelled + b" " * 70_000), Completed()])
    assert plan_erasure(memory, value).contents == [("r1", 1), ("r1", 2)]
