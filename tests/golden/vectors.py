"""What the golden files hold, computed anew: the hashes of docs/format.md, and whole recordings of fixed sources.

`tests/golden/test_golden.py` compares, `python tests/golden/make.py` writes. A difference is a new format version,
never a new golden file.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from pathlib import Path, PurePosixPath
from typing import Any
from uuid import UUID

from onrecord.core import hashing
from onrecord.core.canonical import canonical_bytes, stored_bytes
from onrecord.core.codec import encode, encode_json_text
from onrecord.core.events import (
    ActionDenied,
    ActionFailed,
    ActionRequested,
    ActionSucceeded,
    AttemptRecorded,
    BudgetReserved,
    Cancelled,
    CheckpointPublished,
    ChunkReceived,
    Completed,
    ContentErased,
    EffectSettled,
    Failed,
    FilesObserved,
    FilesWritten,
    InputSent,
    Interrupted,
    KeyRotated,
    OperationNoted,
    OutputPrinted,
    ProcessAttached,
    Resumed,
    RunReleased,
    RunRetired,
    SignalReceived,
    SnapshotTaken,
    StateUpdated,
    TurnTaken,
    ValuesDrawn,
    WaitCreated,
    WaitResolved,
)
from onrecord.core.links import Header, Link, ParentRun, link_bytes
from onrecord.core.matching import MatchRules
from onrecord.core.merkle import Sharer
from onrecord.core.packing import pack
from onrecord.core.state import state_hash, state_link
from onrecord.journal.export import export_lines
from onrecord.journal.journal import Draft, Journal
from onrecord.journal.operations import OperationsJournal
from onrecord.journal.reader import JournalReader
from onrecord.store.contract import SnapshotRow
from onrecord.store.memory import MemoryStore

FOLDER = Path(__file__).resolve().parent
VECTORS = FOLDER / "format-1.json"
RECORDING = FOLDER / "recording-1.jsonl"
START_US = 1_763_236_044_000_000
_TURNS = [
    *(["timer", "main", 1, 5], ["start", "main>fetch#1", 0, 6, 3], ["back", "main>fetch", 2, 7]),
    *(["away", "main>fetch", 2, 1], ["began", "main/ask/0"]),
]


class FixedSources:
    """A clock that ticks once a reading and randomness that is a hash of a counter: the same recording every time.

    Salts are counted on their own, so that whatever else the journal draws (ids are its own affair) moves nothing.
    """

    def __init__(self, seed: str = "golden", holder: str = "golden") -> None:
        self._seed = seed
        self._holder = holder
        self._ticks = itertools.count(START_US)
        self._draws: dict[int, Iterator[int]] = {}

    def now_us(self) -> int:
        return next(self._ticks)

    def entropy(self, size: int) -> bytes:
        number = next(self._draws.setdefault(size, itertools.count()))
        return hashlib.sha256(f"{self._seed}/{size}/{number}".encode()).digest()[:size]

    def holder(self) -> str:
        return self._holder


# Recordings


def _export(store: MemoryStore, run: str) -> bytes:
    return b"".join(line + b"\n" for line in export_lines(JournalReader(store, run)))


def golden_run(store: Any, run: str = "golden-1", sources: FixedSources | None = None) -> Journal:
    """A run that holds every kind of event a run may hold, but for the two other ways to end."""
    sources = sources or FixedSources()
    facts = {"agent": "golden", "argv": ["agent.py", "--fast"], "python": "3.11.2", "meta": {"hash_seed": 7}}
    facts |= {"tags": {"team": "a"}, "parent_policy": "cancel", "tolerance": {"cost": 0.1}}
    facts["code_pin"] = {"digest": hashing.render(hashing.artifact_address(b"code")), "version": "1.2"}
    journal = Journal.create(store, run, facts=facts, sources=sources)
    numbers = itertools.count(1)

    def add(*events: Any, **more: Any) -> None:
        journal.append([Draft(event, id=f"e{next(numbers)}", **more) for event in events])

    long_text = "Answer in one word. " * 52
    question = {"messages": [{"role": "system", "content": long_text}, {"role": "user", "content": "2+2?"}]}
    add(
        ProcessAttached({"pid": 1}),
        ValuesDrawn([["main", "agent.begin time", 1.5], ["main>fetch", "agent.fetch urandom", b"\x00\xff"]]),
    )
    add(StateUpdated({"step": 1, "note": "né"}, step_id="n1"))
    add(ActionRequested("a1", question, name="ask", effect="model_call"), key="main/ask/0")
    add(ChunkReceived("a1", 0, "4"), AttemptRecorded("a1", 1, "ok"), ActionSucceeded("a1", "4"))
    _snapshot(journal, {"step": 1, "note": "né"}, f"e{next(numbers)}")
    add(ActionRequested("a2", question, name="ask"), lane="main>fetch#1")
    add(ActionFailed("a2", ValueError("no")), lane="main>fetch#1", key="step 3")
    add(SignalReceived("poke", 1), lane='main>né "quoted"\\%3E')
    add(ActionDenied("a3", "not allowed", {"to": "all"}), ActionRequested("a4", [1, 1.0, (2**70, float("inf"))]))
    add(EffectSettled("a4", "done", value="sent", by="operator"), ActionSucceeded("a4", "sent"))
    add(Interrupted("go on?"), Resumed(True))
    add(WaitCreated("w1", "approval", deadline=START_US), WaitResolved("w1", {"ok": True}))
    add(SignalReceived("stop", None), TurnTaken(_TURNS))
    _add_decisions(add)
    _add_command(add)
    add(RunReleased(1, [START_US, START_US + 5]))
    add(StateUpdated([]), key="checkpoint")
    add(StateUpdated([1]), Completed("4"), lane="main@1")
    return journal


def _add_decisions(add: Any) -> None:
    """What later work writes: `meta`, questions, and the person who decided."""
    site = {"file": "agent.py", "line": 7, "function": "main"}
    schema = {"type": "boolean"}
    pairs = {10: "a", (2, "é"): "b", 9: {None: 1, "\ufb33": 2, "😀": 3}}
    question = WaitCreated("w2", "refund", question="Send 5 €?", schema=schema, context={"order": 7})
    add(question, WaitResolved("w2", {"ok": True}, by="ada", why="small"))
    add(Interrupted("stop?"), Resumed(False, by="ada", why="no"))
    add(
        ActionRequested("a5", pairs, name="pay", meta={"births": 2, "site": site, "own": [1]}),
        BudgetReserved("a5", {"cost": 0.5}),
    )
    add(AttemptRecorded("a5", 1, "failed", latency_us=1500))
    add(EffectSettled("a5", "failed", by="ada", why="not sent"))
    add(ActionFailed("a5", TimeoutError("late"), meta={"traceback": "Traceback: late"}), key="cancelled ahead")


def _add_command(add: Any) -> None:
    """A command, a read of the program's input, and files."""
    empty, some = hashing.render(hashing.artifact_address(b"")), hashing.render(hashing.artifact_address(b"hi\n"))
    streams = {"in": "pipe", "out": "pipe", "err": "inherited"}
    asked = {"argv": ["sed", "-i", "s/a/b/", "f.txt"], "cwd": "/work", "environment": ["LANG"], "streams": streams}
    version = {"kind": "file", "mode": 0o100644, "size": 3, "digest": some}
    look = {"path": "f.txt", "look": "open", "version": {**version, "mtime": 5, "content": "hi\n"}, "cause": "first"}
    absent = {
        "path": b"\xff",
        "look": "stat",
        "version": {"kind": "absent"},
        "cause": "first",
        "lane": "main",
        "ordinal": 0,
    }
    add(FilesObserved([look, absent]))
    add(ActionRequested("c1", asked, name="sed", effect="command", meta={"once": True}), key="main/command sed/0")
    add(ChunkReceived("c1", 0, {"pid": 4242, "started": 77}), InputSent("c1", size=3, digest=some))
    add(ChunkReceived("c1", 1, {"stream": "out", "data": b"hi\n", "taken": {"size": 3, "digest": some}}))
    add(InputSent("c1", signal=15))
    changed = [{"path": "f.txt", "version": version, "cause": "command"}]
    sums = {"out": {"size": 3, "digest": some}, "err": {"size": 0, "digest": empty}}
    output = {"status": -15, "output": sums, "changed": changed, "input": sums["out"], "signals": [15]}
    add(ActionSucceeded("c1", output, meta={"versions": [{"mtime": 6}]}))
    add(ActionRequested("i1", {"how": "line", "prompt": "> "}, name="input", effect="input"))
    add(ActionSucceeded("i1", {"data": "yes\n"}), FilesWritten([{"path": "out.txt", "version": version}]))
    add(OutputPrinted("out", 3, some, data="hi\n"))


