"""`onrecord scan`: a recording is clean, or it is told where it is not; never what was found."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from kit.cli import STORE, onrecord, onrecord_json
from onrecord.core.events import ActionRequested, ActionSucceeded, Completed, StateUpdated
from onrecord.journal.journal import Journal
from onrecord.store.factory import open_store

JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N"
CARD = "4111 1111 1111 1111"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".onrecord").mkdir()


def record(run: str, output: object, namespace: str = "default") -> None:
    store = open_store(STORE)
    journal = Journal.create(store, run, namespace, facts={"agent": "x"})
    journal.append([ActionRequested("a", {"q": 1}, "tool"), ActionSucceeded("a", output), Completed("done")])
    journal.release()
    store.close()


def test_a_clean_run() -> None:
    record("r1", {"max_tokens": 5, "password": "<secret:credential:2.1>", "note": "<secret:jwt:2.2>"})
    result = onrecord("scan", "r1")
    assert result.exit_code == 0, result.output
    assert result.stdout.endswith("CLEAN\n")
    assert onrecord_json("scan", "r1") == {"clean": True, "runs": 1, "contents": 4, "found": []}


@pytest.mark.parametrize(
    ("output", "path", "kind"),
    [
        ({"note": JWT}, "/output/note", "jwt"),
        ({"password": "hunter2"}, "/output/password", "credential"),
        ({"headers": [["cookie", "a=b"]]}, "/output/headers/0/1", "credential"),
        ({"json": '{"api_key": "abc"}'}, "/output/json", "credential"),
        ([CARD], "/output/0", "card"),
        ({"b": base64.b64encode(JWT.encode()).decode()}, "/output/b", "jwt.base64"),
        ({"b": JWT.encode()}, "/output/b", "jwt"),
        ({"b": b"\x00" * 70_000 + JWT.encode()}, "/output/b", "jwt"),
        ({"long": "x " * 5_000 + JWT}, "/output/long", "jwt"),
        ({JWT: 1}, "/output/…", "name"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_what_is_found_is_told_by_place_and_kind(output: object, path: str, kind: str) -> None:
    record("r1", output)
    found = onrecord_json("scan", "@last", status=1)["found"]
    assert found == [{"run": "r1", "where": "seq 2", "path": path, "kind": kind}]
    result = onrecord("scan", "r1")
    assert result.exit_code == 1
    assert result.stdout.endswith("FOUND\n")
    assert not any(secret in result.output for secret in (JWT, CARD, "hunter2", "a=b", "abc"))


def test_values_of_this_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_SERVICE_TOKEN", "looks-like-nothing-1")
    record("r1", "it is looks-like-nothing-1")
    assert onrecord("scan", "r1").exit_code == 1
    assert onrecord("scan", "r1", "--no-env").exit_code == 0


def test_a_file_and_any_other_text() -> None:
    record("r1", {"note": JWT})
    record("r2", {"note": "fine"})
    for run in ("r1", "r2"):
        assert onrecord("export", run, "-o", f"{run}.jsonl").exit_code == 0
    assert onrecord_json("scan", "r1.jsonl", status=1)["found"][0]["kind"] == "jwt"
    assert onrecord("scan", "r2.jsonl").exit_code == 0
    Path("notes.txt").write_text(f"one\ntwo {CARD}\n")
    [found] = onrecord_json("scan", "./notes.txt", status=1)["found"]
    assert (found["where"], found["kind"]) == ("line 2", "card")


def test_the_whole_store() -> None:
    record("r1", "fine")
    assert onrecord("scan", "--all").exit_code == 0
    record("r2", JWT, "other")
    found = onrecord_json("scan", "--all", status=1)["found"]
    assert [one["run"] for one in found] == ["r2"]


def test_nothing_to_look_at_is_not_clean() -> None:
    open_store(STORE).close()
    result = onrecord("scan", "--all")
    assert result.exit_code == 1
    assert "nothing to scan" in result.stdout


def test_states_are_looked_at() -> None:
    store = open_store(STORE)
    journal = Journal.create(store, "r1")
    journal.append([StateUpdated({"token_count": 3, "secret": "x" * 9})])
    journal.release()
    store.close()
    assert onrecord_json("scan", "r1", status=1)["found"][0]["path"] == "/payload/secret"


@pytest.mark.parametrize(
    ("arguments", "status"),
    [(("scan",), 2), (("scan", "r1", "--all"), 2), (("scan", "nobody"), 3), (("scan", "./no"), 3)],
)
def test_what_cannot_be_scanned(arguments: tuple[str, ...], status: int) -> None:
    record("r1", "fine")
    assert onrecord(*arguments).exit_code == status
