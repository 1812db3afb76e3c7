"""A program as an agent: a script or a module, run to its end in this process, as Python itself would run it.

What it was called with, and where, is the input of its run, so that whoever resumes or replays it can start it again.
Its exit code is its result: `sys.exit` is how programs end, not how they are interrupted.
"""

from __future__ import annotations

import hashlib
import importlib.machinery
import importlib.util
import io
import os
import sys
from itertools import accumulate
from types import CodeType, ModuleType
from typing import Any

import msgspec

from reenact.capture import collecting
from reenact.capture.commands import run_command
from reenact.capture.environment import environment_fact
from reenact.capture.equipment import equip
from reenact.capture.processes import own_run
from reenact.capture.processes.ending import leave, tell_uncaught
from reenact.capture.replaying import prepare
from reenact.capture.seams import sleeping
from reenact.capture.terms import Program, ReplayTerms
from reenact.capture.winding_down import wind_down
from reenact.capture.witness_terms import watch_if_asked
from reenact.effect.agents import Agent
from reenact.effect.live_run import LiveRun
from reenact.effect.policy import Budget, Guard, Policy
from reenact.errors import NotFound

_NO_MODULE = "Check its name and PYTHONPATH."


class ProgramAgent(Agent[..., Any]):
    """The one agent of a process that runs a program. A replay may be of another one than was recorded."""

    redacts_by_default = True

    def __init__(self, program: Program, *, instead: Program | None = None, **options: Any) -> None:
        def run(program: dict[str, Any]) -> dict[str, Any]:
            recorded = msgspec.convert(program, Program)
            return run_command(recorded, instead) if recorded.is_command else _run_program(instead or recorded)

        kind = "command" if program.is_command else "program"
        super().__init__(run, name=f"{kind} {program.name}", policy=Policy(budget=Budget()), **options)
        self.program = instead or program
        self.live: LiveRun | None = None
        self.replaying = ReplayTerms()
        self.spending: Guard | None = None
        """What its run has spent: nothing limits it, but it is told."""

    def guard(self, above: Guard | None = None) -> Guard | None:
        self.spending = super().guard(above)
        return self.spending

    def carried(self, live: LiveRun, args: Any, kwargs: Any, *, strict: bool = False) -> Any:
        self.live = live
        prepare(live, self.replaying)
        if own_run.own is not None:
            own_run.own.live = live
        return super().carried(live, args, kwargs, strict=strict)

    def code(self) -> dict[str, str]:
        """That of the script: what it imports may change without being named."""
        if self._code is None:
            source = b"" if self.program.is_command else _source(self.program)
            digest = hashlib.sha256(source).hexdigest()
            self._code = {"function": self.name, "digest": f"sha256:{digest}"}
        return self._code

    def own_facts(self) -> dict[str, Any]:
        return {**super().own_facts(), "program": msgspec.to_builtins(self.program), **environment_fact()}


def _run_program(program: Program) -> dict[str, Any]:
    """Runs it as `__main__`, and gives its exit code and, where it was text, what it said with it."""
    equip()
    watch_if_asked()
    if program.durable_sleeps:
        sleeping.make_durable()
    collecting.go_on()  # before there is a module: what it holds is let go of at the end, like that of any program
    code, main = _prepared(program)
    sys.modules["__main__"] = main
    if "__mp_main__" in sys.modules:  # what `multiprocessing` knows it by, if it was there before
        sys.modules["__mp_main__"] = main
    pid = os.getpid()
    try:
        exec(code, main.__dict__)  # noqa: S102  (the user's own program, which is what we were asked to run)
        return _ended(pid, {"exit": 0})
    except SystemExit as end:
        return _ended(pid, _exit(end.code))
    except BaseException as error:
        if os.getpid() != pid:
            leave(1, error)
        if isinstance(error, Exception):
            tell_uncaught(error)
            wind_down()
        raise


def _ended(pid: int, result: dict[str, Any]) -> dict[str, Any]:
    """What the program forked ends here, like the program: but it is not the program's run that has ended."""
    if "said" in result:
        print(result["said"], file=sys.stderr)
    if os.getpid() != pid:
        leave(result["exit"])
    wind_down()
    return result


