"""Program as an agent: a script or a module, executed in this process as Python would execute it.

The arguments and the folder are the input of its run, so that a resume or a replay can start it again. The exit code is
its result: `sys.exit` ends a program and does not interrupt it.
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

from onrecord.capture import garbage_collector
from onrecord.capture.commands import run_command
from onrecord.capture.doctor_start import start_probe_if_requested
from onrecord.capture.environment import environment_fact
from onrecord.capture.interceptors import sleep
from onrecord.capture.processes import process_run
from onrecord.capture.processes.exits import exit_forked, print_uncaught
from onrecord.capture.program_task import Program, ReplayTerms
from onrecord.capture.replay_options import apply_options
from onrecord.capture.shutdown import end_program
from onrecord.errors import NotFound
from onrecord.runtime.api.agent import Agent
from onrecord.runtime.api.policy import Budget, Policy, PolicyGuard
from onrecord.runtime.engine.run import LiveRun

_NO_MODULE = "Check its name and PYTHONPATH."


class ProgramAgent(Agent[..., Any]):
    """Agent of a process that runs a program. A replay may run `instead` another program than the recorded one."""

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
        self.spending: PolicyGuard | None = None
        """Counts what the run spends, for the summary. It has no limits."""

    def make_guard(self, parent: PolicyGuard | None = None) -> PolicyGuard | None:
        self.spending = super().make_guard(parent)
        return self.spending

    def execute(self, live: LiveRun, args: Any, kwargs: Any, *, strict: bool = False) -> Any:
        self.live = live
        apply_options(live, self.replaying)
        if process_run.current is not None:
            process_run.current.live = live
            strict = process_run.current.strict
        return super().execute(live, args, kwargs, strict=strict or self.replaying.strict)

    def code(self) -> dict[str, str]:
        """Return the digest of the script. Changes in imported modules do not show here."""
        if self._code is None:
            source = b"" if self.program.is_command else _read_source(self.program)
            digest = hashlib.sha256(source).hexdigest()
            self._code = {"function": self.name, "digest": f"sha256:{digest}"}
        return self._code

    def own_facts(self) -> dict[str, Any]:
        return {**super().own_facts(), "program": self.program.to_fact(), **environment_fact()}


def _run_program(program: Program) -> dict[str, Any]:
    """Run the program as `__main__` and return its exit code, and the text if it exits with one."""
    start_probe_if_requested()
    if program.durable_sleeps:
        sleep.make_durable()
    garbage_collector.resume()  # before the main module exists: its objects must be collected at the end
    code, main = _prepare_main(program)
    sys.modules["__main__"] = main
    if "__mp_main__" in sys.modules:  # the name under which `multiprocessing` may know it
        sys.modules["__mp_main__"] = main
    pid = os.getpid()
    try:
        exec(code, main.__dict__)  # noqa: S102  (the user's own program)
        return _end_main(pid, {"exit": 0})
    except SystemExit as end:
        return _end_main(pid, _exit_result(end.code))
    except BaseException as error:
        if os.getpid() != pid:
            exit_forked(1, error)
        if isinstance(error, Exception):
            print_uncaught(error)
            end_program()
        raise


def _end_main(pid: int, result: dict[str, Any]) -> dict[str, Any]:
    """End the program. A process that the program forked ends here as well, without ending the program's run."""
    if "said" in result:
        print(result["said"], file=sys.stderr)
    if os.getpid() != pid:
        exit_forked(result["exit"])
    end_program()
    return result


def _exit_result(code: Any) -> dict[str, Any]:
    if code is None or isinstance(code, int):
        return {"exit": (code or 0) & 0xFF if not isinstance(code, bool) else int(code)}
    return {"exit": 1, "said": str(code)}  # Python prints it to stderr


def _read_source(program: Program) -> bytes:
    path = _find_source_file(program) if program.is_module else program.path
    if path and os.path.isdir(path):
        path = os.path.join(path, "__main__.py")
    try:
        with open(path or "", "rb") as file:
            return file.read()
    except OSError:
        return b""


def _find_source_file(program: Program) -> str | None:
    """Return the file of a module without importing its packages: their code is part of the program."""
    _add_program_folder(program)
    spec = _find_spec_in(program.path.partition(".")[0], None)
    for name in (*accumulate(program.path.split("."), "{}.{}".format), f"{program.path}.__main__"):
        if name != spec.name and spec.submodule_search_locations is not None:
            spec = _find_spec_in(name, spec.submodule_search_locations)
    return spec.origin


def _find_spec_in(name: str, within: Any) -> importlib.machinery.ModuleSpec:
    finders = (finder for finder in sys.meta_path if hasattr(finder, "find_spec"))
    spec = next((found for finder in finders if (found := finder.find_spec(name, within)) is not None), None)
    if spec is None:
        raise NotFound(f"no runnable module {name[:128]!r}", hint=_NO_MODULE, code="no_module")
    return spec


def _add_program_folder(program: Program) -> None:
    folder = program.cwd or os.getcwd()
    if sys.path[:1] != [folder]:
        sys.path.insert(0, folder)


def _find_module_spec(program: Program) -> importlib.machinery.ModuleSpec:
    """Return the spec of the module, or of a package's `__main__`. Search the program's folder first."""
    _add_program_folder(program)
    try:
        spec = importlib.util.find_spec(program.path)
        if spec is not None and spec.submodule_search_locations is not None:
            spec = importlib.util.find_spec(f"{program.path}.__main__")
    except (ImportError, ValueError) as error:
        raise NotFound(f"no module {program.path[:128]!r}: {error}", hint=_NO_MODULE, code="no_module") from None
    if spec is None or spec.loader is None:
        raise NotFound(f"no runnable module {program.path[:128]!r}", hint=_NO_MODULE, code="no_module")
    return spec


def _prepare_main(program: Program) -> tuple[CodeType, ModuleType]:
    """Return the compiled program and its main module. Set `sys.argv` and `sys.path` as Python does."""
    main = ModuleType("__main__")
    main.__builtins__ = sys.modules["builtins"]  # type: ignore[attr-defined]
    if program.is_module:
        sys.orig_argv = [sys.executable, "-m", program.path, *program.args]
        sys.argv = ["-m", *program.args]  # its packages see this while they are imported
        spec = _find_module_spec(program)
        sys.argv = [spec.origin or program.path, *program.args]
        return _load_spec(spec, program, main)
    path = os.path.abspath(program.path)
    sys.argv = [program.path, *program.args]
    sys.orig_argv = [sys.executable, *sys.argv]
    if not path.endswith(".py") or os.path.isdir(path):
        from onrecord.capture.zipapps import find_main  # seldom needed

        if (found := find_main(path)) is not None:
            sys.path.insert(0, path)
            return _load_spec(found, program, main)
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


def _load_spec(spec: importlib.machinery.ModuleSpec, program: Program, main: ModuleType) -> tuple[CodeType, ModuleType]:
    main.__spec__, main.__file__ = spec, spec.origin or ""
    main.__package__, main.__loader__ = spec.parent, spec.loader
    code = spec.loader.get_code(spec.name)  # type: ignore[union-attr]
    if code is None:
        raise NotFound(f"the module {program.path[:128]!r} has no code of its own", hint=_NO_MODULE, code="no_module")
    return code, main
