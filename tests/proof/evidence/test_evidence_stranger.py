"""The page of docs/guides/evidence.md, run as a stranger would: it takes what is good, and refuses what was altered."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kit.evidence import Taken, full_bundle, keys_at, recorded_run, signature
from kit.paths import DOCS
from onrecord.journal.erasure import erase_value
from onrecord.proof.evidence import check_bundle, make_bundle
from onrecord.store.memory import MemoryStore

DOCUMENT = DOCS / "guides" / "evidence.md"
PAGE = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)[-1]


@pytest.fixture(scope="module")
def page() -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(PAGE.replace("len(sys.argv) == 3", "False"), names)
    return names


def loaded(page: dict[str, Any], keys: Any) -> Any:
    return page["load_pem_public_key"](keys.current_public_key().to_pem().encode())


def test_the_page_knows_nothing_of_onrecord() -> None:
    assert not re.search(r"^\s*(from|import) onrecord", PAGE, re.MULTILINE)
    assert PAGE.count("\n") < 90


def test_the_page_takes_a_good_bundle(tmp_path: Path) -> None:
    keys = keys_at(tmp_path)
    (tmp_path / "bundle").write_bytes(full_bundle(MemoryStore(), keys))
    (tmp_path / "key.pem").write_text(keys.current_public_key().to_pem())
    (tmp_path / "check_evidence.py").write_text(PAGE)
    arguments = [sys.executable, "-I", "check_evidence.py", "bundle", "key.pem"]
    done = subprocess.run(arguments, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert '"terminal": "Completed"' in done.stdout


def test_the_page_and_onrecord_agree_on_erased_contents(tmp_path: Path, page: dict[str, Any]) -> None:
    keys, memory = keys_at(tmp_path), MemoryStore()
    recorded_run(memory, answer="Ada Lovelace")
    erase_value(memory, "Ada Lovelace", reason="asked for")
    bundle = make_bundle(memory, "r1", keys=keys)
    assert b"Ada" not in bundle
    assert check_bundle(bundle, keys.public_keys()).valid
    assert page["check"](bundle, loaded(page, keys))["runs"][0]["events"] == 4


def test_the_page_refuses_what_was_altered(tmp_path: Path, page: dict[str, Any]) -> None:
    keys, strangers = keys_at(tmp_path), keys_at(tmp_path, "strangers")
    good = full_bundle(MemoryStore(), keys)
    key = loaded(page, keys)
    assert page["check"](good, key)["format"] == "onrecord.evidence/1"
    taken = Taken(good)
    by_stranger = signature(strangers, taken.payload)
    own = taken.envelope["signatures"][0]
    altered = [
        good + b"x",
        taken.together([*taken.parts[1::-1], *taken.parts[2:]]),
        taken.together(signatures=[]),
        taken.together(signatures=[by_stranger]),
        taken.together(signatures=[{**by_stranger, "keyid": own["keyid"]}]),
        taken.together(payloadType="text/plain"),
        taken.signed_again(keys, runs=[{**taken.statement["runs"][0], "events": 3}, taken.statement["runs"][1]]),
        taken.signed_again(keys, runs=[{**taken.statement["runs"][0], "terminal": None}, taken.statement["runs"][1]]),
    ]
    for at in range(0, len(good), 211):
        flipped = bytearray(good)
        flipped[at] ^= 1
        altered += [bytes(flipped), good[:at]]
    for bundle in altered:
        assert not check_bundle(bundle, keys.public_keys()).valid
        with pytest.raises(Exception):  # noqa: B017 - whatever it is, the page does not go on
            page["check"](bundle, key)
