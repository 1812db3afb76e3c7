"""Load the agent that `file.py:function`, `-m module:function` or the facts of a run name.

Facts name code to run. They are followed for runs recorded here and never for imported runs: those facts are foreign
data.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import os
import sys
import traceback
from typing import TYPE_CHECKING, Any, NamedTuple

from onrecord.cli.render.text import fit, inert
from onrecord.errors import InvalidInput, NotFound, OnrecordError, Refused
from onrecord.runtime.api.origins import StartedWhileLoading, forbid_starts
from onrecord.store.location import absolute_path, working_folder

if TYPE_CHECKING:  # loaded when a command runs
    from types import ModuleType

    from onrecord.journal.reader import JournalReader
    from onrecord.runtime.api.agent import Agent

PROGRAM_FAILED = 1
_NAME_PREFIX = "onrecord_loaded_"
"""Put before the module name of a file when another module already has that name."""


class LoadFailed(OnrecordError):
    """Report an error that the program raised while it was loaded."""

    code = "load_failed"
    exit_status = PROGRAM_FAILED
    default_hint = "Run again with -v for its traceback; nothing was recorded."


class Target(NamedTuple):
    """Name an agent's code. `source` is a file's path, or the name of a module that is searched in `folder`."""

    source: str
    function: str | None
    is_module: bool = False
    folder: str = ""

    def origin(self) -> dict[str, str]:
        if self.is_module:
            return {"module": self.source, "function": self.function or "", "folder": self.folder}
        return {"file": self.source, "function": self.function or ""}


def parse_target(text: str, *, is_module: bool = False) -> Target:
    """Parse `agent.py:support`. Without a function the file must define exactly one agent."""
    source, colon, function = text.rpartition(":")
    if not colon:
        source, function = text, ""
    if not source or (function and not all(part.isidentifier() for part in function.split("."))):
        raise InvalidInput(
            f"this does not name an agent: {fit(inert(text), 80)}",
            hint="Write file.py:function, or -m module:function.",
            code="bad_target",
        )
    if is_module:
        return Target(source, function or None, True, working_folder())
    return Target(absolute_path(source), function or None)


def recorded_target(reader: JournalReader) -> Target:
    """Return the target that the run was started with, from its facts. Raise `Refused` for an imported run."""
    if reader.imported:
        raise Refused(
            f"run {reader.run} was recorded elsewhere: the code that it names is never loaded",
            hint=f"Name the code yourself, after the run: {reader.run} file.py:function",
            code="imported_run",
        )
    origin: Any = (reader.facts() or {}).get("origin")
    try:
        if "module" in origin:
            return Target(str(origin["module"]), str(origin["function"]) or None, True, str(origin["folder"]))
        return Target(str(origin["file"]), str(origin["function"]) or None)
    except (KeyError, TypeError):
        parent = reader.header.parent
        is_child = parent is not None and parent.relation == "child"
        advice = f"Run {parent.run} called it: resume that run, or name" if parent and is_child else "Name"
        raise InvalidInput(
            f"run {reader.run} does not record where its code is",
            hint=f"{advice} its code after the run: {reader.run} file.py:function",
            code="no_origin",
        ) from None


def load_agent(target: Target) -> Agent[..., Any]:
    """Load the agent of a target. A plain function is wrapped in an `Agent`."""
    from onrecord.runtime.api.agent import Agent

    module = load_module(target)
    name = target.function or _find_only_agent(module, target)
    function = _find_function(module, target.source, name)
    found: Agent[..., Any] = function if isinstance(function, Agent) else Agent(function)
    found.origin = target._replace(function=name).origin()
    return found


def _find_function(module: ModuleType, source: str, name: str) -> Any:
    from onrecord.runtime.api.agent import Agent

    found = _find_in(module, name)
    if isinstance(found, Agent) or inspect.isfunction(found):
        return found
    raise NotFound(
        f"{source} has no function {name}",
        hint="Check the name after the colon.",
        code="no_agent",
    )


def _find_in(module: ModuleType, name: str) -> Any:
    found: Any = module
    for part in name.split("."):
        found = getattr(found, part, None)
    return found


def _find_only_agent(module: ModuleType, target: Target) -> str:
    found = agents_in(module)
    if len(found) == 1:
        return next(iter(found))
    names = ", ".join(sorted(found)) or "none"
    raise InvalidInput(
        f"{target.source} has {len(found)} agents, not one",
        hint=f"Name one after a colon: {os.path.basename(target.source)}:function (its agents: {names}).",
        code="which_agent",
    )


def agents_in(module: ModuleType) -> dict[str, Agent[..., Any]]:
    from onrecord.runtime.api.agent import Agent

    return {name: value for name, value in vars(module).items() if isinstance(value, Agent)}


def load_module(target: Target) -> ModuleType:
    try:
        with forbid_starts():
            return _import(target) if target.is_module else _run_file(target)
    except StartedWhileLoading as start:
        raise _starts_run(target, start) from None
    except OnrecordError:
        raise
    except Exception as error:
        raise LoadFailed(f"{target.source} failed while it was loaded: {_describe_error(error)}") from error


def _import(target: Target) -> ModuleType:
    if target.folder not in sys.path:
        sys.path.insert(0, target.folder)  # as `python -m` does
    try:
        return importlib.import_module(target.source)
    except ModuleNotFoundError as missing:
        if missing.name is None or not f"{target.source}.".startswith(f"{missing.name}."):
            raise  # the module was found; one that it imports was not
        raise NotFound(
            f"there is no module {target.source}", hint="Check its name and PYTHONPATH.", code="no_module"
        ) from None


def _starts_run(target: Target, start: StartedWhileLoading) -> Refused:
    return Refused(
        f"{target.source} starts a run of {start.name} while it is loaded; nothing was started",
        hint="""Put what starts runs under `if __name__ == "__main__":`, then try again.""",
        code="starts_while_loading",
    )


def _run_file(target: Target) -> ModuleType:
    path = target.source
    if os.path.isdir(path):
        raise NotFound(f"{path} is a folder", hint="Name a file in it, or add a __main__.py to run it.", code="no_file")
    if not os.path.isfile(path):
        raise NotFound(f"there is no file {path}", hint="Check the path.", code="no_file")
    name = os.path.splitext(os.path.basename(path))[0]
    loaded = sys.modules.get(name)
    if loaded is not None:
        if getattr(loaded, "__file__", None) == path:
            return loaded
        name = _NAME_PREFIX + name
    folder = os.path.dirname(path)
    if folder not in sys.path:
        sys.path.insert(0, folder)  # as `python file.py` does
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise InvalidInput(f"{path} is not a Python file", hint="Give a file that ends with .py.", code="bad_target")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # the codec finds classes by the name of their module
    try:
        spec.loader.exec_module(module)
    except StartedWhileLoading as start:
        # The file starts this very agent at module level: the agent ran with what is defined up to there.
        if target.function is None or _find_in(module, target.function) is not start.agent:
            del sys.modules[name]
            raise
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _describe_error(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__) if not isinstance(error, SyntaxError) else []
    # A SyntaxError names its own file and line.
    where = f" at {os.path.basename(frames[-1].filename)}:{frames[-1].lineno}" if frames else ""
    return fit(inert(f"{type(error).__name__}: {error}"), 300) + where
