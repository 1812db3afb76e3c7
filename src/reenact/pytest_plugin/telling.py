"""What a failing test says: the first divergence with both sides, where it is, and what to type."""

from __future__ import annotations

import os
from types import TracebackType
from typing import Any

from reenact.capture.draws import is_own_file
from reenact.core.codec import encode
from reenact.effect.divergences import first_difference
from reenact.effect.stopping import Divergence
from reenact.errors import InvalidValue, ReenactError
from reenact.replays.comparing.trees import compare_trees

MOST_DIFFERENCES = 5
LONGEST = 300
AROUND = 40
_LEFT_OUT = frozenset({"action_id", "meta", "name", "effect"})


def failure_text(reason: ReenactError, *, line: str = "", nearest: Any = None, advice: str = "") -> str:
    """The lines that a failing test shows. `line` is the test's own; `nearest` is the recorded request that is most
    like one that was never recorded."""
    where = reason.where if isinstance(reason, Divergence) else {}
    lines = [f"{reason.message} [{reason.code}]"]
    if line or where.get("line"):
        lines.append(f"  at {_shown_line(line or str(where['line']))}")
    lines += [f"  {one}" for one in _sides(where.get("expected", nearest), where.get("actual"))]
    return "\n".join([*lines, *([advice] if advice else [])])


def own_line(trace: TracebackType | None) -> str:
    """The innermost line of the project's own code; empty if there is none."""
    found = ""
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if is_own_file(file):
            found = f"{file}:{trace.tb_lineno}"
        trace = trace.tb_next
    return found


def _shown_line(line: str) -> str:
    file, separator, number = line.rpartition(":")
    return f"{os.path.relpath(file)}{separator}{number}"


def _sides(expected: Any, actual: Any) -> list[str]:
    expected, actual = _plain(expected), _plain(actual)
    if expected is None and actual is None:
        return []
    if expected is None or actual is None:
        named = "recorded" if actual is None else "now"
        return [f"{named}: {_short(expected if actual is None else actual)}"]
    try:
        found = compare_trees(expected, actual, limit=MOST_DIFFERENCES)
    except InvalidValue:  # a number that no JSON has: there is no more to say than where
        return [f"{first_difference(expected, actual)} differs"]
    lines = []
    for one in found.differences:
        before, after = _pair(one.expected, one.actual)
        lines += [one.path or "/"]
        lines += [f"    recorded: {before}"] if one.kind != "added" else []
        lines += [f"    now:      {after}"] if one.kind != "removed" else []
    if found.total > len(found.differences):
        lines.append(f"… and {found.total - len(found.differences):,} more differences")
    return lines


def _plain(side: Any) -> Any:
    """The content of an event as a tree, without what takes no part in matching."""
    if side is None:
        return None
    tree = encode(side).tree
    return {name: value for name, value in tree.items() if name not in _LEFT_OUT} if isinstance(tree, dict) else tree


def _pair(expected: Any, actual: Any) -> tuple[str, str]:
    """Both sides, each short enough to be read. Long texts are shown around the place where they begin to differ."""
    if isinstance(expected, str) and isinstance(actual, str) and max(len(expected), len(actual)) > LONGEST:
        at = _first_change(expected, actual)
        return _around(expected, at), _around(actual, at)
    return _short(expected), _short(actual)


def _first_change(expected: str, actual: str) -> int:
    shorter = min(len(expected), len(actual))
    return next((at for at in range(shorter) if expected[at] != actual[at]), shorter)


def _around(text: str, at: int) -> str:
    start, stop = max(0, at - AROUND), at + LONGEST - AROUND
    return f"{'…' if start else ''}{text[start:stop]!r}{'…' if stop < len(text) else ''}"


def _short(value: Any) -> str:
    text = repr(value)  # leaves nothing that acts on a terminal
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
