"""Files and facts that somebody made up."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kit.cli import asking, assert_two_lines, exported, onrecord, onrecord_json, record
from onrecord.core.codec import ARTIFACT_BYTES
from onrecord.core.events import Completed

ODD_TEXT = "".join(map(chr, range(0x20))) + '"\\/\x7f\u2028é😀 \\u0073 \\\\u0024 secret'


def altered(path: Path, before: bytes, after: bytes) -> None:
    whole = path.read_bytes()
    assert before in whole
    path.write_bytes(whole.replace(before, after, 1))


def refused(path: Path, message: str) -> None:
    for command in ("verify", "import"):
        result = onrecord(command, f"./{path}", "--store", "other.db")
        assert result.exit_code == 4
        assert message in result.stderr
        assert_two_lines(result.stderr, "bad_recording")
        assert "recover" not in result.stderr
    assert not Path("other.db").exists()


def test_text_that_needs_escapes_is_exported_and_imported() -> None:
    record("one", asking(ODD_TEXT, ODD_TEXT * 100), facts={"agent": ODD_TEXT, ODD_TEXT: ODD_TEXT})
    path = exported("one")
    with path.open("a") as file:
        file.write('{"note":"a\\/b \\u0073"}\n')  # a note is not stored text
    assert onrecord("verify", f"./{path}", "--deep").exit_code == 0
    assert onrecord("import", str(path), "--store", "other.db").exit_code == 0


@pytest.mark.parametrize(
    "spelling",
    [rb"\u0073ecret", rb"\u0053", rb"\u0024artifact", rb"\/", rb"\u000a", rb"\u001F", rb"\\\u0073", rb"\ud83d\ude00"],
)
@pytest.mark.parametrize("where", [b"2+2?", b"tester"])
def test_stored_text_spells_characters_as_themselves(spelling: bytes, where: bytes) -> None:
    record("one")
    path = exported("one")
    altered(path, where, spelling)
    refused(path, "stored text escapes characters that need no escape")


@pytest.mark.parametrize("size", [b"0", b"70001", b"70000.0", b"true", b"null", b'"70000"'])
@pytest.mark.parametrize("in_facts", [False, True])
def test_an_artifact_has_the_size_that_is_named(size: bytes, in_facts: bool) -> None:
    data = b"x" * 70_000
    assert len(data) > ARTIFACT_BYTES
    if in_facts:
        record("one", facts={"image": data})
    else:
        record("one", asking("?", {"image": data}))
    path = exported("one")
    assert onrecord("verify", f"./{path}", "--deep").exit_code == 0
    altered(path, b'"size":70000', b'"size":' + size)
    refused(path, "does not have the size that is given here")


def nested(levels: int) -> Any:
    tree: Any = 1
    for _ in range(levels):
        tree = [tree]
    return tree


FACTS: dict[str, dict[Any, Any]] = {
    "nothing": {},
    "an agent that is no text": {"agent": {"agent": 1}},
    "an agent of nothing": {"agent": None},
    "an empty agent": {"agent": ""},
    "names of the header": {"run": 1, "status": [], "created": {}, "events": "many", "facts": None, "head": 2.5},
    "names that are no text": {1: 2, (3, 4): 5, None: 6},
    "one name that looks like a tag": {"$int": "x"},
    "a name that is empty": {"": ""},
    "deep": {"agent": nested(900)},
    "objects": {"agent": SimpleNamespace(a=1), "failure": ValueError("x"), "set": {1, (2,)}},
    "a long integer": {"agent": 7**6000},
    "bytes": {"agent": b"x" * 70_000},
    "odd text": {"agent": ODD_TEXT, ODD_TEXT: "\ud800"},
    "no match rules": {"volatile_": [1]},
    "not a number": {"agent": float("nan")},
}


@pytest.mark.parametrize("facts", FACTS.values(), ids=FACTS.keys())
def test_looking_at_facts_of_any_shape(facts: dict[Any, Any]) -> None:
    record("one", [*asking("?", "!"), Completed(output=facts)], facts=facts)
    for command in (["ls"], ["show", "one"], ["show", "one", "--event", "3"], ["show", "one", "--state", "3"]):
        assert onrecord(*command).exit_code == 0, command
        onrecord_json(*command)
    assert onrecord("doctor").exit_code in (0, 1)


def test_looking_at_facts_builds_no_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    record("one", facts={"agent": "tester", "thing": SimpleNamespace(a=1)})

    def fail(*_: object, **__: object) -> None:
        raise AssertionError("decoded")

    monkeypatch.setattr("onrecord.journal.reader.decode", fail)
    assert onrecord_json("ls")["runs"][0]["agent"] == "tester"
    assert onrecord_json("show", "one")["facts"]["thing"]["$object"]["type"] == "types:SimpleNamespace"
