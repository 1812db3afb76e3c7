"""Where output goes: data on stdout, everything else on stderr.

With `--json` stdout holds exactly one JSON document, in ASCII, whatever happens: the result, or
`{"error": {"code", "message", "hint"}}`. Tables fit the terminal, and are plain aligned text where there is none.

Signs of our own that an encoding lacks (…, │, ●) have a plain one of the same width; recorded characters that it lacks
are shown as escapes.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple, TextIO

import click

from onrecord.cli.render.text import cells, fit, inert

GAP = 2
SMALLEST_FLEXIBLE = 16
PLAIN_CELL_CHARACTERS = 200
DEEPEST_JSON = 20_000
NEXT_CELLS = 6
OWN_SIGNS = "…│┃━─●○·→×▶≠›"
_PLAIN_SIGNS = str.maketrans(OWN_SIGNS, "~||=-*o->x>#>")

Style = str | Callable[[str], str]


class Column(NamedTuple):
    title: str
    style: Style = ""
    """Words like `bold` and `red`; or what gives them for a cell."""
    drop: int = 0
    """On a narrow terminal the column with the highest number goes first; 0 stays."""
    flexible: bool = False
    right: bool = False
    least: int = SMALLEST_FLEXIBLE
    """Cells that a flexible column keeps, if it has so many."""


def say(text: str = "") -> None:
    """A line of data."""
    click.echo(writable(text, sys.stdout))


def note(text: str) -> None:
    """A line that is not data."""
    click.echo(writable(text, sys.stderr), err=True)


def writable(text: str, stream: TextIO | None) -> str:
    return text if text.isascii() or has_signs(stream) else text.translate(_PLAIN_SIGNS)


def has_signs(stream: TextIO | None) -> bool:
    """Whether our signs, those of plots among them, can be written there."""
    return _has_signs(getattr(stream, "encoding", None) or "utf-8")


@cache
def _has_signs(encoding: str) -> bool:
    try:
        (OWN_SIGNS + "▁█").encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def suggest(settings: Any, *steps: tuple[str, str]) -> None:
    """What people do next, as commands ready to be typed with what they are for. Only said where somebody looks."""
    if settings.json or sys.stderr is None or not sys.stderr.isatty():
        return
    width = terminal_width()
    fitting = [(command, why) for command, why in steps if len(command) + NEXT_CELLS <= width]
    for number, (command, why) in enumerate(fitting):  # one that is cut off, or torn in two, cannot be copied
        line = f"{'next' if not number else '':<{NEXT_CELLS}}{command}"
        reason = f"   {why}" if len(line) + len(why) + 3 <= width else ""
        note(painted(line + reason, "dim", stream=sys.stderr))


def say_json(value: Any) -> None:
    click.echo(json_text(value))


def json_text(value: Any) -> str:
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, DEEPEST_JSON))  # a recorded value may be nested as deep as Python's default limit
    try:
        return json.dumps(value, indent=2)  # printable ASCII, so nothing in it acts on a terminal
    finally:
        sys.setrecursionlimit(limit)


def value_lines(value: Any) -> list[str]:
    """A value in full for people, as indented JSON, inert line by line."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, DEEPEST_JSON))
    try:
        return [inert(line) for line in json.dumps(value, indent=2, ensure_ascii=False).split("\n")]
    finally:
        sys.setrecursionlimit(limit)


def colourful(stream: TextIO | None = None) -> bool:
    shown = sys.stdout if stream is None else stream
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb" and shown is not None and shown.isatty()


def on_terminal() -> bool:
    return sys.stdout is not None and sys.stdout.isatty()


def paint(text: str, **style: Any) -> str:
    return click.style(text, **style) if colourful() else text


def painted(text: str, style: str, *, stream: TextIO | None = None) -> str:
    """In the style that the words say: attributes and a colour."""
    if not style or not text or not colourful(stream):
        return text
    known: dict[str, Any] = {word: True for word in style.split() if word in _ATTRIBUTES}
    colour = next((word for word in style.split() if word not in _ATTRIBUTES), None)
    return click.style(text, fg=colour, **known)


