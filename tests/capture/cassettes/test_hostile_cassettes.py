"""Cassettes that somebody made to do harm, or that are damaged: each is refused with a code, and nothing is built."""

from __future__ import annotations

import gzip
import json
import os
import sys
from pathlib import Path

import pytest
import yaml

from onrecord.capture.cassettes import file as reading
from onrecord.capture.cassettes.file import parse_cassette, read_cassette
from onrecord.capture.cassettes.interactions import read_interactions
from onrecord.errors import BadRecording, InvalidInput, NotFound, OnrecordError

BOMB = "\n".join(
    ["a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol]"]
    + [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    + ["interactions: *a11"]
)
MERGES = "\n".join(
    ["m0: &m0 {" + ", ".join(f"k{n}: v" for n in range(50)) + "}"]
    + [f"m{n}: &m{n} {{<<: [{', '.join([f'*m{n - 1}'] * 20)}]}}" for n in range(1, 8)]
    + ["interactions: []"]
)
HOSTILE = {
    "aliases that explode": (BOMB, "cassette_too_many_values"),
    "merges that explode": (MERGES, "cassette_too_many_values"),
    "an alias inside of what it names": ("interactions: &a [*a]", "cassette_cyclic"),
    "a mapping inside of itself": ("interactions: &a {request: {x: *a}}", "cassette_cyclic"),
    "an object": ("interactions: !!python/object/apply:os.system ['touch pwned']", "cassette_tag"),
    "a class": ("interactions: !!python/name:os.system ''", "cassette_tag"),
    "a module": ("interactions: [!!python/module:os '']", "cassette_tag"),
    "a new object": ("interactions: !!python/object/new:os.system ['touch pwned']", "cassette_tag"),
    "a tag of its own": ("interactions: !secret abc", "cassette_tag"),
    "a set": ("interactions: !!set {a, b}", "cassette_tag"),
    "a time": ("interactions: !!timestamp 2001-01-01", "cassette_tag"),
    "nesting without an end": ("interactions: " + "[" * 5000, "cassette_too_deep"),
    "a number without an end": ("interactions: " + "9" * 100_000, "cassette_syntax"),
    "no YAML": ("interactions: [unclosed", "cassette_syntax"),
    "an alias of nothing": ("interactions: *nothing", "cassette_syntax"),
    "two documents": ("interactions: []\n---\ninteractions: []", "cassette_syntax"),
    "a list as a key": ("? [a, b]\n: c\n", "cassette_syntax"),
    "bytes that are no base64": ("interactions: !!binary 'a'", "cassette_syntax"),
    "a control character": ("interactions: [\x00]", "cassette_syntax"),
}


@pytest.mark.parametrize(("text", "code"), HOSTILE.values(), ids=HOSTILE.keys())
def test_a_hostile_cassette_is_refused(text: str, code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BadRecording) as refusal:
        parse_cassette(text.encode(), "evil.yaml")
    assert refusal.value.code == code
    assert refusal.value.hint
    assert "\n" not in refusal.value.message
    assert len(refusal.value.message) < 300
    assert not (tmp_path / "pwned").exists()


def test_nothing_is_built_of_a_bomb(monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[object] = []
    load = yaml.load
    monkeypatch.setattr(yaml, "load", lambda *args, **kwargs: (built.append(args), load(*args, **kwargs))[1])
    with pytest.raises(BadRecording):
        parse_cassette(BOMB.encode(), "bomb.yaml")
    assert built == []
    assert parse_cassette(b"interactions: []", "plain.yaml") == {"interactions": []}
    assert len(built) == 1


def test_ordinary_aliases_are_read() -> None:
    """PyYAML writes them wherever the same list stood twice."""
    shared = ["gzip"]
    text = yaml.safe_dump({"a": shared, "b": shared})
    assert "*id" in text
    assert parse_cassette(text.encode(), "aliases.yaml") == {"a": ["gzip"], "b": ["gzip"]}


def test_a_reader_in_python_refuses_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(yaml, "CSafeLoader", raising=False)
    for text, code in HOSTILE.values():
        with pytest.raises(BadRecording) as refusal:
            parse_cassette(text.encode(), "evil.yaml")
        assert refusal.value.code == code


def test_without_a_reader_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(InvalidInput) as refusal:
        parse_cassette(b"interactions: []", "a.yaml")
    assert refusal.value.code == "missing_extra"
    assert "[vcr]" in refusal.value.hint
    assert parse_cassette(b'{"interactions": []}', "a.json") == {"interactions": []}


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ('{"interactions": [], "interactions": []}', "cassette_syntax"),
        ('{"interactions": NaN}', "cassette_syntax"),
        ('{"interactions": ' + "[" * 5000, "cassette_syntax"),
        ('{"interactions": []} and more', "cassette_syntax"),
    ],
)
def test_json_is_read_strictly(text: str, code: str) -> None:
    with pytest.raises(BadRecording) as refusal:
        parse_cassette(text.encode(), "evil.json")
    assert refusal.value.code == code