def _exit(code: Any) -> dict[str, Any]:
    if code is None or isinstance(code, int):
        return {"exit": (code or 0) & 0xFF if not isinstance(code, bool) else int(code)}
    return {"exit": 1, "said": str(code)}  # Python prints it to stderr


def _source(program: Program) -> bytes:
    path = _origin(program) if program.is_module else program.path
    if path and os.path.isdir(path):
        path = os.path.join(path, "__main__.py")
    try:
        with open(path or "", "rb") as file:
            return file.read()
    except OSError:
        return b""


def _origin(program: Program) -> str | None:
    """The file of a module. The packages that it is in are not run for that: they are part of the program."""
    _look_where_it_is_run(program)
    spec = _found(program.path.partition(".")[0], None)
    for name in (*accumulate(program.path.split("."), "{}.{}".format), f"{program.path}.__main__"):
        if name != spec.name and spec.submodule_search_locations is not None:
            spec = _found(name, spec.submodule_search_locations)
    return spec.origin


def _found(name: str, within: Any) -> importlib.machinery.ModuleSpec:
    finders = (finder for finder in sys.meta_path if hasattr(finder, "find_spec"))
    spec = next((found for finder in finders if (found := finder.find_spec(name, within)) is not None), None)
    if spec is None:
        raise NotFound(f"no module {name[:128]!r} that could be run", hint=_NO_MODULE, code="no_module")
    return spec


def _look_where_it_is_run(program: Program) -> None:
    folder = program.cwd or os.getcwd()
    if sys.path[:1] != [folder]:
        sys.path.insert(0, folder)


def _spec(program: Program) -> importlib.machinery.ModuleSpec:
    """A package is run by its `__main__`. It is looked for where the program is run, first of all."""
    _look_where_it_is_run(program)
    try:
        spec = importlib.util.find_spec(program.path)
        if spec is not None and spec.submodule_search_locations is not None:
            spec = importlib.util.find_spec(f"{program.path}.__main__")
    except (ImportError, ValueError) as error:
        raise NotFound(f"no module {program.path[:128]!r}: {error}", hint=_NO_MODULE, code="no_module") from None
    if spec is None or spec.loader is None:
        raise NotFound(f"no module {program.path[:128]!r} that could be run", hint=_NO_MODULE, code="no_module")
    return spec


def _prepared(program: Program) -> tuple[CodeType, ModuleType]:
    """The compiled program and its module, with `sys.argv` and `sys.path` as Python would set them."""
    main = ModuleType("__main__")
    main.__builtins__ = sys.modules["builtins"]  # type: ignore[attr-defined]
    if program.is_module:
        sys.orig_argv = [sys.executable, "-m", program.path, *program.args]
        sys.argv = ["-m", *program.args]  # for the packages that it is in
        spec = _spec(program)
        sys.argv = [spec.origin or program.path, *program.args]
        return _of_spec(spec, program, main)
    path = os.path.abspath(program.path)
    sys.argv = [program.path, *program.args]
    sys.orig_argv = [sys.executable, *sys.argv]
    if not path.endswith(".py") or os.path.isdir(path):
        from reenact.capture.containers import main_in  # for what is seldom

        if (found := main_in(path)) is not None:
            sys.path.insert(0, path)
            return _of_spec(found, program, main)
    sys.path.insert(0, os.path.dirname(os.path.realpath(path)))
    main.__file__ = path
    main.__loader__ = importlib.machinery.SourceFileLoader("__main__", path)
    main.__annotations__, main.__dict__["__cached__"] = {}, None
    try:
        with io.open_code(path) as file:
            source = file.read()
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise NotFound(f"cannot read {program.path[:200]}: {reason}", code="no_file") from None
    return compile(source, path, "exec", dont_inherit=True), main


def _of_spec(spec: importlib.machinery.ModuleSpec, program: Program, main: ModuleType) -> tuple[CodeType, ModuleType]:
    main.__spec__, main.__file__ = spec, spec.origin or ""
    main.__package__, main.__loader__ = spec.parent, spec.loader
    code = spec.loader.get_code(spec.name)  # type: ignore[union-attr]
    if code is None:
        raise NotFound(f"the module {program.path[:128]!r} has no code of its own", hint=_NO_MODULE, code="no_module")
    return code, main
