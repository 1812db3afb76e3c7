"""Start `onrecord run SCRIPT ARGS…` and `onrecord run -m MODULE ARGS…` without loading the command line.

A recorded program needs a second start, for its hash seed, so the first one loads almost nothing: no `click`, no
`typing`, no task classes. Every other form, and every mistake, is left to the command itself (`commands.run`).
"""

from __future__ import annotations

import os
import sys

from onrecord.errors import OnrecordError
from onrecord.store.location import absolute_url, default_url

RUN_ID_BYTES = 10
SEED_BYTES = 4
_TASK = "ONRECORD_CAPTURE"
"""Equal to `capture.task.VARIABLE`, which takes longer to load."""
_FLAGS = {"--strict": "strict", "--durable-sleeps": "durable_sleeps"}
_STORE, _MODULE, _INPUT = "--store", "-m", "--input"


def new_run_id() -> str:
    return os.urandom(RUN_ID_BYTES).hex()


def hash_seed() -> int:
    """Return PYTHONHASHSEED where it is set (some programs need it), else a random seed."""
    given = os.environ.get("PYTHONHASHSEED", "")
    return int(given) if given.isdecimal() else int.from_bytes(os.urandom(SEED_BYTES), "big") or 1


def start_at_once(arguments: list[str]) -> None:
    """Replace this process by the program. Return if the arguments need the full command line."""
    words = _words(arguments)
    if words is None:
        return
    try:
        environment = _environment(*words)
        flush()
        os.execve(sys.executable, [sys.executable, "-P", "-m", "onrecord.capture.entry"], environment)  # noqa: S606
    except (OnrecordError, OSError, UnicodeEncodeError):
        return  # the command fails the same way, and prints it


def restart_with_seed(seed: int) -> None:
    """Replace this process by the same command with that hash seed. Return if it has it."""
    if os.environ.get("PYTHONHASHSEED") != str(seed):
        flush()
        arguments = [sys.executable, "-P", "-m", "onrecord", *sys.argv[1:]]
        os.execve(sys.executable, arguments, {**os.environ, "PYTHONHASHSEED": str(seed)})  # noqa: S606


def flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:  # a daemon has closed them
            stream.flush()


def is_script(target: str) -> bool:
    """Return True for a file without `:function` after it, and for a folder with a `__main__.py`."""
    return target.endswith(".py") or (os.path.isfile(target) and ":" not in target) or is_folder_of_code(target)


def is_folder_of_code(target: str) -> bool:
    return os.path.isfile(os.path.join(target, "__main__.py"))


def _words(arguments: list[str]) -> tuple[dict[str, str], str, list[str], bool] | None:
    """Return the options, the program, its arguments and whether it is a module; None for any other command."""
    if arguments[:1] != ["run"] or _INPUT in arguments:
        return None
    options: dict[str, str] = {}
    position = 1
    while position < len(arguments):
        word, name = arguments[position], arguments[position].partition("=")[0]
        if word in _FLAGS:
            options[_FLAGS[word]] = "true"
            position += 1
            continue
        following = arguments[position + 1] if position + 1 < len(arguments) else ""
        if name == _STORE:
            value = following if word == _STORE else word[len(_STORE) + 1 :]
            if not value or value.startswith("-"):
                return None
            options["store"] = value
            position += 2 if word == _STORE else 1
        elif word == _MODULE:
            is_plain = following and not following.startswith("-") and ":" not in following
            return (options, following, arguments[position + 2 :], True) if is_plain else None
        else:
            is_plain = not word.startswith("-") and is_script(word) and os.path.isfile(word)
            return (options, word, arguments[position + 1 :], False) if is_plain else None
    return None


def _environment(options: dict[str, str], path: str, args: list[str], is_module: bool) -> dict[str, str]:
    """Return the environment that `ProgramTask.to_environment` would return."""
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
    """Return the text as a JSON string."""
    if text.isascii() and text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    import json  # loaded for unusual text only

    text.encode()  # raises for lone surrogates, which JSON cannot hold
    return json.dumps(text)
