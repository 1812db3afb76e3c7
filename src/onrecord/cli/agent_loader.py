"""Load the agent that `file.py:function`, `-m module:function` or the facts of a run name.

Facts name code to run. They are followed for runs recorded here and never for imported runs: those facts are foreign
data.
"""

from __future__ import annotations

import importlib.util
import inspect
import os
import sys
import threading
import traceback
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from onrecord.cli.render.output import note
from onrecord.cli.render.text import fit, inert
from onrecord.core.codec.registry import name_script
from onrecord.errors import InvalidInput, NotFound, OnrecordError, Refused
from onrecord.runtime.api.origins import StartedWhileLoading, forbid_starts
from onrecord.store.location import absolute_path, working_folder

if TYPE_CHECKING:  # loaded when a command runs
    from importlib.machinery import ModuleSpec
    from types import ModuleType

    from onrecord.journal.reader import JournalReader
    from onrecord.runtime.api.agent import Agent

PROGRAM_FAILED = 1
_NAME_PREFIX = "onrecord_loaded_"
"""Put before the module name of a file when another module already has that name."""
_MAIN_GUARD = """`if __name__ == "__main__":`"""


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


def name_as_recorded(reader: JournalReader, agent: Agent[..., Any]) -> None:
    """Find the classes of the run's code in the code that the user named, which may have another name."""
    origin: Any = (reader.facts() or {}).get("origin")
    if isinstance(origin, dict) and not reader.imported:
        name = str(origin.get("module", "")) or _module_name(str(origin.get("file", "")))
        name_script(agent.function.__module__, name)


def load_agent(target: Target, module: ModuleType | None = None) -> Agent[..., Any]:
    """Load the agent of a target. A plain function is wrapped in an `Agent`."""
    from onrecord.runtime.api.agent import Agent

    module = module or load_module(target)
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
    raise NotFound(f"{source} has no function {name}", hint="Check the name after the colon.", code="no_agent")


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
    _report_starts_of_threads()
    try:
        with forbid_starts():
            module = _import(target) if target.is_module else _run_file(target)
    except StartedWhileLoading as start:
        raise starts_run(target.source, start) from None
    except OnrecordError:
        raise
    except SystemExit as exiting:
        raise _ends_program(target, exiting) from None
    except Exception as error:
        raise LoadFailed(f"{target.source} failed while it was loaded: {_describe_error(error)}") from error
    name_script(module.__name__, target.source if target.is_module else _module_name(target.source))
    return module


def load_beside(target: Target, others: dict[Target, ModuleType]) -> ModuleType:
    """Load a module and add it to the others. Raise `Refused` if one of them would use modules of another."""
    _refuse_clash(target, others, None)
    module = load_module(target)
    _refuse_clash(target, others, module)
    others[target] = module
    return module


def _refuse_clash(target: Target, others: dict[Target, ModuleType], module: ModuleType | None) -> None:
    for other, beside in others.items():
        named = {target.source, other.source}
        folders = {one.folder or os.path.dirname(one.source) for one in (target, other)}
        is_twin = module is not None and len(named) == 2 and len({os.path.basename(one) for one in named}) == 1
        clashes = [f"class {name}" for name in _own_classes(module) & _own_classes(beside)] if is_twin else []
        for name, one in dict(sys.modules).items() if len(folders) == 2 else ():
            file = getattr(one, "__file__", None) or ""
            found = {_file_of(folder, name) for folder in folders} if file.startswith(tuple(folders)) else {None}
            if file in found and None not in found and not found - {file} <= named:
                clashes.append(f"module {name}")
        if clashes:
            raise Refused(
                f"{other.source} and {target.source} each have their own {clashes[0]}: one process cannot load both",
                hint="Start one command for each file.",
                code="module_clash",
            )


def _file_of(folder: str, module: str) -> str | None:
    """Return the file that `import module` would load from the folder, or None."""
    place = os.path.join(folder, *module.split("."))
    return next((file for file in (os.path.join(place, "__init__.py"), f"{place}.py") if os.path.isfile(file)), None)


def _own_classes(module: Any) -> set[str]:
    return {name for name, one in vars(module).items() if isinstance(one, type) and one.__module__ == module.__name__}


def _module_name(path: str) -> str:
    return os.path.splitext(os.path.basename(path))[0]


