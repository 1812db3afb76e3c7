"""Records of a program's commands, input and files (docs/format.md, section 7.2)."""

from __future__ import annotations

from typing import Any

from onrecord.core.cuts import CUT_FROM_BYTES, cut_bytes
from onrecord.core.shapes import (
    Shape,
    is_count,
    is_data,
    is_hash,
    is_integer,
    is_text,
    is_true,
    list_of,
    object_of,
    one_of,
)

COMMAND = "command"
"""The effect kind of a child process that is not a recorded Python program."""
INPUT = "input"
"""The effect kind of a read of the program's own input."""

is_byte_sum = Shape({"size": is_count, "digest": is_hash})
"""Bytes by their number and their artifact address."""


def write_content(data: bytes) -> str | bytes | list[bytes]:
    """Return the content of a file as it is recorded: as text, bytes, or pieces that versions of the file share."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return data if len(data) <= CUT_FROM_BYTES else cut_bytes(data)


def read_content(content: str | bytes | list[bytes]) -> bytes:
    """Return the bytes of a recorded content of a file."""
    if isinstance(content, str):
        return content.encode("utf-8")
    return content if isinstance(content, bytes) else b"".join(content)


def _is_content(value: Any) -> bool:
    return is_data(value) or (type(value) is list and all(type(piece) is bytes for piece in value))


_VERSIONS: dict[str, Shape] = {
    "absent": Shape({}),
    "file": Shape(
        {"mode": is_count, "size": is_count},
        {
            **{"digest": is_hash, "commitment": is_hash, "secret": is_true},
            **{"content": _is_content, "mtime": is_integer, "unsteady": is_true},
        },
    ),
    "folder": Shape({"mode": is_count}, {"names": list_of(is_data), "mtime": is_integer}),
    "link": Shape({"target": is_data}),
    "other": Shape({"mode": is_count}),
    "big": Shape({"mode": is_count, "size": is_count}, {"digest": is_hash, "mtime": is_integer}),
}


def is_version(value: Any) -> bool:
    """Return True for a version of a path: its kind and the members of that kind."""
    if type(value) is not dict or type(value.get("kind")) is not str:
        return False
    shape = _VERSIONS.get(value["kind"])
    if shape is None or not shape(value):
        return False
    return value["kind"] != "file" or len({"digest", "commitment", "secret"} & value.keys()) == 1


def is_changed_version(value: Any) -> bool:
    """Return True for a version in an outcome. Members that differ between equal runs are in the event's `meta`."""
    return is_version(value) and {"mtime", "commitment"}.isdisjoint(value)


is_look = Shape(
    {
        **{"path": is_data, "look": one_of("open", "stat", "list", "link", "database")},
        **{"version": is_version, "cause": one_of("first", "other")},
    },
    {"lane": is_text, "ordinal": is_count},
)
is_written_file = Shape({"path": is_data, "version": is_version})

_command_request = Shape(
    {"cwd": is_data, "streams": object_of(one_of("none", "pipe", "tty", "file", "inherited"))},
    {
        **{"argv": list_of(is_data), "shell": is_data, "environment": list_of(is_data)},
        **{"input": is_data, "session": is_true},
    },
)


def is_command_request(value: Any) -> bool:
    """Return True for the payload of a command: a list of words or the text of a shell, and where it starts."""
    return _command_request(value) and ("argv" in value) != ("shell" in value)


is_command_start = Shape({"pid": is_count, "started": is_count})
is_command_chunk = Shape(
    {"stream": is_text, "data": is_data}, {"direction": one_of("from", "to"), "taken": is_byte_sum}
)
is_command_outcome = Shape(
    {"status": is_integer, "output": object_of(is_byte_sum)},
    {
        **{"changed": list_of(Shape({"path": is_data, "version": is_changed_version}, {"cause": is_text}))},
        **{"input": is_byte_sum, "signals": list_of(is_count), "cut": is_true},
    },
)
is_input_request = Shape({"how": one_of("line", "bytes", "keys", "ready")}, {"prompt": is_data})
is_input_outcome = Shape({"data": is_data}, {"eof": is_true, "interrupt": is_true})
