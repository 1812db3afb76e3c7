"""Probe of `onrecord doctor -- python agent.py`: note unrecorded inputs of the program, with their lines.

Each finding is written at once, as a line of JSON, so the findings of a killed program are kept. Only the program's own
code is watched, not its libraries.
"""

from __future__ import annotations

import builtins
import json
import os
import platform
import socket
import sys
import time
from collections.abc import Callable, Iterator
from dis import opname
from types import FrameType, ModuleType
from typing import Any

from onrecord.capture.draws import is_own_file
from onrecord.capture.interceptors.import_hooks import on_import
from onrecord.capture.unrecorded import guard
from onrecord.runtime.engine.context import current_lane
from onrecord.runtime.replay.python_paths import ONRECORD
from onrecord.runtime.replay.source_lines import line_of

PROBLEM, NOTE = "problem", "note"
INTO_A_STEP = "Read it in a step (`onrecord.run_step`): the result of a step is recorded."
_WATCHED_FUNCTIONS: tuple[tuple[ModuleType, str, str], ...] = (
    (os, "getpid", "the process id"),
    (os, "getppid", "the process id of the parent"),
    (os, "getloadavg", "the load of the machine"),
    (os, "times", "the CPU times of the process"),
    (socket, "gethostname", "the name of the machine"),
    (platform, "node", "the name of the machine"),
    (time, "thread_time", "the CPU time of a thread"),
    (builtins, "id", "the address of an object, which differs in every process"),
)
_LISTINGS = {"os.listdir": "a folder's list of files", "os.scandir": "a folder's list of files"}
_NUMPY_DRAWS = (
    "rand",
    "randn",
    "randint",
    "random",
    "random_sample",
    "choice",
    "shuffle",
    "permutation",
    "normal",
    "uniform",
)
_TORCH_DRAWS = ("rand", "randn", "randint", "randperm", "normal")
_MAX_CHARACTERS = 200
_ENVIRONMENT_FILES = ("<frozen os>", "os.py", "<frozen _collections_abc>", "_collections_abc.py")
"""The code between a program and its variables: `os.getenv`, `os.environ.get`."""


