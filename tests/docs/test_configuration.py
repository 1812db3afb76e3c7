"""docs/reference/configuration.md names every variable, setting and extra of the code, and no other."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "onrecord"
PAGE = (ROOT / "docs" / "reference" / "configuration.md").read_text(encoding="utf-8")
VARIABLE = re.compile(r"\b_?ONRECORD_[A-Z]+(?:_[A-Z]+)*\b")


def test_every_variable_is_named() -> None:
    found = {name for path in SOURCE.rglob("*.py") for name in VARIABLE.findall(path.read_text(encoding="utf-8"))}
    assert set(VARIABLE.findall(PAGE)) == found


def test_every_setting_of_the_pytest_plugin_is_named() -> None:
    options = (SOURCE / "pytest_plugin" / "options.py").read_text(encoding="utf-8")
    assert set(re.findall(r"`(onrecord_\w+)`", PAGE)) == set(re.findall(r'addini\(\s*"(\w+)"', options))


def test_every_extra_is_named() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    section = PAGE.partition("## Extras")[2]
    assert set(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)) == set(project["optional-dependencies"])


def test_every_kind_of_store_is_named() -> None:
    factory = (SOURCE / "store" / "factory.py").read_text(encoding="utf-8")
    for scheme in re.findall(r'scheme == "(\w+)"', factory):
        assert f"`{scheme}://" in PAGE
