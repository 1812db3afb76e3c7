"""`onrecord verify`: valid is 0, damaged is 4, nothing checked is never a pass."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from kit.cli import (
    STORE,
    assert_two_lines,
    blocked_run,
    exported,
    flip_content,
    onrecord,
    onrecord_json,
    opened,
    record,
    tampering,
)
from onrecord.core.events import Completed, StateUpdated
from onrecord.journal import verify

VALID = "Verification: 4/4 events verified, 0 failures, 0 mismatches - VALID"


def test_a_valid_run() -> None:
    record("one")
    result = onrecord("verify", "one")
    assert result.exit_code == 0
    assert result.stdout.splitlines()[-1] == VALID
    report = onrecord_json("verify", "one", "--deep")
    assert report["line"] == VALID
    assert (report["valid"], report["deep"], report["problems"]) == (True, True, [])


def test_a_valid_file_needs_no_store() -> None:
    record("one")
    exported("one")
    result = onrecord("verify", "run.jsonl", "--store", "nowhere.db")
    assert result.exit_code == 0
    assert result.stdout.splitlines()[-1] == VALID
    assert not Path("nowhere.db").exists()


def test_a_damaged_store() -> None:
    record("one")
    flip_content("one", 2)
    result = onrecord("verify", "one")
    assert result.exit_code == 4
    assert "event 2: the content does not match the link [bad_content, failure]" in result.stdout
    assert result.stdout.splitlines()[-1] == "Verification: 3/4 events verified, 1 failures, 0 mismatches - INVALID"
    report = onrecord_json("verify", "one", status=4)
    assert (report["valid"], report["first_bad_seq"]) == (False, 2)
    assert report["problems"][0]["code"] == "bad_content"


def test_an_altered_file() -> None:
    record("one")
    path = exported("one")
    path.write_bytes(path.read_bytes().replace(b"the answer is 4", b"the answer is 5"))
    result = onrecord("verify", str(path))
    assert result.exit_code == 4
    assert "event 2:" in result.stdout
    assert result.stdout.splitlines()[-1].endswith("INVALID")


def test_only_the_first_problems_are_listed_and_the_rest_counted() -> None:
    record("one", [*(StateUpdated(payload=number) for number in range(30)), Completed()])
    with tampering() as connection:
        connection.execute("UPDATE events SET content = x'007b7d' WHERE seq <= 30")
    result = onrecord("verify", "one")
    assert result.exit_code == 4
    assert sum(line.startswith("  event ") for line in result.stdout.splitlines()) == 20
    report = onrecord_json("verify", "one", status=4)
    assert f"… and {report['failures'] + report['mismatches'] - 20} more problems" in result.stdout


def test_a_run_without_an_end_says_what_that_means() -> None:
    record("one", blocked_run())
    result = onrecord("verify", "one")
    assert result.exit_code == 0
    assert "verified to seq 2, nothing later to compare with" in result.stdout
    assert "open      event 2" in result.stdout


def test_an_expected_head() -> None:
    record("one")
    head = onrecord_json("verify", "one")["head"]
    for target in ("one", str(exported("one"))):
        assert onrecord("verify", target, "--expect", f"4:{head}").exit_code == 0
        assert onrecord("verify", target, "--expect", f"4:{head.removeprefix('sha256:')}").exit_code == 0
        assert onrecord("verify", target, "--expect", f"3:{head}").exit_code == 4
        assert onrecord("verify", target, "--expect", f"5:{head}").exit_code == 4


@pytest.mark.parametrize(
    "head", ["", "4", "4:", "4:sha256:12", ":sha256:" + "0" * 64, "-1:" + "0" * 64, "٣:" + "0" * 64]
)
def test_a_head_that_is_none(head: str) -> None:
    record("one")
    result = onrecord("verify", "one", "--expect", head)
    assert result.exit_code == 2
    assert_two_lines(result.stderr, "bad_head")


def test_all_runs_and_the_operations_journal() -> None:
    for run in ("one", "two", "three"):
        record(run)
    assert onrecord("gc", "--keep", "2", "--yes").exit_code == 0
    result = onrecord("verify", "--all")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert len(lines) == 5
    assert "operations" in lines[2]
    assert lines[3] == "2 runs verified, 0 damaged"
    assert lines[-1] == "Verification: 9/9 events verified, 0 failures, 0 mismatches - VALID"


def test_one_damaged_run_among_all() -> None:
    for run in ("one", "two", "three"):
        record(run)
    flip_content("two", 2)
    with tampering() as connection:
        connection.execute("UPDATE runs SET header = x'7b7d' WHERE run = 'three'")
    result = onrecord("verify", "--all")
    assert result.exit_code == 4
    assert "3 runs verified, 2 damaged" in result.stdout
    assert result.stdout.splitlines()[-1].endswith("INVALID")
    report = onrecord_json("verify", "--all", status=4)
    assert {run["run"]: run["valid"] for run in report["runs"]} == {"one": True, "two": False, "three": False}


def test_nothing_to_verify_is_not_a_pass() -> None:
    with opened():
        pass
    result = onrecord("verify", "--all")
    assert result.exit_code == 3
    assert_two_lines(result.stderr, "no_runs")
    record("one")
    assert onrecord("gc", "--keep", "0", "--yes").exit_code == 0
    assert onrecord("verify", "--all").exit_code == 3
    assert onrecord_json("verify", "--all", status=3)["error"]["code"] == "no_runs"


@pytest.mark.parametrize("arguments", [[], ["one", "--all"], ["--all", "--expect", "1:" + "0" * 64]])
def test_what_is_meant_has_to_be_said(arguments: list[str]) -> None:
    record("one")
    result = onrecord("verify", *arguments)
    assert result.exit_code == 2
    assert_two_lines(result.stderr, "usage")


def test_a_file_and_a_run_of_one_name() -> None:
    record("one")
    exported("one", "one")
    result = onrecord("verify", "one")
    assert result.exit_code == 2
    assert_two_lines(result.stderr, "ambiguous_target")
    assert onrecord("verify", "./one").exit_code == 0
    # Only the whole id is in the way; a file is never taken for the beginning of one.
    exported("one", "on")
    assert onrecord("verify", "on").exit_code == 0


@pytest.mark.parametrize("target", ["nothing.jsonl", "nothing", "./nothing.jsonl", "/nowhere/x", "@last~7"])
def test_neither_a_file_nor_a_run(target: str) -> None:
    record("one")
    result = onrecord("verify", target)
    assert result.exit_code == 3
    assert len(result.stderr.splitlines()) == 2


BAD_FILES = {
    "empty": b"",
    "newline": b"\n",
    "garbage": b"hello\nworld\n",
    "binary": bytes(range(256)) * 100,
    "json": b'{"a":1}\n',
    "header only": b'{"onrecord":"recording","format":1,"header":{}}\n',
    "newer format": b'{"onrecord":"recording","format":2,"header":{}}\n',
    "utf-16": "{}\n".encode("utf-16"),
    "no line feed": b"x" * 1000,
    "huge line": b"x" * (129 * 1024 * 1024),
    "deep": b'{"onrecord":' + b"[" * 100_000 + b"\n",
}


@pytest.mark.parametrize("name", BAD_FILES)
@pytest.mark.parametrize("command", ["verify", "import"])
def test_a_file_that_is_no_recording(name: str, command: str, workspace: Path) -> None:
    Path("bad").write_bytes(BAD_FILES[name])
    began = time.perf_counter()
    result = onrecord(command, "bad")
    assert time.perf_counter() - began < 60, "it hangs"
    assert result.exit_code == 4
    assert result.stdout == ""
    assert_two_lines(result.stderr, "bad_recording")
    assert [path.name for path in workspace.iterdir()] == ["bad"]


@pytest.mark.parametrize("command", ["verify", "import"])
def test_what_is_not_a_plain_file(command: str) -> None:
    os.mkfifo("pipe")
    os.mkdir("folder")
    for name in ("pipe", "folder", "/dev/zero", "/dev/null"):
        result = onrecord(command, name)
        assert result.exit_code == 4, name
        assert_two_lines(result.stderr, "bad_recording")
    assert not os.path.exists(STORE)


def test_every_cut_of_a_file_is_found() -> None:
    record("one")
    whole = exported("one").read_bytes()
    lines = whole.splitlines(keepends=True)
    cuts = [b"".join(lines[:count]) for count in range(len(lines))] + [whole[:-1], whole[: len(whole) // 2]]
    for cut in cuts:
        Path("cut.jsonl").write_bytes(cut)
        assert onrecord("verify", "cut.jsonl").exit_code == 4, len(cut)
        assert onrecord("import", "cut.jsonl", "--store", "other.db").exit_code == 4, len(cut)
    assert not os.path.exists("other.db")


@pytest.mark.parametrize("kind", ["text", "other database", "folder", "link"])
def test_a_store_that_is_none(kind: str) -> None:
    Path("real.db").write_bytes(b"this is no database, only text" * 100)
    if kind == "other database":
        os.unlink("real.db")
        with tampering("real.db") as connection:
            connection.execute("CREATE TABLE t(x)")
    elif kind == "folder":
        os.unlink("real.db")
        os.mkdir("real.db")
    elif kind == "link":
        os.rename("real.db", "target.db")
        os.symlink("target.db", "real.db")
    else:
        os.chmod("real.db", 0o600)
    result = onrecord("verify", "one", "--store", "real.db")
    assert result.exit_code == (4 if kind == "text" else 5)
    assert result.stderr.splitlines()[-2].startswith("error: ")


def test_parallel_verification_comes_to_the_same_report(monkeypatch: pytest.MonkeyPatch) -> None:
    record("one", [*(StateUpdated(payload=number) for number in range(20)), Completed()])
    in_parallel, shares = verify._verify_in_parallel, []

    def counted(*arguments: Any) -> Any:
        results = in_parallel(*arguments)
        shares.append(len(results))
        return results

    monkeypatch.setattr(verify, "PARALLEL_FROM_EVENTS", 5)
    monkeypatch.setattr(verify, "_verify_in_parallel", counted)
    single, several = (onrecord_json("verify", "one", "--processes", count) for count in ("1", "2"))
    assert shares == [2]
    assert single == several
    assert several["line"].startswith("Verification: 21/21")
