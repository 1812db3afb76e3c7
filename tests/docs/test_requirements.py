"""Check that `make test` installs what the tests import; in a fresh environment they are not collected otherwise."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
OWN_PACKAGES = {"onrecord", "bench", "situations", "tests", "tools"}
PROGRAMS = ROOT / "tests" / "frameworks" / "programs"
"""They run in environments of their own."""
INSTALLED_WITH = {"urllib3": "requests"}


@pytest.mark.usefixtures("collected")
def test_everything_that_tests_import_is_installed_for_them() -> None:
    distributions = packages_distributions()
    installed = set(_installed_for_tests())
    missing = {
        f"{module}, imported by {path.relative_to(ROOT)}"
        for path in (ROOT / "tests").rglob("*.py")
        if path.parent != PROGRAMS
        for module in _foreign_imports(path)
        if not installed & {_normal(name) for name in distributions.get(module, [module])}
    }
    assert not missing, "\n".join(sorted(missing))


def _foreign_imports(path: Path) -> Iterator[str]:
    """Yield the modules imported at the top of a file. A later import may report what is missing."""
    for statement in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(statement, ast.Import):
            names = [one.name for one in statement.names]
        elif isinstance(statement, ast.ImportFrom) and not statement.level:
            names = [statement.module or ""]
        else:
            continue
        for name in (one.partition(".")[0] for one in names):
            if name not in _own_modules() | OWN_PACKAGES | sys.stdlib_module_names:
                yield INSTALLED_WITH.get(name, name)


@cache
def _own_modules() -> set[str]:
    return {one.stem for one in (ROOT / "tests").rglob("*.py")} | {one.name for one in (ROOT / "tests").glob("*/")}


def _installed_for_tests() -> Iterator[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"]["postgres"]]
    wanted += (ROOT / "requirements-dev.txt").read_text(encoding="utf-8").splitlines()
    for line in wanted:
        if name := re.match(r"[\w.-]+", line):
            yield _normal(name[0])


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_the_page_of_frameworks_names_the_versions_that_are_installed() -> None:
    page = (ROOT / "docs" / "evidence" / "frameworks.md").read_text(encoding="utf-8")
    named = dict(re.findall(r"`([\w-]+)` (?:\| )?≥\s([\d.]*\d)", page))
    required = dict(re.findall(r"^([\w-]+)>=([\d.]+)", (ROOT / "requirements-dev.txt").read_text(), re.MULTILINE))
    assert len(named) >= 15
    assert {name: required.get(name) for name in named} == named
