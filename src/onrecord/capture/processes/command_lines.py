"""Predict what a command line starts: a Python that will be recorded, or something else."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from onrecord.core.lazy_regex import Pattern

_PYTHON = Pattern(r"python(\d+(\.\d+)?t?)?\Z|pypy")
_SHELL_SYNTAX = Pattern(r"[;|&<>$`()*?\[\]{}~#\n\\]")
_WITHOUT_HOOK = frozenset("IES")
"""Options with which Python ignores its environment or the start hook."""
_WITH_VALUE = frozenset("WX")
_MAX_SHEBANG = 256
_MOST_WORDS = 100


class CommandLine(NamedTuple):
    words: tuple[str, ...]
    why_unrecorded: str | None
    """Why it will not be recorded; None for a Python that will be."""
    is_found: bool = True
    """True if the program was found. Otherwise the system reports the error to the caller."""

    @property
    def name(self) -> str:
        return os.path.basename(self.words[0]) if self.words else ""


def parse_command(
    args: Any, *, executable: Any = None, shell: bool = False, environment: Mapping[Any, Any] | None = None
) -> CommandLine:
    """Return the command line for arguments of `subprocess.Popen`."""
    words = _decode_words(args)
    if shell:
        text = words[0] if words else ""
        if _SHELL_SYNTAX.search(text):
            return CommandLine(tuple(text.split()[:_MOST_WORDS]) or ("sh",), "it is a shell script")
        try:
            words = tuple(shlex.split(text)) or ("sh",)
        except ValueError:
            return CommandLine(("sh",), "it is a shell script")
    program = os.fsdecode(executable) if executable is not None and not shell else words[0] if words else ""
    path = (environment if environment is not None else os.environ).get("PATH", os.defpath)
    from shutil import which  # loaded with the first process

    found = which(program, path=os.fsdecode(path))
    is_found = found is not None or shell or os.sep in program
    return CommandLine(words[:_MOST_WORDS], _find_why_unrecorded(found, words), is_found)


def _decode_words(args: Any) -> tuple[str, ...]:
    if isinstance(args, (str, bytes, os.PathLike)):
        return (os.fsdecode(args),)
    try:
        return tuple(os.fsdecode(word) for word in args)
    except TypeError:
        return ()


def _find_why_unrecorded(found: str | None, words: Sequence[str]) -> str | None:
    options = list(words[1:])
    if found is not None and not _PYTHON.match(os.path.basename(found)):
        interpreter = _read_shebang(found)
        if not interpreter:
            return "it is not Python"
        from shutil import which

        found, options = which(interpreter[0]) or interpreter[0], list(interpreter[1:])
    if found is None or not _PYTHON.match(os.path.basename(found)):
        return "it is not Python"
    if not _is_this_python(found):
        return "it is another Python"
    return _find_option_without_hook(options)


def _is_this_python(interpreter: str) -> bool:
    """Return True for the Python of this environment. A virtual environment is recognized by its folder."""
    folder = os.path.dirname(os.path.abspath(interpreter))
    return os.path.samefile(interpreter, sys.executable) and (
        folder == os.path.dirname(os.path.abspath(sys.executable)) or sys.prefix == sys.base_prefix
    )


def _read_shebang(path: str) -> list[str]:
    try:
        with open(path, "rb") as file:
            line = file.readline(_MAX_SHEBANG)
    except OSError:
        return []
    words = os.fsdecode(line[2:]).split() if line.startswith(b"#!") else []
    if words and os.path.basename(words[0]) == "env":
        words = [word for word in words[1:] if word != "-S"]
    return words


def _find_option_without_hook(options: Sequence[str]) -> str | None:
    index = 0
    while index < len(options) and options[index].startswith("-") and options[index] not in ("-", "--"):
        letters = options[index][1:]
        if letters.startswith("-"):
            index += 1
            continue
        for column, letter in enumerate(letters):
            if letter in _WITHOUT_HOOK:
                return f"it is started with -{letter}"
            if letter in "cm":
                return None
            if letter in _WITH_VALUE:
                index += column == len(letters) - 1
                break
        index += 1
    return None