def _snapshot(journal: Journal, state: Any, event_id: str) -> None:
    """As `take_snapshot` does it, with an event id that stays the same."""
    head, salt, stored = journal.head(), journal.new_salt(), stored_bytes(state)
    voucher = SnapshotTaken(head.seq, "replace/1", 1, state_link(state, salt))
    journal.append(Draft(voucher, id=event_id, salt=salt))
    seal = hashing.snapshot_seal(journal.run, head.seq, head.hash, "replace/1", 1, stored)
    row = SnapshotRow(head.seq, head.hash, "replace/1", 1, seal, pack(stored))
    journal.store.put_snapshot(journal.namespace, journal.run, row)


def recordings() -> dict[str, bytes]:
    """Exports by name. The three ways to end, an operations journal, and a run that has only begun."""
    store = MemoryStore()
    golden_run(store)
    made = {"golden-1": _export(store, "golden-1")}
    for name, events in {
        "failed": [Failed(RuntimeError("broken"))],
        "cancelled": [Cancelled("by hand")],
        "begun": [ActionRequested("a1", None)],
        "empty": [],
    }.items():
        journal = Journal.create(store, name, sources=FixedSources(name))
        if events:
            journal.append([Draft(event, id=f"e{number}") for number, event in enumerate(events, 1)])
        made[name] = _export(store, name)
    operations = OperationsJournal.open_for(store, sources=FixedSources("operations"))
    ended = JournalReader(store, "failed").head()
    header = JournalReader(store, "failed").header_row.hash
    rendered = (hashing.render(header), ended.seq, hashing.render(ended.hash))
    noted = [
        RunRetired("failed", *rendered, "age"),
        ContentErased([["golden-1", 4, hashing.render(_A)], ["golden-1", 0, hashing.render(_A)]], "asked for"),
        OperationNoted("late_resolution", {"wait": "w1"}),
        KeyRotated("waits", "k2", previous="k1", reason="yearly"),
        CheckpointPublished("log.example/onrecord", 7, hashing.render(_B), note="…", witnesses=["w.example"]),
    ]
    operations.append([Draft(event, id=f"e{number}") for number, event in enumerate(noted, 1)])
    made["operations"] = _export(store, "operations")
    return made


