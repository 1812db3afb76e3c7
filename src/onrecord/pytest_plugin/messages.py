"""Message of a failing test: the first divergence with both sides, its line, and the command to record again."""

from __future__ import annotations

import os
from types import TracebackType
from typing import Any

from onrecord.analysis.compare.trees import compare_trees
from onrecord.capture.draws import is_own_file
from onrecord.core.codec import encode
from onrecord.errors import InvalidValue, OnrecordError
from onrecord.runtime.engine.stops import Divergence
from onrecord.runtime.replay.divergence import first_difference

MOST_DIFFERENCES = 5
MAX_CHARACTERS = 300
CONTEXT_CHARACTERS = 40
_NOT_COMPARED = frozenset({"action_id", "meta", "name", "effect"})


def failure_text(reason: OnrecordError, *, line: str = "", nearest: Any = None, advice: str = "") -> str:
    """Return the text for a failing test. `line` is a line of the test; `nearest` is the recorded request that is most
    like a request without a record."""
    where = reason.where if isinstance(reason, Divergence) else {}
    lines = [f"{reason.message} [{reason.code}]"]
    if line or where.get("line"):
        file, separator, number = (line or str(where["line"])).rpartition(":")
        lines.append(f"  at {os.path.relpath(file)}{separator}{number}")
    lines += [f"  {one}" for one in _format_sides(where.get("expected", nearest), where.get("actual"))]
    return "\n".join([*lines, *([advice] if advice else [])])


def find_own_line(trace: TracebackType | None) -> str:
    """Return the innermost line of the project's own code, or ""."""
    found = ""
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if is_own_file(file):
            found = f"{file}:{trace.tb_lineno}"
        trace = trace.tb_next
    return found


def _format_sides(expected: Any, actual: Any) -> list[str]:
    expected, actual = _comparable_tree(expected), _comparable_tree(actual)
    if expected is None and actual is None:
        return []
    if expected is None or actual is None:
        label = "recorded" if actual is None else "now"
        return [f"{label}: {_shorten(expected if actual is None else actual)}"]
    try:
        found = compare_trees(expected, actual, limit=MOST_DIFFERENCES)
    except InvalidValue:  # a number that JSON cannot hold: only its path can be named
        return [f"{first_difference(expected, actual)} differs"]
    lines = []
    for one in found.differences:
        before, after = _shorten_pair(one.expected, one.actual)
        lines += [one.path or "/"]
        lines += [f"    recorded: {before}"] if one.kind != "added" else []
        lines += [f"    now:      {after}"] if one.kind != "removed" else []
    if found.total > len(found.differences):
        lines.append(f"… and {found.total - len(found.differences):,} more differences")
    return lines


def _comparable_tree(side: Any) -> Any:
    """Return the content of an event as a tree, without members that are not compared."""
    if side is None:
        return None
    tree = encode(side).tree
    return (
        {name: value for name, value in tree.items() if name not in _NOT_COMPARED} if isinstance(tree, dict) else tree
    )


def _shorten_pair(expected: Any, actual: Any) -> tuple[str, str]:
    """Return both sides, shortened. Long texts are shown around their first difference."""
    if isinstance(expected, str) and isinstance(actual, str) and max(len(expected), len(actual)) > MAX_CHARACTERS:
        shorter = min(len(expected), len(actual))
        index = next((index for index in range(shorter) if expected[index] != actual[index]), shorter)
        return _cut_around(expected, index), _cut_around(actual, index)
    return _shorten(expected), _shorten(actual)


def _cut_around(text: str, index: int) -> str:
    start, stop = max(0, index - CONTEXT_CHARACTERS), index + MAX_CHARACTERS - CONTEXT_CHARACTERS
    return f"{'…' if start else ''}{text[start:stop]!r}{'…' if stop < len(text) else ''}"


def _shorten(value: Any) -> str:
    text = repr(value)  # escapes control characters
    return text if len(text) <= MAX_CHARACTERS else f"{text[: MAX_CHARACTERS - 1]}…"
