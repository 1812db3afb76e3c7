"""Folders and archives of Python code, which Python runs by the `__main__` in them. Few programs are one."""

from __future__ import annotations

import os
import sys
from importlib.machinery import ModuleSpec
from typing import Any

from reenact.errors import NotFound


def main_in(path: str) -> ModuleSpec | None:
    """None: it is a script."""
    finder = _finder(os.path.abspath(path))
    if finder is None:
        return None
    spec: ModuleSpec | None = finder.find_spec("__main__")
    if spec is None or spec.loader is None:
        raise NotFound(
            f"there is no __main__ in {path[:200]}",
            hint="A folder or an archive is run by its __main__.py.",
            code="no_file",
        )
    return spec


def _finder(path: str) -> Any:
    for hook in sys.path_hooks:
        try:
            return hook(path)
        except ImportError:
            continue
    return None
