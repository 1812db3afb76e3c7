"""The environment of a program is on record by names and digests, which nobody takes for secrets."""

from __future__ import annotations

import hmac
import os
import subprocess
import sys
from pathlib import Path

import pytest

from onrecord.capture.environment import changed_variables, environment_fact
from onrecord.core.redaction import Finder, Redactor
from onrecord.core.redaction.scan import scan_tree
from onrecord.runtime.secrets.seals import SealKeys

NAMES = ("API_KEY", "AUTHORIZATION", "COOKIE", "DB_PASSWORD", "HOME", "OPENAI_API_KEY", "X_API_KEY")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ONRECORD_KEY_FILE", str(tmp_path / "keys.json"))
    monkeypatch.delenv("ONRECORD_STORE", raising=False)


@pytest.mark.parametrize("number", range(len(NAMES) + 1))
def test_the_fact_looks_like_no_secret(number: int) -> None:
    fact = environment_fact(dict.fromkeys(NAMES[:number], f"value {number}"))
    assert list(scan_tree(fact, Finder((), ()))) == []
    assert Redactor().redact_reversibly(fact).value == fact


def test_a_digest_never_looks_like_a_number() -> None:
    fact = environment_fact({f"V{number}": "value" for number in range(2000)})
    assert not any(character.isdigit() for one in fact["environment"]["variables"] for character in one.split(" ")[1])


def test_what_became_of_variables() -> None:
    fact = environment_fact({"SAME": "1", "OTHER": "1", "GONE": "1", "an odd name": "1"})
    now = {"SAME": "1", "OTHER": "2", "FRESH": "1", "an odd name": "1"}
    assert changed_variables(fact, now) == {"changed": ["OTHER"], "new": ["FRESH"], "gone": ["GONE"]}
    assert changed_variables(fact, {**now, "an odd name": "2"})["changed"] == ["OTHER", "an odd name"]


def test_an_earlier_record_is_still_read() -> None:
    key, secret = SealKeys().current_seal()
    digest = hmac.digest(secret, b"onrecord.environment/1\0SAME\x001", "sha256").hex()[:16]
    fact = {"environment": {"key": key, "digests": {"SAME": digest, "OTHER": digest}}}
    assert changed_variables(fact, {"SAME": "1", "OTHER": "1"}) == {"changed": ["OTHER"]}


@pytest.mark.parametrize(
    "fact", [None, {}, {"environment": 1}, {"environment": {}}, {"environment": {"key": "none", "variables": ["A b"]}}]
)
def test_what_nobody_can_tell(fact: dict[str, object] | None) -> None:
    assert changed_variables(fact, {"A": "1"}) == {}


def test_a_program_with_a_key_in_its_environment_is_clean(tmp_path: Path) -> None:
    Path("program.py").write_text("print(1)\n")
    key = "sk-proj-" + "abcdefghijklmnopqrstuvwxyz0123456789"
    environment = {**os.environ, "OPENAI_API_KEY": key, "DB_PASSWORD": "hunter22hunter22"}
    command = [sys.executable, "-m", "onrecord.cli.main"]
    for arguments in (
        ["run", "--run-id", "one", "program.py"],
        ["scan", "one"],
        ["export", "one", "-o", "one.jsonl"],
        ["scan", "one.jsonl"],
    ):
        done = subprocess.run([*command, *arguments], env=environment, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stdout + done.stderr
