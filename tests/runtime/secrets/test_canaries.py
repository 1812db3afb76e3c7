"""Canary secrets in forty places and six encodings: in no file of the store, and the agent has them all the same."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

import onrecord
from kit.soak import cases
from onrecord.core.packing import unpack
from onrecord.journal.export import export_run
from onrecord.journal.reader import JournalReader
from onrecord.journal.verify import verify_run
from onrecord.store.contract import Store
from onrecord.store.factory import open_store

CANARY = "cAnary+/secret=4242-value"


@dataclass
class Record:
    name: str
    note: str


ENCODINGS: dict[str, Callable[[str], str]] = {
    "plain": str,
    "base64": lambda text: base64.b64encode(text.encode()).decode(),
    "urlsafe": lambda text: base64.urlsafe_b64encode(b"\xfb\xff:" + text.encode()).decode().rstrip("="),
    "quoted": lambda text: quote(text, safe=""),
    "hex": lambda text: text.encode().hex(),
    "escaped": lambda text: "".join(f"\\u{ord(one):04x}" for one in text),
}
VALUES: dict[str, Callable[[str], Any]] = {
    "header": lambda c: {"headers": {"Authorization": f"Bearer {c}"}},
    "header pair": lambda c: {"headers": [["x-api-key", c]]},
    "header bytes": lambda c: {"headers": [(b"authorization", c.encode())]},
    "header named": lambda c: {"headers": [{"name": "Cookie", "value": c}]},
    "other header": lambda c: {"headers": {"X-Custom": c}},
    "query": lambda c: f"https://example.com/?q=1&key={c}",
    "other query": lambda c: f"https://example.com/?q={c}&x=1",
    "path": lambda c: f"https://example.com/{c}/things",
    "userinfo": lambda c: f"https://bob:{c}@example.com/",
    "json": lambda c: json.dumps({"message": c}),
    "json credential": lambda c: json.dumps({"password": c}),
    "json in json": lambda c: json.dumps({"a": json.dumps({"b": c})}),
    "json in json in json": lambda c: json.dumps({"a": json.dumps({"b": json.dumps([c])})}),
    "form": lambda c: f"grant_type=x&client_secret={c}",
    "bytes": lambda c: c.encode(),
    "bytes within": lambda c: b"\xff\xfe" + c.encode() + b"\xff",
    "many bytes": lambda c: b"\x00" * 70_000 + c.encode() + b"\xff",
    "list": lambda c: [[["x", c]]],
    "tuple": lambda c: ("x", (c,)),
    "set": lambda c: {"x", c},
    "name of a member": lambda c: {c: "x"},
    "deep": lambda c: {"a": {"b": {"c": {"d": [{"e": c}]}}}},
    "object": lambda c: Record("x", c),
    "long text": lambda c: "lorem ipsum " * 5_000 + c + " dolor" * 5_000,
    "lines": lambda c: f"one\n{c}\nthree",
    "markdown": lambda c: f"```sh\nexport THE_TOKEN={c}\n```",
    "shown object": lambda c: f"Client(api_key='{c}', name='x')",
    "markup": lambda c: f'<user token="{c}"/>',
    "log line": lambda c: f"2026-11-16 06:28:11 INFO sent {c} to somebody",
    "command": lambda c: f"curl -H 'Authorization: Bearer {c}' https://example.com",
}
EVENTS = (
    *("error", "attribute of an error", "cause of an error", "note of an error", "attempt that failed"),
    *("part of a stream", "state", "result", "input", "input of a called agent"),
)
assert len(VALUES) + len(EVENTS) == 40


class OddError(Exception):
    detail: Any = None


got: list[Any] = []


@onrecord.tool(idempotent=True)
def echo(place: str, value: Any) -> Any:
    got.append(value)
    return value


@onrecord.tool(idempotent=True)
def fail(place: str, text: str) -> Any:
    error = OddError(f"it was {text}" if place == "error" else "odd")
    if place == "attribute of an error":
        error.detail = {"sent": [text]}
    if place == "note of an error":
        error.add_note(f"sent {text}")
    if place == "cause of an error":
        raise error from ValueError(text)
    raise error


attempts: list[str] = []


@onrecord.tool(idempotent=True, retry=onrecord.Retry(attempts=2, delay_seconds=0.0))
def fail_once(text: str) -> str:
    attempts.append(text)
    if len(attempts) % 2:
        raise ConnectionError(f"sent {text}")
    return "done"


@onrecord.tool(idempotent=True)
async def stream(text: str) -> Any:
    whole = f"it is {text} and more"
    for at in range(0, len(whole), 7):
        yield whole[at : at + 7]


@onrecord.agent(name="canary child")
async def child(text: str) -> str:
    return f"child of {text}"


@onrecord.agent(name="canary agent", redact=True)
async def agent(text: str) -> Any:
    for place, make in VALUES.items():
        value = make(text)
        assert echo(place, value) == value
    for place in EVENTS[:4]:
        with pytest.raises(OddError) as caught:
            fail(place, text)
        assert caught.value.__class__ is OddError
    assert fail_once(text) == "done"
    assert "".join([part async for part in stream(text)]) == f"it is {text} and more"
    onrecord.set_state({"seen": [text]})
    assert await child(text) == f"child of {text}"
    return {"result": text}


@pytest.fixture
def canary(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("CANARY_API_KEY", CANARY)
    got.clear()
    attempts.clear()
    return CANARY


def needles(encoded: str) -> list[bytes]:
    """What must not be anywhere: the secret in each of its forms, and as it was put there."""
    data = CANARY.encode()
    forms = [CANARY, encoded, data.hex(), quote(CANARY, safe=""), base64.b64encode(data).decode().rstrip("=")]
    return [form.encode() for form in dict.fromkeys(forms)]


def contents(store: Store) -> Iterator[bytes]:
    """Everything that the store holds, unpacked."""
    for namespace in store.namespaces():
        for row in store.list_runs(namespace):
            run = row.header.run
            yield unpack(row.header.content or b"")
            for event in store.scan(namespace, run):
                yield event.link + (unpack(event.content) if event.content is not None else b"")
            for message in store.inbox(namespace, run):
                yield message.key.encode() + message.payload
            for snapshot in store.snapshots(namespace, run):
                yield unpack(snapshot.blob)
        for node in store.all_nodes(namespace):
            yield unpack(node.blob)
        for address in store.all_artifacts(namespace):
            yield store.artifact(namespace, address) or b""


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_no_canary_is_in_any_file_and_the_recording_replays(encoding: str, canary: str, tmp_path: Path) -> None:
    encoded = ENCODINGS[encoding](canary)
    folder = tmp_path / "store"
    folder.mkdir()
    store = open_store(str(folder / "store.db"))
    try:
        result = asyncio.run(agent.run(encoded, run_id="r1", store=store))
        assert result == {"result": encoded}
        assert got == [make(encoded) for make in VALUES.values()]
        files = [path for path in folder.rglob("*") if path.is_file()]
        assert any(path.name.endswith("-wal") for path in files)
        found = [(path.name, needle) for path in files for needle in needles(encoded) if needle in path.read_bytes()]
        assert found == []
        assert [needle for content in contents(store) for needle in needles(encoded) if needle in content] == []
        assert verify_run(store, "r1").valid
        exported = tmp_path / "r1.jsonl"
        export_run(JournalReader(store, "r1"), exported)
        assert [needle for needle in needles(encoded) if needle in exported.read_bytes()] == []
        assert b"seal" not in exported.read_bytes()
        got.clear()
        assert asyncio.run(agent.replay("r1", store=store)) == {"result": encoded}
        assert got == []
    finally:
        store.close()


@pytest.mark.parametrize("encoding", cases(["plain"], ["base64"]))
def test_no_canary_is_in_any_row(encoding: str, canary: str, store: Store) -> None:
    encoded = ENCODINGS[encoding](canary)
    asyncio.run(agent.run(encoded, run_id="r1", store=store))
    assert [needle for content in contents(store) for needle in needles(encoded) if needle in content] == []
