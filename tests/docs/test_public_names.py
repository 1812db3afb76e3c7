"""The public names stay what they are, whatever else is loaded."""

from __future__ import annotations

import pkgutil
import subprocess
import sys

import reenact


def test_no_module_has_the_name_of_something_public() -> None:
    modules = {module.name for module in pkgutil.iter_modules(reenact.__path__)}
    assert modules.isdisjoint(reenact.__all__)


def test_every_public_name_is_there_after_all_modules_are_loaded() -> None:
    code = """
import importlib, pkgutil, reenact
before = {name: getattr(reenact, name) for name in reenact.__all__}
for module in pkgutil.walk_packages(reenact.__path__, "reenact."):
    importlib.import_module(module.name)
assert {name: getattr(reenact, name) for name in reenact.__all__} == before
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
