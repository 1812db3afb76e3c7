"""`onrecord receipt` and `onrecord evidence`"""

from __future__ import annotations

from pathlib import Path

import pytest

from kit.cli import asking, assert_two_lines, flip_content, onrecord, onrecord_json, record
from onrecord.core.events import Completed


@pytest.fixture(autouse=True)
def own_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONRECORD_KEY_FILE", str(tmp_path / "keys.json"))


def minted(run: str = "one") -> Path:
    result = onrecord("receipt", "mint", run, "-o", "receipts.jsonl")
    assert result.exit_code == 0, result.output
    return Path("receipts.jsonl")


def three_calls(run: str = "one", **facts: object) -> None:
    calls = [event for at in (1, 3, 5) for event in asking(f"q{at}", f"a{at}", at=at)]
    record(run, [*calls, Completed()], facts={"agent": "tester", **facts})


def test_receipts_are_made_and_checked() -> None:
    three_calls()
    file = minted()
    assert len(file.read_bytes().splitlines()) == 3
    result = onrecord("receipt", "check", str(file))
    assert result.exit_code == 0
    assert "3 receipts in order" in result.stdout
    assert "VALID" in result.stdout
    shown = onrecord_json("receipt", "mint", "one")["receipts"]
    assert [one["effect_name"] for one in shown] == ["ask"] * 3
    assert onrecord_json("receipt", "check", str(file))["last"] == shown[-1]["token_hash"]


def test_an_edited_a_missing_and_a_moved_receipt_are_named() -> None:
    three_calls()
    lines = minted().read_bytes().splitlines()
    for broken in ([lines[0], lines[2]], [lines[1], lines[0], lines[2]], [lines[0].replace(b"q1", b"q2"), *lines[1:]]):
        Path("broken.jsonl").write_bytes(b"\n".join(broken))
        result = onrecord("receipt", "check", "broken.jsonl")
        assert result.exit_code == 4, result.output
        assert "INVALID" in result.stdout


def test_a_cut_chain_needs_the_last_hash() -> None:
    three_calls()
    lines = minted().read_bytes().splitlines()
    last = onrecord_json("receipt", "check", "receipts.jsonl")["last"]
    Path("cut.jsonl").write_bytes(b"\n".join(lines[:2]))
    assert onrecord("receipt", "check", "cut.jsonl").exit_code == 0
    assert "nothing later to compare with" in onrecord("receipt", "check", "cut.jsonl").stdout
    assert onrecord("receipt", "check", "cut.jsonl", "--last", last).exit_code == 4


def test_no_receipts_are_no_pass() -> None:
    Path("empty.jsonl").write_bytes(b"")
    assert onrecord("receipt", "check", "empty.jsonl").exit_code == 4


def test_what_is_no_receipt_is_refused() -> None:
    Path("bad.jsonl").write_bytes(b"{}\n")
    result = onrecord("receipt", "check", "bad.jsonl")
    assert result.exit_code != 0
    assert len(result.stderr.splitlines()) == 2
    assert "Traceback" not in result.output


def test_receipts_are_found_by_tag() -> None:
    three_calls("one", tags={"purpose": "billing"})
    three_calls("two", tags={"purpose": "support"})
    assert len(onrecord_json("receipt", "find", "--tag", "purpose=billing")["receipts"]) == 3
    assert onrecord_json("receipt", "find", "--tag", "purpose=billing", "--until", "2001-01-01")["receipts"] == []
    assert_two_lines(onrecord("receipt", "find", "--tag", "purpose").stderr, "bad_tag")
    assert_two_lines(onrecord("receipt", "find", "--since", "soon").stderr, "bad_time")


def test_a_file_is_not_written_over_unasked() -> None:
    three_calls()
    minted()
    assert_two_lines(onrecord("receipt", "mint", "one", "-o", "receipts.jsonl").stderr, "file_exists")
    assert onrecord("receipt", "mint", "one", "-o", "receipts.jsonl", "--force").exit_code == 0


def test_evidence_is_made_and_checked_without_the_store() -> None:
    three_calls()
    assert_two_lines(onrecord("evidence", "key").stderr, "no_key")
    result = onrecord("evidence", "make", "one", "-o", "one.evidence")
    assert result.exit_code == 0, result.output
    Path("key.pub").write_text(onrecord("evidence", "key").stdout)
    Path(".onrecord").rename("elsewhere")
    result = onrecord("evidence", "check", "one.evidence", "--key", "key.pub")
    assert result.exit_code == 0, result.output
    assert result.stdout.strip().endswith("VALID")


def test_forged_evidence_is_refused() -> None:
    three_calls()
    onrecord("evidence", "make", "one", "-o", "one.evidence")
    Path("key.pub").write_text(onrecord("evidence", "key").stdout)
    Path("one.evidence").write_bytes(Path("one.evidence").read_bytes().replace(b"a3", b"a4"))
    found = onrecord_json("evidence", "check", "one.evidence", "--key", "key.pub", status=4)
    assert found["valid"] is False
    assert found["problems"]


def test_a_comparison_is_signed_with_its_runs() -> None:
    three_calls("one")
    record("two", [*asking("q1", "other"), Completed()])
    assert onrecord("evidence", "make", "one", "two", "--diff", "-o", "both.evidence").exit_code == 0
    Path("key.pub").write_text(onrecord("evidence", "key").stdout)
    found = onrecord_json("evidence", "check", "both.evidence", "--key", "key.pub")
    assert found["result"]["verdict"] == "diverged"
    assert_two_lines(onrecord("evidence", "make", "one", "--diff", "-o", "x").stderr, "usage")


def test_a_damaged_run_is_never_signed() -> None:
    three_calls()
    flip_content("one", 2)
    result = onrecord("evidence", "make", "one", "-o", "one.evidence")
    assert result.exit_code == 4
    assert not Path("one.evidence").exists()


def test_what_is_no_key_is_refused() -> None:
    three_calls()
    onrecord("evidence", "make", "one", "-o", "one.evidence")
    for data in (b"\xff\x00" * 100, b"hello", b""):
        Path("bad.pub").write_bytes(data)
        result = onrecord("evidence", "check", "one.evidence", "--key", "bad.pub")
        assert result.exit_code == 2, result.output
        assert_two_lines(result.stderr, "bad_public_key")


def test_the_signing_key_is_rotated_and_old_evidence_still_checks() -> None:
    three_calls()
    onrecord("evidence", "make", "one", "-o", "old.evidence")
    Path("old.pub").write_text(onrecord("evidence", "key").stdout)
    assert onrecord("keys", "rotate", "--evidence").exit_code == 0
    onrecord("evidence", "make", "one", "-o", "new.evidence")
    Path("new.pub").write_text(onrecord("evidence", "key").stdout)
    assert onrecord("evidence", "check", "old.evidence", "--key", "old.pub").exit_code == 0
    assert onrecord("evidence", "check", "new.evidence", "--key", "new.pub").exit_code == 0
    assert onrecord("evidence", "check", "new.evidence", "--key", "old.pub").exit_code == 4
    assert [one["purpose"] for one in onrecord_json("keys", "list")["keys"]].count("signature") == 2


@pytest.mark.parametrize("group", ["receipt", "evidence"])
def test_alone_it_tells_how_it_is_used(group: str) -> None:
    result = onrecord(group)
    assert result.exit_code == 0
    assert "Usage: " in result.stdout
    assert "Commands:" in result.stdout
