"""`reenact run SCRIPT ARGS…` and `reenact run -m MODULE ARGS…`, said in the simplest way, start at once.

A recorded program takes a second start, for the hash seed, so the first one loads next to nothing: no `click`, no
`typing`, nothing that describes a task. Whatever is said in another way or is wrong is left to the command itself
(`running`), which also has the words for it.
"""

from __future__ import annotations

import os
import sys

from reenact.errors import ReenactError
from reenact.store.locating import absolute_url, default_url

RUN_ID_BYTES = 10
SEED_BYTES = 4
_TASK = "REENACT_CAPTURE"
"""As `capture.terms` has it, which takes longer to load."""
_FLAGS = {"--strict": "strict", "--durable-sleeps": "durable_sleeps"}
_STORE, _MODULE, _INPUT = "--store", "-m", "--input"


def new_run_id() -> str:
    return os.urandom(RUN_ID_BYTES).hex()


def hash_seed() -> int:
    """The user's own, where one is set: some programs need it."""
    given = os.environ.get("PYTHONHASHSEED", "")
    return int(given) if given.isdecimal() else int.from_bytes(os.urandom(SEED_BYTES), "big") or 1


def start_at_once(arguments: list[str]) -> None:
    """This process becomes the program. Returns if it is not for this function to start it."""
    words = _words(arguments)
    if words is None:
        return
    try:
        environment = _environment(*words)
        flush()
        os.execve(sys.executable, [sys.executable, "-P", "-m", "reenact.capture.entry"], environment)  # noqa: S606
    except (ReenactError, OSError, UnicodeEncodeError):
        return  # the same happens to the command, which tells it


def flush() -> None:
    """Whoever closed them, as daemons do, has none."""
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()


def is_script(target: str) -> bool:
    """A file, without a function behind a colon, or a folder that Python runs as it does a file."""
    return target.endswith(".py") or (os.path.isfile(target) and ":" not in target) or is_folder_of_code(target)


def is_folder_of_code(target: str) -> bool:
    return os.path.isfile(os.path.join(target, "__main__.py"))


def _words(arguments: list[str]) -> tuple[dict[str, str], str, list[str], bool] | None:
    """The options, the program, its arguments, and whether it is a module; None: this is something else."""
    if arguments[:1] != ["run"] or _INPUT in arguments:
        return None
    options: dict[str, str] = {}
    place = 1
    while place < len(arguments):
        word, name = arguments[place], arguments[place].partition("=")[0]
        if word in _FLAGS:
            options[_FLAGS[word]] = "true"
            place += 1
            continue
        behind = arguments[place + 1] if place + 1 < len(arguments) else ""
        if name == _STORE:
            value = behind if word == _STORE else word[len(_STORE) + 1 :]
            if not value or value.startswith("-"):
                return None
            options["store"] = value
            place += 2 if word == _STORE else 1
        elif word == _MODULE:
            is_plain = behind and not behind.startswith("-") and ":" not in behind
            return (options, behind, arguments[place + 2 :], True) if is_plain else None
        else:
            is_plain = not word.startswith("-") and is_script(word) and os.path.isfile(word)
            return (options, word, arguments[place + 1 :], False) if is_plain else None
    return None


def _environment(options: dict[str, str], path: str, args: list[str], is_module: bool) -> dict[str, str]:
    """What `Task.to_environment` would make of it."""
    seed = str(hash_seed())
    program = {
        "path": _text(path),
        "args": f"[{','.join(map(_text, args))}]",
        "cwd": _text(os.getcwd()),
        "is_module": "true" if is_module else "false",
        "durable_sleeps": options.get("durable_sleeps", "false"),
        "hash_seed": seed,
    }
    task = {
        "program": _object(program),
        "run": _text(new_run_id()),
        "mode": _text("record"),
        "store": _text(absolute_url(options.get("store") or default_url(read_only=True))),
        "strict": options.get("strict", "false"),
    }
    return {**os.environ, _TASK: _object(task), "PYTHONHASHSEED": seed}


def _object(members: dict[str, str]) -> str:
    return "{" + ",".join(f'"{name}":{value}' for name, value in members.items()) + "}"


def _text(text: str) -> str:
    """As JSON."""
    if text.isascii() and text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    import json  # for unusual texts

    text.encode()  # what is no text at all is not for JSON
    return json.dumps(text)