# Hashes


def _bytes(length: int, seed: int) -> bytes:
    return bytes((seed + 7 * index) % 256 for index in range(length))


_SALT = _bytes(16, 1)
_A, _B, _C = _bytes(32, 2), _bytes(32, 3), _bytes(32, 4)
# Stored text as a writer may have left it; how a float is spelled is the writer's affair.
_STORED = b'{"output":[1,1.0,1e21,"\xc3\xa9"],"action_id":"a1"}'
_FRAME = bytes.fromhex("28b52ffd2006310000") + b"reenac"
_TREE = {"kind": "ignored", "b": [1, 1.0, -0.0, 1e21, 1e-7], "a": {"é": '\u0001"', "\ufb33": 1, "😀": 2}}

_LANE = 'main@2>fetch#1>né "q"\\\u2028'

Row = tuple[str, str, list[bytes], bytes]


def _header(parent: ParentRun | None) -> bytes:
    return Header(
        content=hashing.render(_A),
        created=START_US,
        format="onrecord/1",
        kind="run",
        namespace="default",
        parent=parent,
        reducer="replace/1",
        rules="onrecord.rules/1",
        run="r",
    ).to_bytes()


def _link(key: str | None, parent: int | None, lane: str = "main") -> bytes:
    return link_bytes(
        Link(
            content=hashing.render(_A),
            id="e-1",
            key=key,
            kind="Resumed",
            lane=lane,
            parent=parent,
            prev=hashing.render(_B),
            run="r",
            seq=5,
            time=START_US,
        )
    )


def _masked(kind: str, content: dict[str, Any]) -> bytes:
    return canonical_bytes({"content": content, "kind": kind})


