"""What a command line starts, as far as that can be told before: a Python that will be recorded, or something else."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from reenact.core.lazy_patterns import Pattern

_PYTHON = Pattern(r"python(\d+(\.\d+)?t?)?\Z|pypy")
_SHELL_SYNTAX = Pattern(r"[;|&<>$`()*?\[\]{}~#\n\\]")
_WITHOUT_HOOK = frozenset("IES")
"""Options with which Python does not look at its environment, or does not load the start hook."""
_WITH_VALUE = frozenset("WX")
_LONGEST_SHEBANG = 256
_MOST_WORDS = 100


class CommandLine(NamedTuple):
    words: tuple[str, ...]
    why_unseen: str | None
    """Why no run is expected of it; None: it is a Python like this one."""
    is_there: bool = True
    """The program was found: whoever starts one that is not there is told so by the system."""

    @property
    def name(self) -> str:
        return os.path.basename(self.words[0]) if self.words else ""


def command_line(
    args: Any, *, executable: Any = None, shell: bool = False, environment: Mapping[Any, Any] | None = None
) -> CommandLine:
    """As `subprocess.Popen` is given it."""
    words = _words(args)
    if shell:
        text = words[0] if words else ""
        if _SHELL_SYNTAX.search(text):
            return CommandLine(tuple(text.split()[:_MOST_WORDS]) or ("sh",), "it is a script of the shell")
        try:
            words = tuple(shlex.split(text)) or ("sh",)
        except ValueError:
            return CommandLine(("sh",), "it is a script of the shell")
    program = os.fsdecode(executable) if executable is not None and not shell else words[0] if words else ""
    path = (environment if environment is not None else os.environ).get("PATH", os.defpath)
    from shutil import which  # with the first process that is started

    found = which(program, path=os.fsdecode(path))
    is_there = found is not None or shell or os.sep in program
    return CommandLine(words[:_MOST_WORDS], _why_unseen(found, words), is_there)


def _words(args: Any) -> tuple[str, ...]:
    if isinstance(args, (str, bytes, os.PathLike)):
        return (os.fsdecode(args),)
    try:
        return tuple(os.fsdecode(word) for word in args)
    except TypeError:
        return ()


def _why_unseen(found: str | None, words: Sequence[str]) -> str | None:
    options = list(words[1:])
    if found is not None and not _PYTHON.match(os.path.basename(found)):
        interpreter = _shebang(found)
        if not interpreter:
            return "it is no Python"
        from shutil import which

        found, options = which(interpreter[0]) or interpreter[0], list(interpreter[1:])
    if found is None or not _PYTHON.match(os.path.basename(found)):
        return "it is no Python"
    if not _is_ours(found):
        return "it is another Python"
    return _option_without_hook(options)


def _is_ours(interpreter: str) -> bool:
    """The Python of this environment: a virtual one is told by its folder, whatever its link points to."""
    folder = os.path.dirname(os.path.abspath(interpreter))
    return os.path.samefile(interpreter, sys.executable) and (
        folder == os.path.dirname(os.path.abspath(sys.executable)) or sys.prefix == sys.base_prefix
    )


def _shebang(path: str) -> list[str]:
    try:
        with open(path, "rb") as file:
            line = file.readline(_LONGEST_SHEBANG)
    except OSError:
        return []
    words = os.fsdecode(line[2:]).split() if line.startswith(b"#!") else []
    if words and os.path.basename(words[0]) == "env":
        words = [word for word in words[1:] if word != "-S"]
    return words


def _option_without_hook(options: Sequence[str]) -> str | None:
    place = 0
    while place < len(options) and options[place].startswith("-") and options[place] not in ("-", "--"):
        letters = options[place][1:]
        if letters.startswith("-"):
            place += 1
            continue
        for at, letter in enumerate(letters):
            if letter in _WITHOUT_HOOK:
                return f"it is started with -{letter}"
            if letter in "cm":
                return None
            if letter in _WITH_VALUE:
                place += at == len(letters) - 1
                break
        place += 1
    return None
