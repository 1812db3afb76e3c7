"""The shape of the source tree: names that mean one thing, modules that are nouns, packages that say what they hold."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import defaultdict

import pytest

from kit.paths import ROOT

SOURCE = ROOT / "src" / "onrecord"
MODULES = sorted(SOURCE.rglob("*.py"))
GERUNDS = {"testing", "hashing", "matching", "packing"}


pytestmark = pytest.mark.usefixtures("collected")


def test_a_module_is_a_noun() -> None:
    names = {part for path in MODULES for part in path.relative_to(SOURCE).with_suffix("").parts}
    assert {name for name in names if name.endswith("ing")} <= GERUNDS


def test_a_class_name_means_one_thing() -> None:
    homes = defaultdict(list)
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                homes[node.name].append(f"{path.relative_to(SOURCE)}:{node.lineno}")
    assert {name: places for name, places in homes.items() if len(places) > 1} == {}


def test_every_package_says_what_it_holds() -> None:
    packages = [path for path in MODULES if path.name == "__init__.py"]
    assert [str(path) for path in packages if not ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))] == []


def test_the_old_name_is_in_the_changelog_alone() -> None:
    found = subprocess.run(["git", "grep", "-il", "re" + "enact"], cwd=ROOT, capture_output=True, text=True)
    if found.returncode > 1:
        pytest.skip(f"not a git checkout: {found.stderr.strip()}")
    assert found.stdout.split() == ["CHANGELOG.md"]


def test_words_stay_below_their_ceilings() -> None:
    checked = subprocess.run([sys.executable, "tools/words.py"], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert checked.returncode == 0, checked.stdout + checked.stderr