class DoctorProbe:
    def __init__(self, path: str) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._noted: set[tuple[str, str]] = set()
        self._read: dict[str, str] = {}
        self._written: set[str] = set()
        self._iterated = ""
        self._is_noting = False

    def install(self) -> None:
        for module, name, what in _WATCHED_FUNCTIONS:
            setattr(module, name, self._wrap_function(getattr(module, name), what))
        environ: Any = os._Environ
        environ.__getitem__ = self._wrap_environment(environ.__getitem__)
        environ.__iter__ = self._wrap_iteration(environ.__iter__)
        sys.addaudithook(self._audit)
        on_import("numpy.random", self._watch_numpy)
        on_import("torch", self._watch_torch)

    def conclude(self) -> None:
        """Note the unrecorded actions that the guard has counted."""
        for hole, times in guard.holes.items():
            advice = "Use a recorded HTTP client, a tool or a step."
            self.note(PROBLEM, f"{hole.what}, {times:,} times" if times > 1 else hole.what, hole.where, advice)

    def note(self, level: str, what: str, where: str, advice: str) -> None:
        if (what, where) not in self._noted:
            self._noted.add((what, where))
            line = json.dumps({"level": level, "what": what[:_MAX_CHARACTERS], "where": where, "advice": advice})
            os.write(self._descriptor, f"{line}\n".encode())

    def _wrap_function(self, original: Callable[..., Any], what: str) -> Callable[..., Any]:
        def watched(*args: Any, **kwargs: Any) -> Any:
            where = _find_own_line(sys._getframe(1))
            if where and not self._is_noting:
                self.note(PROBLEM, f"{what} ({original.__name__})", where, INTO_A_STEP)
            return original(*args, **kwargs)

        watched.__name__ = original.__name__
        return watched

    def _wrap_environment(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def get_variable(environ: Any, name: Any) -> Any:
            where = "" if name == self._iterated else _find_reading_line(sys._getframe(1))
            if where:
                advice = (
                    "Its value is not recorded: a replay elsewhere may see another. A divergence names changed ones."
                )
                self.note(NOTE, f"the variable {str(name)[:64]}", where, advice)
            return original(environ, name)

        return get_variable

    def _wrap_iteration(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def iterate(environ: Any) -> Iterator[Any]:
            for name in original(environ):
                self._iterated = name  # a read of it is not a read by name
                yield name
            self._iterated = ""

        return iterate

    # Files

    def _audit(self, event: str, args: tuple[Any, ...]) -> None:
        if self._is_noting or event not in ("open", *_LISTINGS):
            return
        self._is_noting = True
        try:
            where = _find_own_line(sys._getframe(1))
            if where and event == "open":
                self._note_open(args, where)
            elif where:
                advice = "Sort it: the order depends on the file system."
                self.note(NOTE, _LISTINGS[event], where, advice)
        finally:
            self._is_noting = False

    def _note_open(self, args: tuple[Any, ...], where: str) -> None:
        path, mode, flags = (*args, None, None, None)[:3]
        if isinstance(path, int) or path is None:
            return
        name = os.path.abspath(os.fsdecode(path))
        if name.endswith((".py", ".pyc")) or name == os.devnull:
            return
        mode = mode if isinstance(mode, str) else ""
        writes = any(letter in mode for letter in "wax+") or bool((flags or 0) & (os.O_WRONLY | os.O_RDWR))
        reads = not writes or "+" in mode or bool((flags or 0) & os.O_RDWR)
        if writes and (name in self._read or "a" in mode):
            what = f"the file {name}, which it reads and then writes" if name in self._read else f"the file {name}"
            advice = "A replay finds what the recorded run left there, not what that run had read."
            level = PROBLEM if name in self._read else NOTE
            self.note(level, what, self._read.get(name, where), advice)
        if reads and name not in self._written:
            self._read.setdefault(name, where)
            self.note(NOTE, f"the file {name}", where, "Its content is not recorded: a replay needs the same file.")
        if writes:
            self._written.add(name)

    # Random numbers that no interceptor records

    def _watch_numpy(self, module: Any) -> None:
        seeded: list[bool] = []
        self._watch_unseeded(module, _NUMPY_DRAWS, "seed", seeded, "numpy.random", "Seed it: numpy.random.seed(…).")
        original_rng = module.default_rng

        def default_rng(seed: Any = None) -> Any:
            where = _find_own_line(sys._getframe(1))
            if seed is None and where:
                self.note(PROBLEM, "numpy.random.default_rng() without a seed", where, "Seed it: default_rng(7).")
            return original_rng(seed)

        module.default_rng = default_rng

    def _watch_torch(self, module: Any) -> None:
        self._watch_unseeded(module, _TORCH_DRAWS, "manual_seed", [], "torch", "Seed it: torch.manual_seed(…).")

    def _watch_unseeded(
        self, module: Any, names: tuple[str, ...], seed: str, seeded: list[bool], title: str, advice: str
    ) -> None:
        def wrap_seed(original: Callable[..., Any]) -> Callable[..., Any]:
            def seed_it(*args: Any, **kwargs: Any) -> Any:
                seeded.append(True)
                return original(*args, **kwargs)

            return seed_it

        def wrap_draw(original: Callable[..., Any], name: str) -> Callable[..., Any]:
            def draw(*args: Any, **kwargs: Any) -> Any:
                where = _find_own_line(sys._getframe(1))
                if where and not seeded:
                    self.note(PROBLEM, f"{title}.{name} without a seed", where, advice)
                return original(*args, **kwargs)

            return draw

        setattr(module, seed, wrap_seed(getattr(module, seed)))
        for name in names:
            if hasattr(module, name):
                setattr(module, name, wrap_draw(getattr(module, name), name))


def _find_reading_line(frame: FrameType | None) -> str:
    """Return the line of the program's own code that reads a variable by name. `dict(os.environ)` reads none."""
    if frame is None or not opname[frame.f_code.co_code[frame.f_lasti]].startswith("BINARY"):
        return ""
    while frame is not None and os.path.basename(frame.f_code.co_filename) in _ENVIRONMENT_FILES:
        frame = frame.f_back
    return _find_own_line(frame) if frame is not None and is_own_file(frame.f_code.co_filename) else ""


def _find_own_line(frame: FrameType | None) -> str:
    """Return the line of the program's own code, in a lane, that calls directly or through the standard library."""
    if current_lane() is None:
        return ""
    while frame is not None:
        file = frame.f_code.co_filename
        if file.startswith("<frozen importlib"):
            return ""
        if not file.startswith("<"):
            if is_own_file(file):
                return line_of(frame)
            if f"{os.sep}site-packages{os.sep}" in file or file.startswith(ONRECORD):
                return ""
        frame = frame.f_back
    return ""
