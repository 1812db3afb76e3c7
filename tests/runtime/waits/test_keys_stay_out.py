"""A wait key is nowhere in the record, by whatever way the agent or its tools bring it there."""

from __future__ import annotations

import json
from base64 import b64decode
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import onrecord
from kit.kept_bytes import kept_in
from onrecord.core.codec import encode
from onrecord.store.factory import open_store


class Upstream(Exception):
    def __init__(self, url: Any, text: str = "503") -> None:
        super().__init__(text)
        self.url = url


@dataclass
class Link:
    url: Any


class Text(str):
    pass


def _attribute(key: str) -> None:
    raise Upstream(f"https://mail.example/send?link={key}")


def _deep_attribute(key: str) -> None:
    raise Upstream({"deep": [Link((key, {key: 1}))]})


def _bytes(key: str) -> None:
    raise Upstream(Link(b"link=" + key.encode()))


def _many_bytes(key: str) -> None:
    raise Upstream(Link(b"x" * 200_000 + key.encode()))


def _odd_text(key: str) -> None:
    raise Upstream("\ud800" + key)


def _argument(key: str) -> None:
    raise ValueError("cannot send", [key])


def _cause(key: str) -> None:
    try:
        raise KeyError(key)
    except KeyError as error:
        raise ValueError("x") from error


def _context(key: str) -> None:
    try:
        raise KeyError(key)
    except KeyError:
        raise ValueError("x")  # noqa: B904


def _note(key: str) -> None:
    error = ValueError("x")
    error.add_note(f"note {key}")
    raise error


def _group(key: str) -> None:
    raise ExceptionGroup(f"group {key}", [ValueError(key), ExceptionGroup("inner", [Upstream(key)])])


FAILURES = [_attribute, _deep_attribute, _bytes, _many_bytes, _odd_text, _argument, _cause, _context, _note, _group]


@onrecord.tool(idempotent=True)
def send(what: Any) -> int:
    return 1


@onrecord.agent
def child(what: Any) -> str:
    onrecord.set_state({"key": what})
    return "done"


def _name(key: str) -> None:
    assert onrecord.run_step(f"step {key}", lambda: 1) == 1
    assert onrecord.run_step(f"step {key}", lambda: 2) == 2


def _wait(key: str) -> None:
    for _ in range(2):
        with pytest.raises(TimeoutError):
            onrecord.wait_for(f"after {key}", timeout=0.01)


def _first(key: str) -> None:
    with pytest.raises(TimeoutError):
        onrecord.wait_for_first(f"after {key}", "other", timeout=0.01)


def _another_key(key: str) -> None:
    onrecord.wait_key(f"after {key}")


def _own_key(key: str) -> None:
    assert send.keyed(f"mine {key}", 1) == send.keyed(f"mine {key}", 1) == 1


OTHERS: list[Any] = [
    *(_name, _wait, _first, _another_key, _own_key),
    lambda key: send(Link(key.encode())),
    lambda key: send(Text(key)),
    lambda key: send(ValueError("x", Link(key))),
    lambda key: child(Upstream(key)),
    lambda key: onrecord.set_state({"key": Link(key)}, step_id=key),
]


def is_in(key: str, tree: Any) -> bool:
    """Whether it is anywhere in what was recorded, in bytes too."""
    if isinstance(tree, dict):
        odd = next(iter(tree.values())) if len(tree) == 1 and {*tree} <= {"$bytes", "$text"} else None
        if isinstance(odd, str) and key.encode() in b64decode(odd):
            return True
        return any(key in name or is_in(key, item) for name, item in tree.items())
    if isinstance(tree, list):
        return any(is_in(key, item) for item in tree)
    return key in json.dumps(tree)


def check_all(store: Any, folder: Path, key: str) -> None:
    for run in store.list_runs("default"):
        reader = onrecord.JournalReader(store, run.header.run)
        for row in store.scan("default", run.header.run, 1):
            assert key not in str(reader.link(row)), (run.header.run, row.seq)
        for one in reader.scan():
            encoded = encode(one.event.content())
            assert not is_in(key, encoded.tree), (run.header.run, one.seq, one.event)
            assert not any(key.encode() in content for content in encoded.artifacts.values())
    assert [where for where, data in kept_in(folder) if key.encode() in data] == []


@pytest.fixture(autouse=True)
def own_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONRECORD_KEY_FILE", str(tmp_path / "keys.json"))


@pytest.mark.parametrize("is_retried", [False, True])
@pytest.mark.parametrize("fail", FAILURES)
def test_a_key_in_an_error(tmp_path: Path, fail: Any, is_retried: bool) -> None:
    store: Any = open_store(str(tmp_path / "store" / "s.db"))
    retry = onrecord.Retry(attempts=2, delay_seconds=0) if is_retried else None
    tool: Any = onrecord.tool(fail, name="failing", idempotent=True, retry=retry)
    keys: list[str] = []
    errors: list[BaseException] = []

    @onrecord.agent
    def sending() -> str:
        key = onrecord.wait_key("ok")
        keys.append(key)
        try:
            tool(key)
        except Exception as error:
            errors.append(error)
            return type(error).__name__
        return ""

    found = sending.run(run_id="r", store=store)
    check_all(store, tmp_path / "store", keys[0])
    assert is_in(keys[0], encode(errors[0]).tree) or fail is _many_bytes  # the agent's own is as it was
    assert sending.replay("r", store=store) == found
    assert type(errors[1]) is type(errors[0])
    assert is_in("<wait key r/ok>", encode(errors[1]).tree) or fail is _many_bytes
    store.close()


def test_a_key_in_the_error_that_ends_the_run(tmp_path: Path) -> None:
    store: Any = open_store(str(tmp_path / "store" / "s.db"))
    keys: list[str] = []

    @onrecord.agent
    def failing() -> None:
        keys.append(onrecord.wait_key("ok"))
        _attribute(keys[-1])

    with pytest.raises(Upstream):
        failing.run(run_id="r", store=store)
    check_all(store, tmp_path / "store", keys[0])
    with pytest.raises(Upstream):
        failing.replay("r", store=store)
    store.close()


@pytest.mark.parametrize("use", OTHERS)
def test_a_key_elsewhere(tmp_path: Path, use: Any) -> None:
    store: Any = open_store(str(tmp_path / "store" / "s.db"))
    keys: list[str] = []
    stops = [True]

    @onrecord.step
    def stopping() -> int:
        if stops and stops.pop():
            raise SystemExit
        return 2

    @onrecord.agent
    def using() -> int:
        key = onrecord.wait_key("ok")
        keys.append(key)
        use(key)
        return int(stopping())

    with pytest.raises(SystemExit):
        using.run(run_id="r", store=store)
    check_all(store, tmp_path / "store", keys[0])
    assert using.resume("r", store=store) == 2
    check_all(store, tmp_path / "store", keys[0])
    assert keys[1] == keys[0]
    assert using.replay("r", store=store) == 2
    store.close()
