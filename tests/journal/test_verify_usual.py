"""The quick half of the verifier takes nothing that the thorough half would complain of."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from kit.journals import Altered, Draft, begin, flipped, rows_of
from onrecord.core.events import (
    ActionRequested,
    ActionSucceeded,
    AttemptRecorded,
    Completed,
    SignalReceived,
    StateUpdated,
)
from onrecord.core.hashing import link_hash, render
from onrecord.errors import Damaged
from onrecord.journal.range_checks import RangeVerifier
from onrecord.journal.verify import VerificationReport, verify_run
from onrecord.store.contract import EventRow, Store
from onrecord.store.memory import MemoryStore
from onrecord.store.sqlite import row_types
from onrecord.store.sqlite.store import SqliteStore

LANE = 'main>né "\\'


def mixed_run(store: Store) -> None:
    """Events with and without keys, parents, lanes and ids of their own; a state, a long content, a tag."""
    journal = begin(store)
    for n, key in enumerate((None, "main/ask/0", 'quote " and \\', "né\u2028", "\x01\x7f")):
        lane = "main" if n % 2 == 0 else LANE
        journal.append(
            [Draft(ActionRequested(f"a{n}", {"n": n}), key=key, lane=lane), AttemptRecorded(f"a{n}", 1, "ok")]
        )
        journal.append([Draft(SignalReceived("s", "x" * (2000 if n == 1 else 3)), parent=1, lane=lane)])
        journal.append([Draft(ActionSucceeded(f"a{n}", (n,)), lane=lane), Draft(StateUpdated({"n": n}), id=f"own-{n}")])
    journal.append([ActionRequested("open", 1), Completed()])


def without_the_quick_half(check: Callable[[], VerificationReport]) -> VerificationReport:
    def none_is_usual(_self: RangeVerifier, rows: Iterator[EventRow]) -> EventRow | None:
        return next(rows, None)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RangeVerifier, "_check_usual", none_is_usual)
        return check()


def report_of(memory: MemoryStore, rows: list[EventRow], *, deep: bool = False) -> VerificationReport:
    """The report, after both halves have come to the same one."""

    def check() -> VerificationReport:
        return verify_run(Altered(memory, rows=rows), "r1", deep=deep)

    report = check()
    assert report == without_the_quick_half(check)
    return report


def chained(rows: list[EventRow], index: int, link: bytes, **columns: Any) -> list[EventRow]:
    """With another link at `index`, and everything behind it chained to that: only its own text can betray it."""
    made = list(rows)
    made[index] = made[index]._replace(link=link, hash=link_hash(link), **columns)
    for at in range(index + 1, len(made)):
        prev, hash_before = json.loads(made[at].link)["prev"].encode(), render(made[at - 1].hash).encode()
        text = made[at].link.replace(prev, hash_before)
        made[at] = made[at]._replace(link=text, hash=link_hash(text))
    return made


def test_usual_events_do_not_reach_the_thorough_half(memory: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    mixed_run(memory)
    thorough, reached = RangeVerifier._check_event, []

    def noted(self: RangeVerifier, row: EventRow) -> None:
        reached.append((row.seq, row.kind, row.lane))
        thorough(self, row)

    monkeypatch.setattr(RangeVerifier, "_check_event", noted)
    assert verify_run(memory, "r1").valid
    rows = rows_of(memory)
    first_of_lane = next(row.seq for row in rows if row.lane == LANE)
    unusual = {row.seq for row in rows if row.id.startswith("own-") or row.kind == "Completed"}
    assert {seq for seq, _, _ in reached} == unusual | {first_of_lane}
    assert len(reached) < len(rows) / 2


def test_both_halves_find_a_good_run_good(memory: MemoryStore) -> None:
    mixed_run(memory)
    for deep in (False, True):
        assert report_of(memory, rows_of(memory), deep=deep).valid


def respelled(link: bytes) -> dict[str, bytes]:
    """Other texts that say the same, or nearly."""
    members = json.loads(link)

    def written(members: dict[str, Any], **options: Any) -> bytes:
        return json.dumps(members, **{"separators": (",", ":"), "ensure_ascii": False, **options}).encode()

    def number(name: str, text: str) -> bytes:
        return link.replace(f'"{name}":{members[name]}'.encode(), f'"{name}":{text}'.encode())

    made = {
        "spaces": written(members, separators=(", ", ": ")),
        "a space at the end": link + b" ",
        "a line feed before": b"\n" + link,
        "a byte order mark": b"\xef\xbb\xbf" + link,
        "a zero byte behind": link + b"\0",
        "keys in another order": written(dict(reversed(members.items()))),
        "a key twice": link.replace(b'{"content"', b'{"time":1,"content"'),
        "the last key twice": link[:-1] + f',"time":{members["time"]}}}'.encode(),
        "another key": written({**members, "zzz": 1}),
        "a nested value too many": link.replace(b'{"content"', b'{"a":' + b"[" * 5000 + b"]" * 5000 + b',"content"'),
        "an escaped letter": link.replace(b'"id":"', b'"id":"\\u005f', 1).replace(b"\\u005f_", b"\\u005f"),
        "an escaped key": link.replace(b'"lane"', b'"\\u006cane"'),
        "an escaped kind": link.replace(f'"kind":"{members["kind"]}'.encode(), b'"kind":"\\u0041'),
        "a float as time": number("time", f"{members['time']}.0"),
        "an exponent as time": number("time", f"{members['time']}e0"),
        "a zero before time": number("time", f"0{members['time']}"),
        "a minus before time": number("time", f"-{members['time']}"),
        "no time": number("time", "-0"),
        "time as text": number("time", f'"{members["time"]}"'),
        "a huge time": number("time", "9" * 400),
        "a time beyond the largest": number("time", str(2**53)),
        "true as seq": number("seq", "true"),
        "a float as seq": number("seq", f"{members['seq']}.0"),
        "upper case in a hash": link.replace(members["content"].encode(), members["content"].upper().encode()),
        "another run": written({**members, "run": "r2"}),
        "a key too long": written({**members, "key": "k" * 1025}),
        "a key that is a number": written({**members, "key": 1}),
        "a lane that does not exist": written({**members, "lane": "main>a/b"}),
        "itself as parent": written({**members, "parent": members["seq"]}),
        "zero as parent": written({**members, "parent": 0}),
        "true as parent": written({**members, "parent": True}),
        "a text as parent": written({**members, "parent": "1"}),
        "invalid UTF-8": link.replace(b'"run":"r1"', b'"run":"r1\xff"'),
    }
    if members["key"]:
        key = json.dumps(members["key"], ensure_ascii=False).encode()
        escaped = "".join(f"\\u{ord(letter):04x}" for letter in members["key"]).encode()
        made["an escaped replay key"] = link.replace(b'"key":' + key, b'"key":"' + escaped + b'"')
        made["no replay key any more"] = link.replace(b'"key":' + key, b'"key":""null')
    return {name: text for name, text in made.items() if text != link}


def test_a_link_in_another_spelling_is_located_though_it_chains(memory: MemoryStore) -> None:
    mixed_run(memory)
    rows = rows_of(memory)
    for index, row in enumerate(rows):
        for name, link in respelled(row.link).items():
            report = report_of(memory, chained(rows, index, link))
            assert report.first_bad_seq == row.seq, (row.seq, name)


@pytest.mark.parametrize(
    "event_id",
    ["é_1", "_é_1", "a b", 'a","id":"b', "", "_", "_x", "_x_2", "x" * 65, "_" + "x" * 62 + "_1", "a\\b", "a\n"],
)
def test_an_id_against_the_rule_is_located_though_link_and_column_agree(memory: MemoryStore, event_id: str) -> None:
    begin(memory).append([Draft(SignalReceived("s", 1)), Draft(SignalReceived("s", 2))])
    rows = rows_of(memory)
    text = json.dumps(event_id, ensure_ascii=False)[1:-1]
    for written in {event_id, text}:
        link = rows[0].link.replace(rows[0].id.encode(), written.encode())
        assert report_of(memory, chained(rows, 0, link, id=event_id)).first_bad_seq == 1


@pytest.mark.parametrize(("column", "value"), [("kind", "b'X'"), ("kind", "Strange"), ("lane", 'x","lane":"0')])
def test_columns_that_do_not_belong_into_a_link(memory: MemoryStore, column: str, value: str) -> None:
    begin(memory).append([SignalReceived("s", 1), SignalReceived("s", 2)])
    rows = rows_of(memory)
    there = getattr(rows[0], column)
    link = rows[0].link.replace(f'"{column}":"{there}"'.encode(), f'"{column}":"{value}"'.encode())
    assert report_of(memory, chained(rows, 0, link, **{column: value})).first_bad_seq == 1


def altered(rows: list[EventRow], choose: random.Random) -> list[EventRow]:
    rows = list(rows)
    index = choose.randrange(len(rows))
    row = rows[index]
    column = choose.choice(EventRow._fields)
    value = getattr(row, column)
    match choose.randrange(6):
        case 0 if isinstance(value, bytes):
            bit = choose.randrange(8 * len(value))
            rows[index] = row._replace(**{column: flipped(value, bit // 8, 1 << bit % 8)})
        case 1 if column in ("salt", "match", "prefix", "content", "lane_seq"):
            rows[index] = row._replace(**{column: None})
        case 2 if isinstance(value, int):
            rows[index] = row._replace(**{column: value + choose.choice((-1, 1, 7))})
        case 3 if isinstance(value, str):
            rows[index] = row._replace(**{column: getattr(choose.choice(rows), column)})
        case 4 if isinstance(value, bytes):
            rows[index] = row._replace(**{column: choose.choice((b"", value[:-1], value + b"\0", b"\0" + value))})
        case 5:
            other = choose.randrange(len(rows))
            rows[index], rows[other] = rows[other], row
        case _:
            member = choose.choice(("id", "key", "kind", "lane", "parent", "seq", "time"))
            members = json.loads(row.link)
            members[member] = choose.choice(
                (None, 0, 1, row.seq, -1, "main", "main>a", "x", "Completed", "SignalReceived")
            )
            text = json.dumps(members, separators=(",", ":"), ensure_ascii=False).encode()
            same = {name: members[name] for name in ("id", "kind", "lane") if isinstance(members[name], str)}
            rows = chained(rows, index, text, **same)
    return rows


@pytest.mark.parametrize("seed", range(4))
def test_both_halves_come_to_the_same_report_whatever_is_altered(memory: MemoryStore, seed: int) -> None:
    mixed_run(memory)
    original, choose = rows_of(memory), random.Random(seed)
    for _ in range(150):
        rows = altered(original, choose)
        report = report_of(memory, rows, deep=choose.random() < 0.2)
        if report.valid:
            # Only what an event's own link says, and another event's answer does not depend on, can be changed by
            # somebody who chains everything behind it anew.
            assert rows == original or rows[-1].hash != original[-1].hash


# Columns of a wrong type


@pytest.mark.parametrize("column", range(len(EventRow._fields)))
def test_a_column_of_a_wrong_type_ends_a_page_before_it(memory: MemoryStore, column: int) -> None:
    mixed_run(memory)
    rows = [tuple(row) for row in rows_of(memory)]
    assert row_types.make_events(rows, "r1") == rows_of(memory)
    wrong: list[Any] = [1.0, 7, "text", b"bytes", None, float(rows[3][0])]
    for value in wrong:
        row = (*rows[3][:column], value, *rows[3][column + 1 :])
        allowed = tuple(map(type, row)) in row_types.EVENT
        page = [*rows[:3], row, *rows[4:]]
        assert len(row_types.make_events(page, "r1")) == (len(rows) if allowed else 3)
        if not allowed:
            with pytest.raises(Damaged, match=r"event .* of run 'r1' has a column of the wrong type"):
                row_types.make_events(page[3:], "r1")


@pytest.mark.parametrize("change", ["link = 'text'", "content = 'text'", "hash = 'text'", "prefix = 'text'"])
def test_a_column_of_a_wrong_type_in_a_file_is_located(tmp_path: Path, change: str) -> None:
    path = tmp_path / "store.db"
    store = SqliteStore(path)
    begin(store).append([SignalReceived("s", n) for n in range(600)])
    store.close()
    other = apsw.Connection(str(path))
    other.pragma("writable_schema", True)
    for find, put in ((") STRICT", ")"), (")", ") STRICT")):
        changed = f"substr(sql, 1, length(sql) - {len(find)}) || '{put}'"
        other.execute(f"UPDATE sqlite_schema SET sql = {changed} WHERE name = 'events'")
        other.close()
        other = apsw.Connection(str(path))
        other.pragma("writable_schema", True)
        if put == ")":
            triggers = other.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'").fetchall()
            for name, _ in triggers:
                other.execute(f"DROP TRIGGER {name}")
            other.execute(f"UPDATE events SET {change} WHERE seq = 590")
            for _, trigger in triggers:
                other.execute(str(trigger))
    other.close()
    store = SqliteStore(path)
    report = verify_run(store, "r1")
    store.close()
    assert (report.first_bad_seq, report.verified, report.problems[0].code) == (590, 589, "bad_row")