def hash_rows() -> list[Row]:
    """(hash, name, parts after the zero byte, what the code computes), one or more for each row of section 2."""
    canonical = canonical_bytes(_TREE)
    forked = ParentRun(head=hashing.render(_B), relation="fork", run="r0", seq=3)
    u64 = [number.to_bytes(8, "big") for number in (0, 1, 2**40)]
    request = {"action_id": "a1", "payload": {"action_id": "kept"}, "name": "ask", "meta": 1}
    rows: list[Row] = []
    for name, header in (("plain", _header(None)), ("of a fork", _header(forked))):
        rows.append(("header", name, [header], hashing.header_hash(header)))
    for name, link in (("plain", _link(None, None)), ("with key and parent", _link('k"\\\u0001é\x7f😀', 4, _LANE))):
        rows.append(("link", name, [link], hashing.link_hash(link)))
    for name, text in (("plain", _STORED), ("empty", b"")):
        rows.append(("commit", name, [_SALT, _A, text], hashing.commitment(_SALT, _A, text)))
    masked = _masked("ActionRequested", {"payload": {"action_id": "kept"}, "name": "ask"})
    rows.append(("match", "members left out at the top only", [masked], MatchRules().match("ActionRequested", request)))
    rules = MatchRules([("*", "/payload/*"), ("Other", "/name"), ("ActionRequested", "/list/1")])
    listed = {"payload": {"x": 1}, "name": "n", "list": [1, 2, 3]}
    masked = _masked("ActionRequested", {"payload": {}, "name": "n", "list": [1, None, 3]})
    rows.append(("match", "added paths", [masked], rules.match("ActionRequested", listed)))
    pairs = {"output": {"$dict": [[9, 1], [{"$tuple": [2]}, 2], [10, 3]]}}
    masked = b'{"content":{"output":{"$dict":[[10,3],[9,1],[{"$tuple":[2]},2]]}},"kind":"ActionSucceeded"}'
    rows.append(("match", "pairs are sorted", [masked], MatchRules().match("ActionSucceeded", pairs)))
    decided = {"resolution": 1, "by": "ada", "why": "so", "meta": {"own": 1}, "wait_id": "w"}
    masked = _masked("WaitResolved", {"resolution": 1})
    rows.append(("match", "who decided is left out", [masked], MatchRules().match("WaitResolved", decided)))
    for name, distance in (("no distance", u64[0]), ("distance 1", u64[1]), ("far", u64[2])):
        computed = hashing.next_prefix(_A, _B, int.from_bytes(distance, "big"))
        rows.append(("prefix", name, [_A, _B, distance], computed))
    rows.append(("prefix", "of an erased event", [bytes(32), hashing.ERASED_MARKER, u64[0]], _erased_prefix()))
    rows.append(("erased", "the marker", [], hashing.ERASED_MARKER))
    for name, children in (("no child", []), ("two children", [_B, _C])):
        rows.append(("lanes", name, [_A, *children], hashing.lane_fold(_A, children)))
    rows.append(("order", "of a lane", [_A, "main>né#9".encode()], hashing.next_order(_A, "main>né#9")))
    rows.append(("node", "a list", [b'["a",1.0]'], hashing.node_address(b'["a",1.0]')))
    rows.append(("artifact", "bytes", [_bytes(300, 5)], hashing.artifact_address(_bytes(300, 5))))
    rows.append(("artifact", "nothing", [b""], hashing.artifact_address(b"")))
    state = hashing.parse_hash(state_hash(_TREE))
    rows.append(("state", "keys sorted", [canonical], state))
    rows.append(("state", "null", [b"null"], hashing.parse_hash(state_hash(None))))
    linked = hashing.parse_hash(state_link(_TREE, _SALT))
    rows.append(("statelink", "keys sorted", [_SALT, canonical], linked))
    rows.append(("frame", "a Zstandard frame", [_FRAME], hashing.frame_digest(_FRAME)))
    rows.append(("value", "sorted paths", [b'[["*","/payload/*"]]'], _value_of_rules()))
    rows.append(("snapshot", "framed", _snapshot_parts(), hashing.snapshot_seal("r", 12, _A, "replace/1", 3, _STORED)))
    return rows


def _erased_prefix() -> bytes:
    from onrecord.core.matching import advance_prefix

    return advance_prefix(None, None, 0)


def _value_of_rules() -> bytes:
    return hashing.parse_hash(MatchRules([("*", "/payload/*")]).id.removeprefix("onrecord.rules/1+"))


def _snapshot_parts() -> list[bytes]:
    parts = [b"r", b"12", _A, b"replace/1", b"3", _STORED]
    return [piece for part in parts for piece in (len(part).to_bytes(8, "big"), part)]


def hash_vectors() -> list[dict[str, Any]]:
    return [
        {"hash": name, "case": case, "parts": [part.hex() for part in parts], "expected": hashing.render(digest)}
        for name, case, parts, digest in hash_rows()
    ]


# Sharing and tags


