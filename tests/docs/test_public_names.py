"""The public names stay what they are, whatever else is loaded."""

from __future__ import annotations

import ast
import pkgutil
import subprocess
import sys
from pathlib import Path

import onrecord


def test_type_checkers_know_each_public_name_from_its_module() -> None:
    stub = ast.parse(Path(onrecord.__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
    imports = [node for node in stub.body if isinstance(node, ast.ImportFrom)]
    known = {alias.name: node.module for node in imports for alias in node.names}
    assert known == onrecord._MODULE_OF
    assert all(alias.asname == alias.name for node in imports for alias in node.names), "re-exported"


def test_no_module_has_the_name_of_something_public() -> None:
    modules = {module.name for module in pkgutil.iter_modules(onrecord.__path__)}
    assert modules.isdisjoint(onrecord.__all__)


def test_every_public_name_is_there_after_all_modules_are_loaded() -> None:
    code = """
import importlib, pkgutil, onrecord
before = {name: getattr(onrecord, name) for name in onrecord.__all__}
for module in pkgutil.walk_packages(onrecord.__path__, "onrecord."):
    importlib.import_module(module.name)
assert {name: getattr(onrecord, name) for name in onrecord.__all__} == before
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
