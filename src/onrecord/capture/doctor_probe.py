"""What a program looks at that no seam sees, noted with its line: for `reenact doctor -- python agent.py`.

Each thing is written down when it is met, as a line of JSON, so that a program that is killed has told it, too. Only
the program's own code is watched: what the libraries it uses look at is theirs.
"""

from __future__ import annotations

import builtins
import json
import os
import platform
import socket
import sys
import time
from collections.abc import Callable
from types import FrameType, ModuleType
from typing import Any

from reenact.capture.draws import is_own_file
from reenact.capture.guard import guard
from reenact.capture.seams.hooks import on_import
from reenact.effect.lanes import Lane
from reenact.effect.places import PLACE
from reenact.effect.source_lines import line_of

PROBLEM, NOTE = "problem", "note"
INTO_A_STEP = "Take it in a step (`reenact.run_step`), whose result is recorded."
_NAMED: tuple[tuple[ModuleType, str, str], ...] = (
    (os, "getpid", "the number of the process"),
    (os, "getppid", "the number of the parent process"),
    (os, "getloadavg", "the load of the machine"),
    (os, "times", "the times of the process"),
    (socket, "gethostname", "the name of the machine"),
    (platform, "node", "the name of the machine"),
    (time, "thread_time", "the time that a thread took"),
    (builtins, "id", "the address of an object, which is another in every process"),
)
_LISTINGS = {"os.listdir": "a folder's list of files", "os.scandir": "a folder's list of files"}
_NUMPY = (
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
_TORCH = ("rand", "randn", "randint", "randperm", "normal")
_SHOWN = 200


class Witness:
    def __init__(self, path: str) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._seen: set[tuple[str, str]] = set()
        self._read: dict[str, str] = {}
        self._written: set[str] = set()
        self._is_noting = False

    def install(self) -> None:
        for module, name, what in _NAMED:
            setattr(module, name, self._watched(getattr(module, name), what))
        environ: Any = os._Environ
        environ.__getitem__ = self._environment(environ.__getitem__)
        sys.addaudithook(self._audited)
        on_import("numpy.random", self._numpy)
        on_import("torch", self._torch)

    def conclude(self) -> None:
        """What the guard has counted."""
        for hole, times in guard.holes.items():
            advice = "Let it go through a seam (an HTTP client), or into a tool or a step."
            self.note(PROBLEM, f"{hole.what}, {times:,} times" if times > 1 else hole.what, hole.where, advice)

    def note(self, level: str, what: str, where: str, advice: str) -> None:
        if (what, where) not in self._seen:
            self._seen.add((what, where))
            line = json.dumps({"level": level, "what": what[:_SHOWN], "where": where, "advice": advice})
            os.write(self._descriptor, f"{line}\n".encode())

    def _watched(self, original: Callable[..., Any], what: str) -> Callable[..., Any]:
        def watched(*args: Any, **kwargs: Any) -> Any:
            where = _own_line(sys._getframe(1))
            if where and not self._is_noting:
                self.note(PROBLEM, f"{what} ({original.__name__})", where, INTO_A_STEP)
            return original(*args, **kwargs)

        watched.__name__ = original.__name__
        return watched

    def _environment(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def looked_up(environ: Any, name: Any) -> Any:
            where = _own_line(sys._getframe(1))
            if where:
                advice = "It is not recorded: a replay elsewhere has another one. A changed one is named when it parts."
                self.note(NOTE, f"the variable {str(name)[:64]}", where, advice)
            return original(environ, name)

        return looked_up

    # Files

    def _audited(self, event: str, args: tuple[Any, ...]) -> None:
        if self._is_noting or event not in ("open", *_LISTINGS):
            return
        self._is_noting = True
        try:
            where = _own_line(sys._getframe(1))
            if where and event == "open":
                self._opened(args, where)
            elif where:
                advice = "Sort it: the order is that of the file system."
                self.note(NOTE, _LISTINGS[event], where, advice)
        finally:
            self._is_noting = False

    def _opened(self, args: tuple[Any, ...], where: str) -> None:
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
            advice = "What one run leaves there another finds: a replay has not what the recorded run had."
            level = PROBLEM if name in self._read else NOTE
            self.note(level, what, self._read.get(name, where), advice)
        if reads and name not in self._written:
            self._read.setdefault(name, where)
            self.note(NOTE, f"the file {name}", where, "It is not recorded: a replay needs it as it was.")
        if writes:
            self._written.add(name)

    # Chance that no seam sees

    def _numpy(self, module: Any) -> None:
        seeded: list[bool] = []
        self._unseeded(module, _NUMPY, "seed", seeded, "numpy.random", "Seed it: numpy.random.seed(…).")
        made = module.default_rng

        def default_rng(seed: Any = None) -> Any:
            where = _own_line(sys._getframe(1))
            if seed is None and where:
                self.note(PROBLEM, "numpy.random.default_rng() without a seed", where, "Seed it: default_rng(7).")
            return made(seed)

        module.default_rng = default_rng

    def _torch(self, module: Any) -> None:
        self._unseeded(module, _TORCH, "manual_seed", [], "torch", "Seed it: torch.manual_seed(…).")

    def _unseeded(
        self, module: Any, names: tuple[str, ...], seed: str, seeded: list[bool], title: str, advice: str
    ) -> None:
        def seeds(original: Callable[..., Any]) -> Callable[..., Any]:
            def seed_it(*args: Any, **kwargs: Any) -> Any:
                seeded.append(True)
                return original(*args, **kwargs)

            return seed_it

        def draws(original: Callable[..., Any], name: str) -> Callable[..., Any]:
            def draw(*args: Any, **kwargs: Any) -> Any:
                where = _own_line(sys._getframe(1))
                if where and not seeded:
                    self.note(PROBLEM, f"{title}.{name} without a seed", where, advice)
                return original(*args, **kwargs)

            return draw

        setattr(module, seed, seeds(getattr(module, seed)))
        for name in names:
            if hasattr(module, name):
                setattr(module, name, draws(getattr(module, name), name))


def _own_line(frame: FrameType | None) -> str:
    """The line of the program's own code that has this done, directly or through Python's own modules, in a lane."""
    if type(PLACE.get()) is not Lane:
        return ""
    while frame is not None:
        file = frame.f_code.co_filename
        if file.startswith("<frozen importlib"):
            return ""
        if not file.startswith("<"):
            if is_own_file(file):
                return line_of(frame)
            if f"{os.sep}site-packages{os.sep}" in file or file.startswith(_OURS):
                return ""
        frame = frame.f_back
    return ""


_OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
