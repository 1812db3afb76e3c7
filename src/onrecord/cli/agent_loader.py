"""Finding an agent: `file.py:function`, `-m module:function`, or where the facts of a run say that it was started.

A run recorded here is started again by what its facts say; an imported one never: its facts are a stranger's, and
would name code to run.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import os
import sys
import traceback
from typing import TYPE_CHECKING, Any, NamedTuple

from reenact.cli.text import fit, inert
from reenact.errors import InvalidInput, NotFound, ReenactError, Refused
from reenact.store.locating import absolute_path, working_folder

if TYPE_CHECKING:  # loaded when a command runs
    from types import ModuleType

    from reenact.effect.agents import Agent
    from reenact.journal.reader import JournalReader

PROGRAM_FAILED = 1
_OTHER_NAME = "reenact_loaded_"


class LoadFailed(ReenactError):
    """The program itself failed while it was loaded."""

    code = "load_failed"
    exit_status = PROGRAM_FAILED
    default_hint = "Run again with -v for its traceback; nothing was recorded."


class Target(NamedTuple):
    """Where an agent is. `place` is a file's path, or a module's name with the folder it is looked for in."""

    place: str
    function: str | None
    is_module: bool = False
    folder: str = ""

    def origin(self) -> dict[str, str]:
        if self.is_module:
            return {"module": self.place, "function": self.function or "", "folder": self.folder}
        return {"file": self.place, "function": self.function or ""}


def parse_target(text: str, *, is_module: bool = False) -> Target:
    """`agent.py:support`. Without a function the file has to have exactly one agent."""
    place, colon, function = text.rpartition(":")
    if not colon:
        place, function = text, ""
    if not place or (function and not all(part.isidentifier() for part in function.split("."))):
        raise InvalidInput(
            f"not a place of an agent: {fit(inert(text), 80)}",
            hint="Write file.py:function, or -m module:function.",
            code="bad_target",
        )
    if is_module:
        return Target(place, function or None, True, working_folder())
    return Target(absolute_path(place), function or None)


def recorded_target(reader: JournalReader) -> Target:
    """How the run was started, by its own word."""
    if reader.imported:
        raise Refused(
            f"run {reader.run} was recorded elsewhere: what it says about its code is not followed",
            hint=f"Name the code yourself, behind the run: {reader.run} file.py:function",
            code="imported_run",
        )
    origin: Any = (reader.facts() or {}).get("origin")
    try:
        if "module" in origin:
            return Target(str(origin["module"]), str(origin["function"]) or None, True, str(origin["folder"]))
        return Target(str(origin["file"]), str(origin["function"]) or None)
    except (KeyError, TypeError):
        parent = reader.header.parent
        called = parent is not None and parent.relation == "child"
        name_it = f"It was called by run {parent.run}: go on with that one, or name" if parent and called else "Name"
        raise InvalidInput(
            f"run {reader.run} does not tell where its code is",
            hint=f"{name_it} its code behind the run: {reader.run} file.py:function",
            code="no_origin",
        ) from None


def load_agent(target: Target) -> Agent[..., Any]:
    """The agent there; a plain function is made one."""
    from reenact.effect.agents import Agent

    module = load_module(target)
    name = target.function or _the_only_one(module, target)
    function = _named(module, target.place, name)
    found: Agent[..., Any] = function if isinstance(function, Agent) else Agent(function)
    found.origin = target._replace(function=name).origin()
    return found


def _named(module: ModuleType, place: str, name: str) -> Any:
    from reenact.effect.agents import Agent

    found: Any = module
    for part in name.split("."):
        found = getattr(found, part, None)
    if isinstance(found, Agent) or inspect.isfunction(found):
        return found
    raise NotFound(
        f"{place} has no function {name}",
        hint="Check the name behind the colon.",
        code="no_agent",
    )


def _the_only_one(module: ModuleType, target: Target) -> str:
    found = agents_in(module)
    if len(found) == 1:
        return next(iter(found))
    names = ", ".join(sorted(found)) or "none"
    raise InvalidInput(
        f"{target.place} has {len(found)} agents, not one",
        hint=f"Name it behind a colon: {os.path.basename(target.place)}:function (agents there: {names}).",
        code="which_agent",
    )


def agents_in(module: ModuleType) -> dict[str, Agent[..., Any]]:
    from reenact.effect.agents import Agent

    return {name: value for name, value in vars(module).items() if isinstance(value, Agent)}


def load_module(target: Target) -> ModuleType:
    try:
        return _import(target) if target.is_module else _run_file(target.place)
    except ReenactError:
        raise
    except Exception as error:
        raise LoadFailed(f"{target.place} failed while it was loaded: {_in_a_line(error)}") from error


def _import(target: Target) -> ModuleType:
    if target.folder not in sys.path:
        sys.path.insert(0, target.folder)  # as `python -m` does
    try:
        return importlib.import_module(target.place)
    except ModuleNotFoundError as missing:
        if missing.name is None or not f"{target.place}.".startswith(f"{missing.name}."):
            raise  # one that the program needs
        raise NotFound(
            f"there is no module {target.place}", hint="Check its name and PYTHONPATH.", code="no_module"
        ) from None


def _run_file(path: str) -> ModuleType:
    if not os.path.isfile(path):
        raise NotFound(f"there is no file {path}", hint="Check the path.", code="no_file")
    name = os.path.splitext(os.path.basename(path))[0]
    loaded = sys.modules.get(name)
    if loaded is not None:
        if getattr(loaded, "__file__", None) == path:
            return loaded
        name = _OTHER_NAME + name
    folder = os.path.dirname(path)
    if folder not in sys.path:
        sys.path.insert(0, folder)  # as `python file.py` does
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise InvalidInput(f"{path} is not a Python file", hint="Give a file that ends with .py.", code="bad_target")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # classes are found again by the name of their module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _in_a_line(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__) if not isinstance(error, SyntaxError) else []  # it tells itself
    where = f" at {os.path.basename(frames[-1].filename)}:{frames[-1].lineno}" if frames else ""
    return fit(inert(f"{type(error).__name__}: {error}"), 300) + where
