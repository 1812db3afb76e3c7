"""The public names stay what they are, whatever else is loaded."""

from __future__ import annotations

import pkgutil
import subprocess
import sys

import onrecord


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