_ATTRIBUTES = frozenset({"bold", "dim", "underline", "reverse", "strikethrough"})


def terminal_width() -> int:
    return max(20, shutil.get_terminal_size((80, 24)).columns)


def terminal_height() -> int:
    return max(5, shutil.get_terminal_size((80, 24)).lines)


def fields(pairs: Sequence[tuple[str, str]]) -> None:
    """Lines of `name  value`; the values have to be inert."""
    wide = max((len(name) for name, _ in pairs), default=0) + GAP
    for name, value in pairs:
        room = terminal_width() - wide if on_terminal() else sys.maxsize
        say(paint(name.ljust(wide), dim=True) + (value if cells(value) <= room else fit(value, max(room, 8))))


def table(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> None:
    """Rows of cells, which have to be inert."""
    if not rows:
        return
    if on_terminal():
        _on_terminal(columns, rows)
    else:
        _plain(columns, rows)


def _plain(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> None:
    titled = [[column.title.upper() for column in columns], *rows]
    cut = [[fit(cell, PLAIN_CELL_CHARACTERS) for cell in row] for row in titled]
    widths = [max(cells(row[index]) for row in cut) for index in range(len(columns))]
    for row in cut:
        padded = [_padded(cell, width, column.right) for cell, width, column in zip(row, widths, columns, strict=True)]
        say((" " * GAP).join(padded).rstrip())


def _padded(cell: str, width: int, right: bool) -> str:
    space = " " * (width - cells(cell))
    return space + cell if right else cell + space


def _on_terminal(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> None:
    shown = layout(columns, rows, terminal_width())
    say(_drawn([column._replace(style="dim") for column in columns], [column.title for column in columns], shown))
    for row in rows:
        say(_drawn(columns, row, shown))


def _drawn(columns: Sequence[Column], row: Sequence[str], shown: Sequence[tuple[int, int]]) -> str:
    """A row in columns of these widths."""
    drawn = []
    for index, room in shown:
        column = columns[index]
        cell = fit(row[index], room)
        space = " " * (room - cells(cell)) if column.right or index != shown[-1][0] else ""
        cell = painted(cell, column.style if isinstance(column.style, str) else column.style(cell))
        drawn.append(space + cell if column.right else cell + space)
    return (" " * GAP).join(drawn)


class LiveTable:
    """Rows as they come: columns are as wide as a typical row needs, since nobody knows the next one."""

    def __init__(self, columns: Sequence[Column], typical: Sequence[str]) -> None:
        self._columns = columns
        width = terminal_width() if on_terminal() else sum(map(cells, typical)) + GAP * len(columns)
        self._shown = layout(columns, [typical], width)
        if not on_terminal():  # nothing is cut off that somebody may look for
            self._shown[-1] = (self._shown[-1][0], PLAIN_CELL_CHARACTERS)

    def title(self) -> None:
        columns = [column._replace(style="dim") for column in self._columns]
        say(_drawn(columns, [column.title for column in columns], self._shown))

    def add(self, row: Sequence[str]) -> None:
        say(_drawn(self._columns, row, self._shown))


def layout(columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int) -> list[tuple[int, int]]:
    """Which columns are shown on a terminal and how wide: first some are dropped, then the widest shrink."""
    natural = {
        index: max(cells(column.title), *(cells(row[index]) for row in rows)) for index, column in enumerate(columns)
    }

    def needed(index: int) -> int:
        return min(natural[index], columns[index].least) if columns[index].flexible else natural[index]

    shown = list(natural)
    while sum(needed(index) + GAP for index in shown) - GAP > width:
        droppable = [index for index in shown if columns[index].drop]
        if not droppable:
            break
        shown.remove(max(droppable, key=lambda index: columns[index].drop))
    widths = {index: needed(index) for index in shown}
    spare = width - sum(widths.values()) - GAP * (len(shown) - 1)
    for index in (i for i in shown if columns[i].flexible):
        widths[index] += (taken := max(0, min(spare, natural[index] - widths[index])))
        spare -= taken
    while spare < 0 and max(widths.values()) > 1:
        widths[max(widths, key=widths.__getitem__)] -= 1
        spare += 1
    return list(widths.items())
