"""The verifier of shared pages, run by Node, against ours: the same verdict on every recording, sound or altered."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from golden import vectors
from kit.paths import ROOT
from kit.shared_runs import record_hostile, record_two, support
from kit.soak import seeds
from onrecord.core.canonical import canonical_bytes, stored_bytes
from onrecord.errors import OnrecordError
from onrecord.journal.erasure import erase_value
from onrecord.journal.export import export_run
from onrecord.journal.import_file import verify_file
from onrecord.journal.reader import JournalReader
from onrecord.store.contract import Store

STATIC = ROOT / "src" / "onrecord" / "html_export" / "static"
GOLDEN = Path(vectors.__file__).parent / "recording-1.jsonl"
NODE = shutil.which("node")

pytestmark = pytest.mark.skipif(NODE is None, reason="NO NODE: the verifier of shared pages was not run by itself")


def node(*arguments: str, given: str) -> str:
    assert NODE is not None
    done = subprocess.run([NODE, *arguments], input=given, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


def verdicts_of(paths: Sequence[Path]) -> list[dict[str, Any]]:
    script = str(Path(__file__).with_name("verifying.mjs"))
    said = node(script, str(STATIC / "verify.js"), given="\n".join(map(str, paths)))
    return [json.loads(line) for line in said.split("\n") if line]


def ours(path: Path) -> tuple[bool, int | None]:
    """Whether it is valid, and the first bad event where there is one to name."""
    try:
        report = verify_file(path, deep=True)
    except OnrecordError:
        return False, None
    return report.valid, report.first_bad_seq


def altered(data: bytes, chance: random.Random) -> bytes:
    """One byte, or one line, is not what it was."""
    lines = data.split(b"\n")
    at = chance.randrange(len(lines) - 2)
    match chance.randrange(4):
        case 0:
            return b"\n".join([*lines[:at], *lines[at + 1 :]])
        case 1:
            return b"\n".join([*lines[:at], lines[at + 1], lines[at], *lines[at + 2 :]])
    place = chance.randrange(len(data))
    flipped = chance.choice([data[place] ^ 1, data[place] ^ 32, 48 + chance.randrange(10), 97 + chance.randrange(6)])
    return data[:place] + bytes([flipped]) + data[place + 1 :]


@pytest.fixture
def recordings(store: Store, tmp_path: Path) -> list[Path]:
    """Golden ones, and whatever else a recording can hold: shared values, artifacts, states, forks, erased contents."""
    record_two(store)
    record_hostile(store)
    support.run("erase-me-please", 2, run_id="erased", store=store)
    erase_value(store, "erase-me-please", reason="asked for")
    support.fork("first", 6, fork_id="forked", store=store)
    paths = [GOLDEN]
    for row in store.list_runs("default"):
        paths.append(tmp_path / f"{row.header.run}.jsonl")
        export_run(JournalReader(store, row.header.run), paths[-1])
    return paths


def test_sound_recordings_are_valid_with_the_same_numbers(recordings: list[Path]) -> None:
    for path, told in zip(recordings, verdicts_of(recordings), strict=True):
        report = verify_file(path, deep=True)
        assert report.valid
        assert told["valid"], (path.name, told)
        assert (told["events"], told["verified"], told["head"]) == (report.events, report.verified, report.head)
        assert told["meanings"] == report.events - len(report.erased)


def test_every_golden_recording_is_read() -> None:
    files = sorted(GOLDEN.parent.glob("recording-*.jsonl"))
    assert GOLDEN in files
    assert all(told["valid"] for told in verdicts_of(files))


@pytest.mark.parametrize("seed", seeds(1, 30))
def test_altered_recordings_are_broken_at_the_same_event(recordings: list[Path], tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    made = []
    for number in range(150):
        chosen = chance.choice(recordings[:1] + [path for path in recordings if path.stem in ("first", "erased")])
        made.append(tmp_path / f"{seed}-{number}")
        made[-1].write_bytes(altered(chosen.read_bytes(), chance))
    for path, told in zip(made, verdicts_of(made), strict=True):
        valid, first = ours(path)
        assert told["valid"] == valid, (path.name, told["problems"][:1])
        if first is not None:
            assert told["problems"][0]["seq"] == first
        if not valid:
            assert told["problems"][0]["seq"] is not None or told["problems"][0]["line"] is not None, "it says where"


VALUES: list[Any] = [
    {"b": 1, "a": [1.0, -0.0, 1e21, 1e-7, 123456789.125, 5e-324], "\u20ac": "\r", "\U0001f600": 1, "\ufb33": 2, "1": 3},
    {"__proto__": {"a": 1}, "constructor": [], "": None},
    ["\x00\x1f\x7f\u2028\ufeff", '"\\/<>&', True, False, None],
    {"text": "</script>" * 3},
]


def test_canonical_form_is_ours() -> None:
    code = (
        f"import {{ readStrict, canonical }} from {json.dumps((STATIC / 'values.js').as_uri())};"
        "import { readFileSync } from 'node:fs';"
        "for (const text of JSON.parse(readFileSync(0, 'utf8')))"
        " console.log(JSON.stringify(canonical(readStrict(text))));"
    )
    given = json.dumps([stored_bytes(value).decode() for value in VALUES])
    said = node("--input-type=module", "-e", code, given=given)
    assert [json.loads(line) for line in said.split("\n") if line] == [
        canonical_bytes(value).decode() for value in VALUES
    ]


REFUSED = [
    '{"a":1,"a":2}',
    "[1, 2]",
    "01",
    "1e400",
    '"\\u0041"',
    '"\\ud800"',
    "[1]x",
    "NaN",
    '"\x01"',
    "[" * 1200,
    "",
    "{a:1}",
]


def test_what_the_format_refuses_is_refused() -> None:
    code = (
        f"import {{ readStrict }} from {json.dumps((STATIC / 'values.js').as_uri())};"
        "import { readFileSync } from 'node:fs';"
        "for (const text of JSON.parse(readFileSync(0, 'utf8'))) {"
        " try { readStrict(text); console.log('taken', text); } catch { console.log('refused'); } }"
    )
    said = node("--input-type=module", "-e", code, given=json.dumps(REFUSED))
    assert said.splitlines() == ["refused"] * len(REFUSED)


def test_our_own_hash_is_sha256() -> None:
    """Where a browser has none, or it is not worth waiting for."""
    code = (
        f"import {{ ownSha256, written }} from {json.dumps((STATIC / 'sha256.js').as_uri())};"
        "import { createHash } from 'node:crypto';"
        "for (const size of [0, 1, 3, 55, 56, 57, 63, 64, 65, 119, 120, 1000, 70000]) {"
        " const data = new Uint8Array(size).map((_, index) => (index * 7 + size) & 255);"
        " const wanted = 'sha256:' + createHash('sha256').update(data).digest('hex');"
        " if (written(ownSha256(data)) !== wanted) throw new Error(`wrong at ${size}`); }"
    )
    node("--input-type=module", "-e", code, given="")
