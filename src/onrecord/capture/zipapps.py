"""Folders and archives of Python code, which Python runs by their `__main__`. Few programs are one."""

from __future__ import annotations

import os
import sys
from importlib.machinery import ModuleSpec
from typing import Any

from onrecord.errors import NotFound


def find_main(path: str) -> ModuleSpec | None:
    """Return the spec of the `__main__` in a folder or archive, or None for a script."""
    finder = _find_path_finder(os.path.abspath(path))
    if finder is None:
        return None
    spec: ModuleSpec | None = finder.find_spec("__main__")
    if spec is None or spec.loader is None:
        raise NotFound(
            f"there is no __main__ in {path[:200]}",
            hint="Add a __main__.py: Python runs a folder or an archive by it.",
            code="no_file",
        )
    return spec


def _find_path_finder(path: str) -> Any:
    for hook in sys.path_hooks:
        try:
            return hook(path)
        except ImportError:
            continue
    return None
