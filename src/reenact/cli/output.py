"""Where output goes: data on stdout, everything else on stderr.

With `--json` stdout holds exactly one JSON document, in ASCII, whatever happens: the result, or
`{"error": {"code", "message", "hint"}}`. Tables are drawn by rich on a terminal and are plain aligned text otherwise.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

import click

from reenact.cli.text import cells, fit, inert

GAP = 2
SMALLEST_FLEXIBLE = 16
PLAIN_CELL_CHARACTERS = 200
DEEPEST_JSON = 20_000


class Column(NamedTuple):
    title: str
    style: str = ""
    drop: int = 0
    """On a narrow terminal the column with the highest number goes first; 0 stays."""
    flexible: bool = False
    right: bool = False


def say(text: str = "") -> None:
    """A line of data."""
    click.echo(text)


def note(text: str) -> None:
    """A line that is not data."""
    click.echo(text, err=True)


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


def colourful() -> bool:
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb" and on_terminal()


def on_terminal() -> bool:
    return sys.stdout is not None and sys.stdout.isatty()


def paint(text: str, **style: Any) -> str:
    return click.style(text, **style) if colourful() else text


def terminal_width() -> int:
    return max(20, shutil.get_terminal_size((80, 24)).columns)


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
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    width = terminal_width()
    drawn = Table(box=None, show_edge=False, pad_edge=False, padding=(0, GAP, 0, 0), header_style="dim")
    shown = layout(columns, rows, width)
    for index, room in shown:
        column = columns[index]
        drawn.add_column(
            fit(column.title, room),
            style=column.style,
            width=room,
            no_wrap=True,
            justify="right" if column.right else "left",
        )
    for row in rows:
        drawn.add_row(*(Text(fit(row[index], room)) for index, room in shown))
    console = Console(file=sys.stdout, width=width, no_color=not colourful(), highlight=False, markup=False)
    console.print(drawn)


def layout(columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int) -> list[tuple[int, int]]:
    """Which columns are shown on a terminal and how wide: first some are dropped, then the widest shrink."""
    natural = {
        index: max(cells(column.title), *(cells(row[index]) for row in rows)) for index, column in enumerate(columns)
    }

    def needed(index: int) -> int:
        return min(natural[index], SMALLEST_FLEXIBLE) if columns[index].flexible else natural[index]

    shown = list(natural)
    # rich pads behind the last column too.
    while sum(needed(index) + GAP for index in shown) > width:
        droppable = [index for index in shown if columns[index].drop]
        if not droppable:
            break
        shown.remove(max(droppable, key=lambda index: columns[index].drop))
    widths = {index: needed(index) for index in shown}
    spare = width - sum(widths.values()) - GAP * len(shown)
    for index in (i for i in shown if columns[i].flexible):
        widths[index] += (taken := max(0, min(spare, natural[index] - widths[index])))
        spare -= taken
    while spare < 0 and max(widths.values()) > 1:
        widths[max(widths, key=widths.__getitem__)] -= 1
        spare += 1
    return list(widths.items())