def _import(target: Target) -> ModuleType:
    if target.folder not in sys.path:
        sys.path.insert(0, target.folder)  # as `python -m` does
    name, was_loaded = target.source, target.source in sys.modules
    try:
        spec = getattr(sys.modules[name], "__spec__", None) if was_loaded else importlib.util.find_spec(name)
    except ModuleNotFoundError as missing:
        if missing.name is None or not f"{name}.".startswith(f"{missing.name}."):
            raise  # the module was found; one that it imports was not
        spec = None
    if spec is None and not was_loaded:
        raise NotFound(f"there is no module {name}", hint="Check its name and PYTHONPATH.", code="no_module")
    file, wanted = (spec.origin if spec is not None else None) or "", _file_of(target.folder, name)
    if wanted is not None and not (os.path.exists(file) and os.path.samefile(file, wanted)):
        raise Refused(
            f"the module {name} is {file or 'built in'} here, not {wanted}",
            hint=f"Name the file instead of the module: {wanted}:function",
            code="other_module",
        )
    module = sys.modules[name] if was_loaded or spec is None else _execute(spec, target)
    parent, _, child = name.rpartition(".")
    if parent:
        setattr(sys.modules[parent], child, module)  # as an import does
    return module


def starts_run(source: str, start: StartedWhileLoading) -> Refused:
    return Refused(
        f"{source} starts a run of {start.name}, but is only loaded or replayed; nothing was started",
        hint=f"Put what starts runs under {_MAIN_GUARD}, then try again.",
        code="starts_while_loading",
    )


def _ends_program(target: Target, exiting: SystemExit) -> LoadFailed:
    frames = traceback.extract_tb(exiting.__traceback__)
    own = [frame for frame in frames if os.path.basename(frame.filename) != "argparse.py"]
    what, cause = f"ends the program while it is loaded: SystemExit({exiting.code!r})", "what ends it"
    if own != frames:
        what, cause = "parses a command line while it is loaded", "the parser"
    message = fit(inert(f"{target.source} {what}"), 300) + _where(own)
    return LoadFailed(message, hint=f"Put {cause} under {_MAIN_GUARD}, then try again.")


def _report_starts_of_threads() -> None:
    """Print two lines instead of a traceback if a thread of loaded code starts a run."""
    before = threading.excepthook

    def report_start(failed: threading.ExceptHookArgs) -> None:
        if isinstance(failed.exc_value, StartedWhileLoading):
            refused = starts_run("a thread of the loaded code", failed.exc_value)
            note(f"error: {inert(refused.message)} [{refused.code}]\n{refused.hint}")
        else:
            before(failed)

    if getattr(before, "__name__", "") != "report_start":
        threading.excepthook = report_start


def _run_file(target: Target) -> ModuleType:
    path = target.source
    if os.path.isdir(path):
        raise NotFound(f"{path} is a folder", hint="Name a file in it, or add a __main__.py to run it.", code="no_file")
    if not os.path.isfile(path):
        raise NotFound(f"there is no file {path}", hint="Check the path.", code="no_file")
    name = _module_name(path)
    while (loaded := sys.modules.get(name)) is not None:
        if getattr(loaded, "__file__", None) == path and name not in ("__main__", "__mp_main__"):
            return loaded
        name = _NAME_PREFIX + name
    folder = os.path.dirname(path)
    if folder not in sys.path:
        sys.path.insert(0, folder)  # as `python file.py` does
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise InvalidInput(f"{path} is not a Python file", hint="Give a file that ends with .py.", code="bad_target")
    return _execute(spec, target)


def _execute(spec: ModuleSpec, target: Target) -> ModuleType:
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # the codec finds classes by the name of their module
    try:
        if spec.loader is not None:  # a folder without __init__.py has none
            spec.loader.exec_module(module)
    except StartedWhileLoading as start:
        # The file starts this very agent at module level: the agent ran with what is defined up to there.
        if target.function is None or _find_in(module, target.function) is not start.agent:
            del sys.modules[spec.name]
            raise
    except BaseException:
        del sys.modules[spec.name]
        raise
    return module


def _describe_error(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__) if not isinstance(error, SyntaxError) else []
    # A SyntaxError names its own file and line.
    return fit(inert(f"{type(error).__name__}: {error}"), 300) + _where(frames)


def _where(frames: Sequence[traceback.FrameSummary]) -> str:
    return f" at {os.path.basename(frames[-1].filename)}:{frames[-1].lineno}" if frames else ""
