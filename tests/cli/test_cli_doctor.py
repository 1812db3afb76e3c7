"""`onrecord doctor`"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kit.cli import STORE, onrecord, onrecord_json, record


def test_without_a_store_nothing_is_wrong_and_nothing_is_made(workspace: Path) -> None:
    result = onrecord("doctor")
    assert result.exit_code == 0
    assert "no store yet" in result.stdout
    assert "no problems found" in result.stdout
    assert list(workspace.iterdir()) == []


def test_what_is_looked_at() -> None:
    record("one")
    record("two")
    seen = onrecord_json("doctor")
    assert seen["problems"] == []
    assert (seen["runs"], seen["mode"], seen["durability"], seen["namespaces"]) == (2, "0600", "full", 1)
    assert seen["store"].endswith(STORE)
    assert seen["free_disk_bytes"] > 0
    assert {"onrecord", "python", "sqlite", "sqlite_source", "psycopg", "file_system"} <= seen.keys()


def test_a_store_that_others_can_read() -> None:
    record("one")
    os.chmod(STORE, 0o644)
    result = onrecord("doctor")
    assert result.exit_code == 1
    assert "others can read the store (mode 0644)" in result.stdout
    assert onrecord_json("doctor", status=1)["problems"]
    warned = onrecord("ls")
    assert warned.exit_code == 0
    assert warned.stderr.startswith("warning: ")
    assert len(warned.stderr.splitlines()) == 1


@pytest.mark.parametrize("data", [b"", b"not a database" * 100])
def test_a_store_that_cannot_be_used(data: bytes) -> None:
    Path("broken.db").write_bytes(data)
    os.chmod("broken.db", 0o600)
    result = onrecord("doctor", "--store", "broken.db")
    assert result.exit_code == 1
    assert "the store cannot be used" in result.stdout


def test_an_unreachable_database_and_no_password_in_sight() -> None:
    result = onrecord("doctor", "--store", "postgresql://me:hunter2@127.0.0.1:1/db?connect_timeout=1")
    assert result.exit_code == 1
    assert "me:***@127.0.0.1" in result.stdout
    assert "hunter2" not in result.output


@pytest.mark.parametrize("kind", ["nfs4", "tmpfs"])
def test_a_file_system_that_does_not_fit(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("onrecord.store.sqlite.file_checks.file_system", lambda path: kind)
    assert any(kind in problem for problem in onrecord_json("doctor", status=1)["problems"])


def test_a_full_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("onrecord.store.sqlite.file_checks.free_bytes", lambda path: 5 * 1024 * 1024)
    assert any("5.0 MiB" in problem for problem in onrecord_json("doctor", status=1)["problems"])


def test_counting_ends_somewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    record("one")
    record("two")
    monkeypatch.setattr("onrecord.cli.commands.doctor.RUNS_COUNTED", 2)
    assert onrecord_json("doctor")["runs"] == "2 or more"