def pseudo_text(count: int) -> str:
    """Text that anybody can make again: SHA-256 of 0, 1, 2 … in decimal, as hex, a space after each."""
    return "".join(hashlib.sha256(str(index).encode()).hexdigest() + " " for index in range(count))


def sharing_inputs() -> dict[str, dict[str, Any]]:
    def message(index: int) -> dict[str, Any]:
        return {"role": "user", "content": pseudo_text(index % 4 + 1), "n": index}

    return {
        "small: nothing is shared": {"payload": ["x" * 400]},
        "a string of 510 characters": {"payload": "x" * 510},
        "a string of 509 characters stays": {"payload": "x" * 509, "more": 1},
        "a list that splits": {"payload": [message(index) for index in range(40)]},
        "a list that ends with an open run": {"payload": [[index, pseudo_text(1)] for index in range(18)]},
        "a list without a closed run stays": {"payload": [0] * 600},
        "a list whose addresses are grouped": {"payload": [message(index) for index in range(400)]},
        "a string that is cut": {"payload": pseudo_text(2500)},
        "a string cut in the middle of characters": {"payload": "€" * 30_000},
        "a large object": {"payload": {f"k{index}": "v" * 20 for index in range(120)}, "name": "n"},
        "an object of less than 2048 bytes stays": {"payload": {f"k{index}": "v" * 20 for index in range(60)}},
        "tags are not replaced, what they hold is": {
            "payload": [{"$tuple": ["x" * 1200, 1]}, {"$bytes": "QUJD" * 400}]
        },
    }


def sharing_vectors() -> list[dict[str, Any]]:
    made = []
    for name, tree in sharing_inputs().items():
        sharer = Sharer()
        root = sharer.share(tree)
        nodes = [hashing.render(address) for address in sharer.new_nodes]
        sizes = [len(stored) for stored in sharer.new_nodes.values()]
        made.append({"case": name, "root": root.decode(), "nodes": nodes, "node_bytes": sizes})
    return made


class Colour(Enum):
    RED = "r"


def tag_values() -> dict[str, Any]:
    zone = timezone(timedelta(hours=2))
    return {
        "int beyond": 2**53,
        "int below": -(2**53),
        "int at the edge": 2**53 - 1,
        "floats": [1.0, -0.0, 1.5, 0.1],
        "nan": float("nan"),
        "inf": float("inf"),
        "-inf": float("-inf"),
        "complex": complex(1.5, float("nan")),
        "lone surrogate": "a\ud800",
        "bytes": b"\x00\xff\xfe",
        "bytearray": bytearray(b"ab"),
        "artifact": bytes(65_537),
        "tuple": (1, (2,)),
        "set": {3, 1, 20},
        "frozenset": frozenset({"b", "a"}),
        "keys that are not text": {1: "a", "1": "b", None: "c"},
        "own dollar key": {"$ref": 1},
        "own two-dollar key": {"$$ref": 1},
        "two keys are never touched": {"$ref": 1, "$node": 2},
        "datetime": datetime(2025, 11, 15, 1, 2, 3, 4),
        "datetime with offset": datetime(2025, 11, 15, tzinfo=zone),
        "date": date(2025, 11, 15),
        "time": time(1, 2, 3),
        "timedelta": timedelta(days=-1, seconds=2, microseconds=3),
        "decimal": Decimal("1.10"),
        "fraction": Fraction(1, 3),
        "uuid": UUID(int=1),
        "path": PurePosixPath("/a/b"),
        "range": range(1, 10, 2),
        "enum": Colour.RED,
        "error": ValueError("no", 3),
    }


def tag_vectors() -> dict[str, str]:
    made = {name: stored_bytes(encode(value).tree).decode() for name, value in tag_values().items()}
    for name, text in {
        "json compact": '{"a":[1,"é"]}',
        "json compact-ascii": '{"a":"\\u00e9"}',
        "json python": '{"a": [1, 2]}',
        "json python-utf8": '{"a": "é"}',
        "json indent2": '{\n  "a": 1\n}',
        "json in no style": '{ "a":1}',
    }.items():
        made[name] = stored_bytes({"text": encode_json_text(text)}).decode()
    return made


def all_vectors() -> dict[str, Any]:
    exports = recordings()
    return {
        "format": "onrecord/1",
        "hashes": hash_vectors(),
        "sharing": sharing_vectors(),
        "tags": tag_vectors(),
        "heads": {name: export.splitlines()[-1].decode() for name, export in exports.items()},
        "recordings": {name: export.decode().splitlines() for name, export in exports.items() if name != "golden-1"},
    }