@pytest.mark.parametrize("data", [b"interactions: [\xff\xfe]", "interactions: []".encode("utf-16"), b"\x80"])
def test_other_encodings_are_refused(data: bytes) -> None:
    with pytest.raises(BadRecording) as refusal:
        parse_cassette(data, "evil.yaml")
    assert refusal.value.code == "cassette_encoding"


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "large.yaml"
    with open(path, "wb") as file:
        file.truncate(reading.MOST_BYTES + 1)  # sparse: it takes no room
    with pytest.raises(BadRecording) as refusal:
        read_cassette(path)
    assert refusal.value.code == "cassette_too_large"


def test_compressed_data_is_not_unpacked_beyond_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "MOST_BYTES", 100_000)
    with pytest.raises(BadRecording) as refusal:
        parse_cassette(gzip.compress(b" " * 100_001), "bomb.yaml.gz")
    assert refusal.value.code == "cassette_too_large"
    whole = gzip.compress(b"interactions: []")
    assert parse_cassette(whole, "a.yaml.gz") == {"interactions": []}
    for damaged in (whole[:-3], whole + b"x", whole[:12] + b"\xff\xff" + whole[14:]):
        with pytest.raises(BadRecording):
            parse_cassette(damaged, "a.yaml.gz")


def test_what_is_no_file_is_not_waited_for(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.yaml"
    os.mkfifo(pipe)
    with pytest.raises(InvalidInput) as refusal:
        read_cassette(pipe)
    assert refusal.value.code == "not_a_file"
    with pytest.raises(OnrecordError):
        read_cassette(tmp_path)
    with pytest.raises(NotFound):
        read_cassette(tmp_path / "none.yaml")


@pytest.mark.parametrize(
    "cassette",
    [
        None,
        7,
        "text",
        [],
        {},
        {"interactions": 7},
        {"interactions": [7]},
        {"interactions": [{}]},
        {"interactions": [{"request": 1, "response": 2}]},
        {"interactions": [{"request": {"method": "GET", "uri": ["x"]}, "response": {"status": {"code": 200}}}]},
        {"interactions": [{"request": {"method": "GET", "uri": "http://a"}, "response": {"status": {"code": "x"}}}]},
        {"interactions": [{"request": {"method": "GET", "uri": "http://a"}, "response": {"status": {"code": 7}}}]},
        {"interactions": [{"request": {"method": "GET", "uri": "http://a"}, "response": {"status": True}}]},
        {"requests": [{}], "responses": []},
    ],
    ids=repr,
)
def test_what_is_no_cassette_is_refused(cassette: object) -> None:
    if cassette == []:
        assert read_interactions(cassette, "empty.yaml") == []
        return
    with pytest.raises(BadRecording) as refusal:
        read_interactions(cassette, "odd.yaml")
    assert refusal.value.code == "bad_cassette"


def test_a_body_is_not_unpacked_beyond_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("onrecord.capture.cassettes.interactions.MOST_BODY_BYTES", 1000)
    one = {
        "request": {"method": "GET", "uri": "http://a/"},
        "response": {
            "status": {"code": 200},
            "headers": {"content-encoding": ["gzip"]},
            "body": {"string": gzip.compress(b" " * 1001)},
        },
    }
    with pytest.raises(BadRecording) as refusal:
        read_interactions({"interactions": [one]}, "bomb.yaml")
    assert refusal.value.code == "cassette_too_large"


def test_heads_cannot_be_split() -> None:
    """A header is one line, whatever the cassette says."""
    one = {
        "request": {"method": "get", "uri": "http://a/"},
        "response": {
            "status": {"code": 200, "message": "OK\r\nX: y"},
            "headers": {"A\nB": "c\r\nd: e", "n": 7, "snow": "☃"},
        },
    }
    (found,) = read_interactions(json.loads(json.dumps({"interactions": [one]})), "odd.json")
    assert found.request.method == "GET"
    assert found.head.reason == "OK  X: y"
    assert found.head.headers == (("A B", "c  d: e"), ("n", "7"), ("snow", "?"))
