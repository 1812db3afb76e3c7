"""Record where an agent's code is, and load that code without starting a run.

A run of `python agent.py` records the file, or the module, and the name of its agent: its origin. `onrecord resume`
loads the origin. A file may start runs at module level; while it is loaded, a start raises `StartedWhileLoading`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import Any

_loads = 0
"""The number of files being loaded. A process has one command line, so a counter without a lock is enough."""


class StartedWhileLoading(BaseException):
    """A run was started by code that is only being loaded. Not an `Exception`: user code must not swallow it."""

    def __init__(self, name: str, agent: Any = None) -> None:
        super().__init__(f"a run of {name} was started while its code was loaded")
        self.name = name
        self.agent = agent


@contextmanager
def forbid_starts() -> Iterator[None]:
    """Make every start of a run in this block raise `StartedWhileLoading`."""
    global _loads
    _loads += 1
    try:
        yield
    finally:
        _loads -= 1


def forbid_starts_for_good() -> None:
    """Make every start of a run in this process raise `StartedWhileLoading` from here on: the process only replays."""
    global _loads
    _loads += 1


def refuse_while_loading(name: str, agent: Any = None) -> None:
    """Raise `StartedWhileLoading` inside `forbid_starts`."""
    if _loads:
        raise StartedWhileLoading(name, agent)


def find_origin(agent: Any) -> dict[str, str] | None:
    """Return the file or module of an agent and its name there; None if it cannot be loaded by them."""
    module = sys.modules.get(getattr(agent.function, "__module__", None) or "")
    file = getattr(module, "__file__", None)
    name = _name_in(module, agent) if module is not None else None
    if module is None or name is None or not isinstance(file, str) or not file.endswith(".py"):
        return None
    path, spec = os.path.abspath(file), getattr(module, "__spec__", None)
    if module.__name__ == "__main__" and (spec is None or spec.name == "__main__"):  # a file, or a folder's __main__.py
        return {"file": path, "function": name} if os.path.isfile(path) else None  # a file in an archive: None
    imported = str(spec.name) if spec is not None else module.__name__
    folder = _import_folder(imported, path)
    return {"module": imported, "function": name, "folder": folder} if folder is not None else None


def _name_in(module: ModuleType, agent: Any) -> str | None:
    found: Any = module
    name: str = agent.function.__qualname__
    for part in name.split("."):
        found = getattr(found, part, None)
    if found is agent:
        return name
    return next((name for name, value in vars(module).items() if value is agent), None)


def _import_folder(module: str, path: str) -> str | None:
    """Return the folder from which `import module` finds the file."""
    stem = path.removesuffix(".py").removesuffix(f"{os.sep}__init__")
    tail = os.sep + module.replace(".", os.sep)
    return stem.removesuffix(tail) or os.sep if stem.endswith(tail) else None


def choose_agent(agents: Sequence[Any], origin: Any) -> Any:
    """Return the agent with that origin; else one of a file or module of that name, for code that has moved; else None.

    A run without an origin, and an agent without one, fit every agent of the name.
    """
    if not isinstance(origin, dict) or not origin.keys() & {"file", "module"}:
        return agents[-1]
    recorded = _code_path(origin)
    paths = [[_code_path(own) for own in (find_origin(one), one.origin) if own] or [recorded] for one in agents]
    for part in (0, 1):
        for one, found in zip(agents, paths, strict=True):
            if any(path[part] == recorded[part] for path in found):
                return one
    return None


def _code_path(origin: Mapping[str, str]) -> tuple[str, str]:
    """Return the path of the code without .py, and its last name. A package is named by its folder."""
    parts = [origin.get("folder", ""), *origin["module"].split(".")] if "module" in origin else [origin["file"]]
    path = os.path.realpath(os.path.join(*parts)).removesuffix(".py")
    if os.path.basename(path) in ("__init__", "__main__"):
        path = os.path.dirname(path)
    return path, os.path.basename(path)
