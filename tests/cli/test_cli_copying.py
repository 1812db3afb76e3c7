"""`onrecord export`, `import` and `recover`"""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from kit.cli import STORE, assert_two_lines, exported, flip_content, onrecord, onrecord_json, record, tampering


def test_an_export_can_be_verified_and_imported() -> None:
    record("one")
    result = onrecord("export", "one", "-o", "run.jsonl")
    assert "4 events" in result.stdout
    assert stat.S_IMODE(os.stat("run.jsonl").st_mode) == 0o600
    assert onrecord("verify", "run.jsonl", "--deep").exit_code == 0
    imported = onrecord_json("import", "run.jsonl", "--store", "other.db")
    assert imported == {"run": "one", "events": 4, "already_there": False, "kept_apart": False}
    assert onrecord("verify", "one", "--store", "other.db").exit_code == 0


def test_an_export_to_stdout_is_the_file() -> None:
    record("one")
    path = exported("one")
    assert onrecord("export", "one", "-o", "-").stdout_bytes == path.read_bytes()
    result = onrecord("export", "one", "-o", "-", "--json")
    assert result.exit_code == 2
    assert_two_lines(result.stderr, "usage")


def test_an_export_replaces_nothing_unasked() -> None:
    record("one")
    Path("run.jsonl").write_text("precious")
    result = onrecord("export", "one", "-o", "run.jsonl")
    assert result.exit_code == 6
    assert_two_lines(result.stderr, "file_exists")
    assert Path("run.jsonl").read_text() == "precious"
    assert onrecord("export", "one", "-o", "run.jsonl", "--force").exit_code == 0
    assert onrecord("verify", "run.jsonl").exit_code == 0
    assert sorted(os.listdir(".")) == [".onrecord", "run.jsonl"]


@pytest.mark.parametrize("output", [".", "missing/run.jsonl", ""])
def test_an_export_to_where_nothing_can_be(output: str) -> None:
    record("one")
    result = onrecord("export", "one", "-o", output)
    assert result.exit_code == 2
    assert_two_lines(result.stderr, "bad_output")


def test_a_dangling_link_is_something_that_exists() -> None:
    record("one")
    os.symlink("elsewhere", "run.jsonl")
    assert onrecord("export", "one", "-o", "run.jsonl").exit_code == 6
    assert not os.path.exists("elsewhere")


def test_a_damaged_run_is_not_exported() -> None:
    record("one")
    flip_content("one", 2)
    result = onrecord("export", "one", "-o", "run.jsonl")
    assert result.exit_code == 4
    assert_two_lines(result.stderr, "bad_content")
    assert "event 2" in result.stderr
    assert os.listdir(".") == [".onrecord"]


def test_importing_twice_changes_nothing() -> None:
    record("one")
    exported("one")
    for again in (False, True):
        imported = onrecord_json("import", "run.jsonl", "--store", "other.db")
        assert (imported["run"], imported["already_there"]) == ("one", again)
    assert len(onrecord_json("ls", "--store", "other.db")["runs"]) == 1
    assert "already" in onrecord("import", "run.jsonl", "--store", "other.db").stdout


def test_a_taken_id_keeps_its_owner() -> None:
    record("one")
    exported("one")
    record("one", path="other.db")
    result = onrecord("import", "run.jsonl", "--store", "other.db")
    assert result.exit_code == 0
    assert "this run got a new id" in result.stderr
    runs = {run["run"]: run["imported"] for run in onrecord_json("ls", "--store", "other.db")["runs"]}
    assert sorted(runs.values()) == [False, True]
    assert runs["one"] is False
    assert onrecord("verify", "--all", "--store", "other.db").exit_code == 0


def test_an_altered_file_is_not_imported(workspace: Path) -> None:
    record("one")
    path = exported("one")
    path.write_bytes(path.read_bytes().replace(b"the answer is 4", b"the answer is 5"))
    for existing in (False, True):
        if existing:
            record("two", path="other.db")
        result = onrecord("import", "run.jsonl", "--store", "other.db")
        assert result.exit_code == 4
        assert_two_lines(result.stderr, "bad_content")
        assert os.path.exists("other.db") is existing
        assert "recover" not in result.stderr
        assert "get it again from its source" in result.stderr
    assert [run["run"] for run in onrecord_json("ls", "--store", "other.db")["runs"]] == ["two"]


def test_importing_nothing() -> None:
    result = onrecord("import", "missing.jsonl")
    assert result.exit_code == 3
    assert_two_lines(result.stderr, "not_found")
    assert not os.path.exists(STORE)


def test_recovering_the_valid_prefix() -> None:
    record("one")
    flip_content("one", 3)
    recovered = onrecord_json("recover", "one", "--to", "saved.db")
    assert (recovered["copied"], recovered["lost"], recovered["first_problem"]["seq"]) == (2, 2, 3)
    saved = onrecord_json("verify", "one", "--store", "saved.db")
    assert (saved["valid"], saved["events"]) == (True, 2)
    assert onrecord("verify", "one").exit_code == 4, "the damaged store is left as it is"


def test_recovery_says_what_is_lost_and_touches_no_existing_run() -> None:
    record("one")
    flip_content("one", 3)
    result = onrecord("recover", "one", "--to", "saved.db")
    assert "copied 2 events of one to saved.db" in result.stdout
    assert "lost 2 events, from event 3 on: the content does not match the link" in result.stdout
    again = onrecord("recover", "one", "--to", "saved.db")
    assert again.exit_code == 6
    assert_two_lines(again.stderr, "run_exists")
    onto_itself = onrecord("recover", "one", "--to", STORE)
    assert onto_itself.exit_code == 6


def test_recovering_an_undamaged_run_loses_nothing() -> None:
    record("one")
    assert "no event lost" in onrecord("recover", "one", "--to", "saved.db").stdout
    assert onrecord_json("verify", "one", "--store", "saved.db")["events"] == 4


@pytest.mark.parametrize("column", ["header", "content"])
def test_a_damaged_header_leaves_no_prefix_and_no_store(column: str) -> None:
    record("one")
    with tampering() as connection:
        connection.execute(f"UPDATE runs SET {column} = x'00' WHERE run = 'one'")
    result = onrecord("recover", "one", "--to", "saved.db")
    assert result.exit_code == 4
    assert len(result.stderr.splitlines()) == 2
    assert not os.path.exists("saved.db")
