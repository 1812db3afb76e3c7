"""The file of secrets: made once, private, rotated, and never silently replaced."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest
from platformdirs import user_config_path

from kit.soak import SOAK
from kit.waits import Child, TurnedClock, operations
from onrecord.core.wait_keys import WaitKey
from onrecord.errors import InvalidInput, KeysUnavailable, Refused
from onrecord.runtime.secrets import keys
from onrecord.runtime.secrets.keys import KeyRing, default_path
from onrecord.store.memory import MemoryStore

PLAIN = WaitKey("default", "run-1", None, "named", "approval", 1, "")


def secrets_of(path: Path) -> list[str]:
    return [entry.get("secret") for entry in json.loads(path.read_text())["keys"]]


def signed(ring: KeyRing) -> WaitKey:
    return ring.sign(WaitKey("default", "run-1", None, "named", "approval", 1, ring.current_id()))


def test_made_on_first_use_and_private(key_file: Path) -> None:
    ring = KeyRing(key_file)
    assert not key_file.exists()
    key = signed(ring)
    assert stat.S_IMODE(key_file.stat().st_mode) == 0o600
    assert stat.S_IMODE(key_file.parent.stat().st_mode) == 0o700
    assert KeyRing(key_file).verifies(key)
    assert [path.name for path in key_file.parent.iterdir()] == ["keys.json"]


def test_the_umask_does_not_open_it(key_file: Path) -> None:
    before = os.umask(0)
    try:
        signed(KeyRing(key_file))
    finally:
        os.umask(before)
    assert stat.S_IMODE(key_file.stat().st_mode) == 0o600


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o666, 0o644, 0o601])
def test_a_wider_mode_is_refused(key_file: Path, mode: int) -> None:
    ring = KeyRing(key_file)
    key = signed(ring)
    key_file.chmod(mode)
    for other in (ring, KeyRing(key_file)):
        with pytest.raises(KeysUnavailable) as caught:
            other.verifies(key)
        assert caught.value.code == "keys_exposed"
    key_file.chmod(0o600)
    assert ring.verifies(key)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[]",
        "not json SECRET",
        '{"format": "onrecord.keys/2", "keys": []}',
        '{"format": "onrecord.keys/1", "keys": []}',
        '{"format": "onrecord.keys/1", "keys": ["SECRET"]}',
        '{"format": "onrecord.keys/1", "keys": [{"id": 7, "created": 1}]}',
        '{"format": "onrecord.keys/1", "keys": [{"id": "k", "purpose": "wait", "created": 1, "state": "SECRET"}]}',
        '{"format": "onrecord.keys/1", "keys": [{"id": "k", "purpose": "wait", "algorithm": "hmac-sha256",'
        ' "created": 1, "state": "current", "secret": "SECRET"}]}',
        '{"format": "onrecord.keys/1", "keys": [{"id": "k", "purpose": "wait", "algorithm": "none", "created": 1,'
        ' "state": "current", "secret": "' + "A" * 44 + '"}]}',
    ],
)
def test_a_damaged_file_is_refused_without_quoting_it(key_file: Path, text: str) -> None:
    key_file.parent.mkdir()
    key_file.touch(mode=0o600)
    key_file.write_text(text)
    with pytest.raises(KeysUnavailable) as caught:
        KeyRing(key_file).current_id()
    assert caught.value.code == "keys_unavailable"
    assert "SECRET" not in caught.value.message + caught.value.hint
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
    assert key_file.read_text() == text, "never repaired silently"


@pytest.mark.parametrize("kind", ["folder", "fifo"])
def test_what_is_not_a_file_is_refused(key_file: Path, kind: str) -> None:
    key_file.parent.mkdir()
    if kind == "folder":
        key_file.mkdir(mode=0o700)
    else:
        os.mkfifo(key_file, 0o600)
    with pytest.raises(KeysUnavailable):
        KeyRing(key_file).current_id()


def test_messages_and_representations_hold_no_secret(key_file: Path) -> None:
    ring = KeyRing(key_file)
    key = signed(ring)
    (secret,) = secrets_of(key_file)
    shown = f"{ring!r} {ring.entries()!r} {key!r}"
    with pytest.raises(KeysUnavailable) as caught:
        ring.sign(PLAIN)
    assert secret not in shown + str(caught.value) + caught.value.hint


def test_rotation(key_file: Path) -> None:
    ring, other = KeyRing(key_file), KeyRing(key_file)
    old = signed(ring)
    made = ring.rotate(overlap_seconds=0)
    new = signed(other)
    assert new.key_id == made.id != old.key_id
    assert other.verifies(old)
    assert other.verifies(new)
    assert [(entry.id, entry.state) for entry in ring.entries()] == [(old.key_id, "replaced"), (made.id, "current")]
    other.retire(old.key_id)
    assert not ring.verifies(old)
    assert ring.verifies(new)
    assert [entry.state for entry in ring.entries()] == ["retired", "current"]
    assert secrets_of(key_file)[0] is None, "the secret itself is gone"


def test_retiring_waits_for_the_overlap(key_file: Path) -> None:
    clock = TurnedClock()
    ring = KeyRing(key_file, sources=clock)
    old = signed(ring)
    with pytest.raises(Refused) as caught:
        ring.retire(old.key_id)
    assert caught.value.code == "key_in_use"
    ring.rotate(overlap_seconds=60)
    with pytest.raises(Refused) as caught:
        ring.retire(old.key_id)
    assert caught.value.code == "key_in_overlap"
    assert ring.verifies(old)
    clock.now += 60_000_000
    assert ring.retire(old.key_id).state == "retired"
    assert ring.retire(old.key_id).state == "retired"
    with pytest.raises(InvalidInput):
        ring.retire("unknown")


def test_retiring_with_force(key_file: Path) -> None:
    ring = KeyRing(key_file)
    old = signed(ring)
    ring.rotate()
    assert ring.retire(old.key_id, force=True).state == "retired"
    assert not ring.verifies(old)


@pytest.mark.parametrize("overlap", [-1, float("nan"), float("inf")])
def test_overlaps_that_cannot_be(key_file: Path, overlap: float) -> None:
    with pytest.raises(InvalidInput):
        KeyRing(key_file).rotate(overlap_seconds=overlap)


def test_changes_are_noted_in_the_operations_journal(key_file: Path, memory: MemoryStore) -> None:
    ring = KeyRing(key_file)
    old = ring.current_id()
    made = ring.rotate(overlap_seconds=0, store=memory, namespace="team")
    ring.retire(old, store=memory, namespace="team")
    assert operations(memory, "team") == [
        ("keys_rotated", {"key_id": made.id, "purpose": "wait"}),
        ("key_retired", {"key_id": old, "purpose": "wait"}),
    ]


def test_a_lost_file_is_made_anew_and_accepts_nothing_old(key_file: Path) -> None:
    ring = KeyRing(key_file)
    old = signed(ring)
    key_file.unlink()
    assert not ring.verifies(old)
    assert ring.current_id() != old.key_id
    with pytest.raises(KeysUnavailable) as caught:
        ring.sign(old)
    assert caught.value.code == "wait_secret_missing"


def test_a_file_that_was_put_back_counts_again(key_file: Path) -> None:
    ring = KeyRing(key_file)
    old, kept = signed(ring), key_file.read_bytes()
    key_file.unlink()
    assert not ring.verifies(old)
    key_file.write_bytes(kept)
    assert ring.verifies(old)


def test_entries_of_other_purposes_are_kept(key_file: Path) -> None:
    ring = KeyRing(key_file)
    ring.current_id()
    tree = json.loads(key_file.read_text())
    seal = {
        "id": "s1",
        "purpose": "seal",
        "algorithm": "aes-256-gcm",
        "secret": "AAAA",
        "created": 1,
        "state": "x",
        "new": 1,
    }
    key_file.write_text(json.dumps({**tree, "keys": [*tree["keys"], seal]}))
    ring.rotate()
    assert seal in json.loads(key_file.read_text())["keys"]
    with pytest.raises(InvalidInput):
        ring.retire("s1")


def test_where_the_file_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ONRECORD_KEY_FILE", str(tmp_path / "mine"))
    assert default_path() == tmp_path / "mine"
    monkeypatch.delenv("ONRECORD_KEY_FILE")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    assert default_path() == tmp_path / "xdg" / "onrecord" / "keys.json"


@pytest.mark.parametrize("configured", [None, "", "relative", "/absolute/"])
@pytest.mark.parametrize("home", [None, "", "relative", "/home/me"])
def test_the_file_is_where_the_system_keeps_such(
    configured: str | None, home: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ONRECORD_KEY_FILE", raising=False)
    for name, value in (("XDG_CONFIG_HOME", configured), ("HOME", home)):
        monkeypatch.delenv(name, raising=False) if value is None else monkeypatch.setenv(name, value)
    assert default_path() == user_config_path("onrecord", appauthor=False) / "keys.json"


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(KeysUnavailable) as caught:
        KeyRing(tmp_path / "file" / "keys.json").current_id()
    assert caught.value.code == "keys_unavailable"


BEGIN = """
import sys
from onrecord.core.wait_keys import WaitKey
from onrecord.runtime.secrets.keys import KeyRing
ring = KeyRing()
print("ready", flush=True)
sys.stdin.readline()
"""
SIGN = BEGIN + 'print(ring.sign(WaitKey("default", "run-1", None, "named", "approval", 1, ring.current_id())).text)'
ROTATE = BEGIN + "for _ in range(5): KeyRing().rotate()"


def run_at_once(code: str, count: int, key_file: Path) -> list[str]:
    """Return what processes print that execute the code at the same time."""
    children = [Child(code, key_file=key_file) for _ in range(count)]
    try:
        for child in children:
            child.wait_until_ready()
        for child in children:
            child.go_on()
        return [child.read() for child in children]
    finally:
        for child in children:
            child.close()


def test_processes_that_make_it_at_once_agree(key_file: Path) -> None:
    for _ in range(20 if SOAK else 3):
        key_file.unlink(missing_ok=True)
        answers = set(run_at_once(SIGN, 6, key_file))
        assert answers == {f"{signed(KeyRing(key_file)).text}\n"}
        assert [path.name for path in key_file.parent.iterdir()] == ["keys.json"]


def test_processes_that_rotate_at_once_lose_nothing(key_file: Path) -> None:
    first = signed(KeyRing(key_file))
    run_at_once(ROTATE, 4, key_file)
    ring = KeyRing(key_file)
    assert len(ring.entries()) == 21
    assert [entry.state for entry in ring.entries()].count("current") == 1
    assert ring.verifies(first)


def test_a_crash_before_the_rename_leaves_the_old_file(key_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ring = KeyRing(key_file)
    key, before = signed(ring), key_file.read_bytes()

    def die(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(keys.os, "replace", die)
    with pytest.raises(KeyboardInterrupt):
        ring.rotate()
    assert key_file.read_bytes() == before
    assert KeyRing(key_file).verifies(key)
