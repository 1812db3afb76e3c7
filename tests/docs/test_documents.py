"""Documents that are run and checked:

examples work, links lead somewhere, every acceptance row names tests that exist.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SUITE = ROOT / "src/reenact/testing/store_contract"
DOCUMENTS = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
PYTHON_BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)
EXAMPLES = [
    pytest.param(block, id=f"{path.name}-{number}")
    for path in DOCUMENTS
    for number, block in enumerate(PYTHON_BLOCK.findall(path.read_text()), 1)
]


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 1


@pytest.mark.parametrize("code", EXAMPLES)
def test_example_runs(code: str, tmp_path: Path) -> None:
    example = tmp_path / "example.py"
    example.write_text(code)
    outside = {**os.environ, "REENACT_KEY_FILE": str(tmp_path / "keys.json")}
    outside.pop("REENACT_STORE", None)
    done = subprocess.run(
        [sys.executable, "-W", "error", str(example)],
        cwd=tmp_path,
        env=outside,
        capture_output=True,
        text=True,
        timeout=90,
    )
    assert done.returncode == 0, done.stderr
    for promised in re.findall(r"#\s+(Verification: .*)", code):
        assert promised in done.stdout


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_to_files(path: Path) -> None:
    missing = [
        target
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", path.read_text())
        if not (path.parent / target).exists()
    ]
    assert missing == []


def test_readme_commands_exist() -> None:
    readme = (ROOT / "README.md").read_text()
    commands = set(re.findall(r"^\$ reenact (\w+)", readme, re.MULTILINE))
    listed = subprocess.run([sys.executable, "-m", "reenact.cli.main", "--help"], capture_output=True, text=True).stdout
    assert commands
    assert {name for name in commands if not re.search(rf"^\s+{name}\b", listed, re.MULTILINE)} == set()


def test_ci_runs_the_readme_test_command() -> None:
    script = (ROOT / ".ci" / "run").read_text()
    assert "make test" in (ROOT / "README.md").read_text()
    assert script.rstrip().endswith("make test")


def test_every_acceptance_row_names_tests_that_exist() -> None:
    text = (ROOT / "docs" / "acceptance.md").read_text()
    rows = re.findall(r"^\| (\d+) \|.*?\| (.+?) \|$", text, re.MULTILINE)
    assert {int(number) for number, _ in rows} >= {*range(1, 132)}
    missing = []
    for number, cell in rows:
        named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)(?:::(\w+))?`", cell)
        if not named:
            missing.append(f"row {number} names no test")
        for file, *names in named:
            source = (ROOT / file).read_text() if (ROOT / file).exists() else ""
            if "StoreContract" in source:
                source += "".join(path.read_text() for path in SUITE.glob("*.py"))
            missing.extend(
                f"row {number}: {file}::{name}"
                for name in names
                if name and not re.search(rf"(?:def|class) {name}\b", source)
            )
    assert missing == []


def test_the_reference_is_what_the_code_says() -> None:
    sys.path.insert(0, str(ROOT / "tools"))
    try:
        import api_reference
    finally:
        sys.path.remove(str(ROOT / "tools"))
    assert (ROOT / "docs/api.md").read_text() == api_reference.write(), "`make reference` writes it anew"


def test_everything_in_the_reference_is_explained() -> None:
    entries = re.split(r"^### ", (ROOT / "docs/api.md").read_text(), flags=re.MULTILINE)[1:]
    names_and_rest = [entry.split("\n", 1) for entry in entries]
    silent = [name for name, rest in names_and_rest if not re.sub(r"```text.*?```|^#.*", "", rest, flags=re.S).strip()]
    assert silent == []
