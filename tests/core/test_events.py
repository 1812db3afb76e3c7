"""Events: their contents, `meta`, and the members that readers rely on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kit.journals import begin, crafted, written
from onrecord.core.events import (
    KINDS,
    ActionFailed,
    ActionRequested,
    ActionSucceeded,
    EffectSettled,
    Event,
    FilesObserved,
    InputSent,
    KeyRotated,
    Resumed,
    RunReleased,
    WaitCreated,
    WaitResolved,
    read_event,
)
from onrecord.core.hashing import artifact_address, render
from onrecord.core.matching import MatchRules
from onrecord.core.program_records import (
    is_command_chunk,
    is_command_outcome,
    is_command_request,
    is_command_start,
    is_input_outcome,
    is_input_request,
    is_version,
)
from onrecord.errors import Damaged, InvalidInput
from onrecord.journal.import_file import verify_file
from onrecord.journal.operations import OperationsJournal
from onrecord.journal.reader import JournalReader
from onrecord.journal.verify import verify_run
from onrecord.store.memory import MemoryStore

HASH = render(artifact_address(b""))
SITE = {"file": "a.py", "line": 3, "function": "main"}
FILE = {"kind": "file", "mode": 0o100644, "size": 0, "digest": HASH}
SUM = {"size": 0, "digest": HASH}
COMMAND = {"argv": ["ls"], "cwd": "/", "streams": {"out": "pipe"}}
OUTCOME = {"status": 0, "output": {"out": SUM}}


def match(event: Event) -> bytes:
    return MatchRules().match_of(event.kind, event.content())


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_every_kind_has_meta_that_is_left_out_when_empty(kind: str) -> None:
    members: dict[str, Any] = dict.fromkeys(KINDS[kind].__struct_fields__, 0)
    bare = KINDS[kind](**{**members, "meta": None}).content()
    assert "meta" not in bare
    assert KINDS[kind](**{**members, "meta": {}}).content() == bare
    assert KINDS[kind](**{**members, "meta": {"own": 1}}).content() == {**bare, "meta": {"own": 1}}


def test_meta_takes_no_part_in_matching_and_unknown_members_are_kept() -> None:
    plain = ActionFailed("a", ValueError("no"))
    noted = ActionFailed("a", ValueError("no"), meta={"traceback": "…", "later": {"x": [1]}})
    assert match(plain) == match(noted)
    store = MemoryStore()
    journal = begin(store)
    journal.append([ActionRequested("a", 1, meta={"births": 0, "site": SITE}), noted])
    read = [event.event.meta for event in JournalReader(store, "r1").scan()]
    assert read == [{"births": 0, "site": SITE}, noted.meta]
    assert verify_run(store, "r1", deep=True).valid


def test_question_schema_and_context_are_behaviour_and_who_decided_is_not() -> None:
    bare = match(WaitCreated("w", "n"))
    for members in ({"question": "Go?"}, {"schema": {"type": "string"}}, {"context": {"order": 1}}):
        assert match(WaitCreated("w", "n", **members)) != bare
    assert match(WaitResolved("w", 1)) == match(WaitResolved("w", 1, by="ada", why="so"))
    assert match(Resumed(1)) == match(Resumed(1, by="ada", why="so"))
    assert match(EffectSettled("a", "done")) == match(EffectSettled("a", "done", by="ada", why="so"))


BAD_META = [
    *({"births": -1}, {"births": True}, {"births": 1.0}, {"births": None}),
    *({"traceback": ["x"]}, {"traceback": 1}),
    *({"site": "a.py:3"}, {"site": {"file": "a.py", "line": 3}}, {"site": {**SITE, "line": "3"}}, {1: 2}),
]
BAD_EVENTS: list[Event] = [
    *(ActionSucceeded("a", 1, meta=meta) for meta in BAD_META),
    ActionSucceeded("a", 1, meta=[1]),  # type: ignore[arg-type]
    WaitCreated("w", "n", schema=[1]),  # type: ignore[arg-type]
    Resumed(1, by=3),  # type: ignore[arg-type]
    RunReleased(-1),
    RunReleased(1, [5, 4]),
    RunReleased(1, [1.5]),  # type: ignore[list-item]
    InputSent("a"),
    InputSent("a", size=1, digest=HASH, signal=15),
    InputSent("a", size=1, digest="sha256:0"),
    FilesObserved({}),  # type: ignore[arg-type]
    FilesObserved([{"path": "f", "look": "glance", "version": FILE, "cause": "first"}]),
    FilesObserved([{"path": "f", "look": "open", "version": {"kind": "file"}, "cause": "first"}]),
    KeyRotated("waits", 3),  # type: ignore[arg-type]
    ActionRequested("a", {"argv": "ls"}, effect="command"),
    ActionRequested("a", {"how": "somehow"}, effect="input"),
]


@pytest.mark.parametrize("event", BAD_EVENTS, ids=repr)
def test_a_malformed_member_is_neither_written_nor_read(event: Event) -> None:
    store = MemoryStore()
    journal = OperationsJournal.open_for(store) if event.operations_only else begin(store)
    with pytest.raises(InvalidInput) as refused:
        journal.append(event)
    assert refused.value.code == "bad_member"
    assert journal.head().seq == 0
    with pytest.raises(Damaged) as damaged:
        read_event(event.kind, event.content())
    assert damaged.value.code == "bad_content"


@pytest.mark.parametrize("stored", [b'{"epoch":1,"due":"later"}', b'{"epoch":1,"meta":{}}', b'{"epoch":1,"meta":null}'])
def test_a_deep_check_finds_a_malformed_member(tmp_path: Path, stored: bytes) -> None:
    path = written(tmp_path / "crafted.jsonl", crafted([("RunReleased", stored)]))
    assert not verify_file(path, deep=True).valid
    path = written(tmp_path / "right.jsonl", crafted([("RunReleased", b'{"epoch":1,"due":[5],"meta":{"own":1}}')]))
    assert verify_file(path, deep=True).valid


VERSIONS = [
    *(
        {"kind": "absent"},
        FILE,
        {"kind": "folder", "mode": 1, "names": ["a", b"\xff"]},
        {"kind": "link", "target": "x"},
    ),
    *({"kind": "other", "mode": 1}, {"kind": "big", "mode": 1, "size": 9}, {**FILE, "later": 1}),
    {"kind": "file", "mode": 1, "size": 0, "commitment": HASH, "mtime": -5},
    {"kind": "file", "mode": 1, "size": 0, "secret": True},
]
NO_VERSIONS = [
    *(None, {}, {"kind": "socket"}, {"kind": ["file"]}, {**FILE, "commitment": HASH}, {**FILE, "size": -1}),
    *(
        {"kind": "file", "mode": 1, "size": 0},
        {**FILE, "content": [1]},
        {**FILE, "content": ["a"]},
        {"kind": "folder", "mode": 1, "names": "ab"},
    ),
]


def test_versions_of_a_path() -> None:
    assert all(map(is_version, VERSIONS))
    assert not any(map(is_version, NO_VERSIONS))


ACCEPTED = [
    *((is_command_request, COMMAND), (is_command_request, {**COMMAND, "session": True, "input": b"x"})),
    (is_command_request, {"shell": "ls | wc", "cwd": b"/\xff", "streams": {}, "environment": ["LANG"]}),
    *((is_command_start, {"pid": 1, "started": 2}), (is_command_chunk, {"stream": "tty", "data": b""})),
    (is_command_chunk, {"stream": "tty", "data": "y", "direction": "to", "taken": SUM}),
    *((is_command_outcome, OUTCOME), (is_command_outcome, {**OUTCOME, "status": -9, "cut": True, "signals": [9]})),
    (is_command_outcome, {**OUTCOME, "input": SUM, "changed": [{"path": "f", "version": FILE, "cause": "command"}]}),
    *((is_input_request, {"how": "keys"}), (is_input_outcome, {"data": b"", "eof": True})),
]
REFUSED = [
    *((is_command_request, {**COMMAND, "shell": "ls"}), (is_command_request, {"cwd": "/", "streams": {}})),
    *((is_command_request, {**COMMAND, "streams": {"out": "radio"}}), (is_command_request, {**COMMAND, "cwd": 1})),
    *((is_command_start, {"pid": 1}), (is_command_chunk, {"stream": "out"})),
    (is_command_chunk, {"stream": "out", "data": "x", "direction": "up"}),
    *((is_command_outcome, {"output": {}}), (is_command_outcome, {**OUTCOME, "output": {"out": 3}})),
    (is_command_outcome, {**OUTCOME, "changed": [{"path": "f", "version": {**FILE, "mtime": 1}}]}),
    *((is_input_request, {}), (is_input_outcome, {"data": "x", "eof": False})),
]


def test_records_of_commands_and_input() -> None:
    assert [value for check, value in ACCEPTED if not check(value)] == []
    assert [value for check, value in REFUSED if check(value)] == []
