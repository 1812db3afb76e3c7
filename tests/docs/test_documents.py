"""Run the examples of the documents; check links, commands, acceptance rows and the generated reference."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from kit.cli import onrecord

ROOT = Path(__file__).parents[2]
SUITE = ROOT / "src/onrecord/testing/store_contract"
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
    outside = {**os.environ, "ONRECORD_KEY_FILE": str(tmp_path / "keys.json")}
    outside.pop("ONRECORD_STORE", None)
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
    commands = set(re.findall(r"^\$ onrecord (\w+)", readme, re.MULTILINE))
    listed = onrecord("--help").stdout
    assert commands
    assert {name for name in commands if not re.search(rf"^\s+{name}\b", listed, re.MULTILINE)} == set()


def test_ci_runs_the_readme_test_command() -> None:
    script = (ROOT / ".ci" / "run").read_text()
    assert "make test" in (ROOT / "README.md").read_text()
    assert script.rstrip().endswith("make test")


TEST_NAME = re.compile(r"`(tests/[\w/]+\.py)::(\w+)(?:::(\w+))?`")


def test_every_acceptance_row_names_a_test() -> None:
    text = (ROOT / "docs" / "evidence" / "acceptance.md").read_text()
    rows = {int(number): cell for number, cell in re.findall(r"^\| (\d+) \|.*?\| (.+?) \|$", text, re.MULTILINE)}
    assert rows.keys() >= {*range(1, 132)}
    assert [number for number, cell in rows.items() if not TEST_NAME.search(cell)] == []


def test_every_test_of_the_acceptance_page_exists() -> None:
    missing = []
    for file, *names in TEST_NAME.findall((ROOT / "docs" / "evidence" / "acceptance.md").read_text()):
        source = (ROOT / file).read_text() if (ROOT / file).exists() else ""
        if "StoreContract" in source:
            source += "".join(path.read_text() for path in SUITE.glob("*.py"))
        missing += [f"{file}::{name}" for name in names if name and not re.search(rf"(?:def|class) {name}\b", source)]
    assert missing == []


@pytest.mark.usefixtures("collected")
@pytest.mark.parametrize(("page", "tool"), [("api", "api_reference"), ("errors", "error_reference")])
def test_the_reference_is_what_the_code_says(page: str, tool: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    written = import_module(tool).write()
    assert (ROOT / f"docs/reference/{page}.md").read_text() == written, "`make reference` writes it again"


def test_everything_in_the_reference_is_explained() -> None:
    entries = re.split(r"^### ", (ROOT / "docs/reference/api.md").read_text(), flags=re.MULTILINE)[1:]
    names_and_rest = [entry.split("\n", 1) for entry in entries]
    silent = [name for name, rest in names_and_rest if not re.sub(r"```text.*?```|^#.*", "", rest, flags=re.S).strip()]
    assert silent == []
