"""Events as rows: where they stand, what they are about, how long an answer took and what it used."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from onrecord.cli.render.lane_gutter import Gutter, GutterEvent, gutters
from onrecord.cli.render.output import Column, LiveTable, on_terminal, table, terminal_width
from onrecord.cli.render.text import brief, cost_text, duration_text, fit, inert, lane_text, local_time, tokens_text

if TYPE_CHECKING:  # loaded when the command runs
    from onrecord.reports.effects import ReportedEffect
    from onrecord.reports.timelines import SeenEvent

NAME_CELLS = 80
LANE_CELLS = 24
NARROW = 60
_COLOURS = {"ActionFailed": "red", "ActionDenied": "red", "Failed": "red", "Completed": "green", "Cancelled": "yellow"}


def _colour_of_kind(kind: str) -> str:
    return _COLOURS.get(kind) or _COLOURS.get(f"Action{kind}", "cyan")


SEQ, TIME = Column("seq", "bold", right=True), Column("time", "dim", drop=5)
LANE, GUTTER = Column("lane", "dim", drop=6), Column("lanes", "blue", drop=2)
KIND, NAME = Column("kind", _colour_of_kind), Column("name", drop=1, flexible=True)
TOOK, TOKENS = Column("took", "magenta", right=True, drop=3), Column("tokens", right=True, drop=4)
COST, CONTENT = Column("cost", right=True, drop=4), Column("content", flexible=True, least=10)
COLUMNS = (SEQ, TIME, LANE, GUTTER, KIND, NAME, TOOK, TOKENS, COST, CONTENT)
TYPICAL = (
    "99999",
    "00:00:00",
    "fetch#10",
    "●│││",
    "ActionSucceeded",
    "x" * 18,
    "999 ms",
    "99.9k",
    "$0.0000",
    "x" * 120,
)
_WORDS = re.compile("[A-Z][a-z]+")
_SAID_BY_NAMES = ("Action", "Wait")
# What an event is about, by preference: the member shown in a timeline.
_ESSENCE = (
    "payload",
    "output",
    "error",
    "value",
    "resolution",
    "reason",
    "chunk",
    "status",
    "decision",
    "draws",
    "turns",
)


def print_events(events: Sequence[SeenEvent], effects: dict[int, ReportedEffect]) -> None:
    """`effects` by the seq of their answers."""
    drawn = gutters([GutterEvent(one.lane, one.kind) for one in events]) if on_terminal() else [""] * len(events)
    rows = [_cells(one, gutter, effects.get(one.seq)) for one, gutter in zip(events, drawn, strict=True)]
    wanted = [n for n, column in enumerate(COLUMNS) if column not in (GUTTER, TOOK, TOKENS, COST) or _any(rows, n)]
    columns = _columns()
    table([columns[n] for n in wanted], [[row[n] for n in wanted] for row in rows])


def _is_narrow() -> bool:
    return on_terminal() and terminal_width() < NARROW


def _columns() -> tuple[Column, ...]:
    """On a narrow terminal a beginning of a name is better than none."""
    return tuple(one._replace(least=10) if one is NAME and _is_narrow() else one for one in COLUMNS)


def _any(rows: list[list[str]], index: int) -> bool:
    return any(row[index] for row in rows)


class LiveTimeline:
    """The same as events come."""

    def __init__(self) -> None:
        self._gutter = Gutter()
        self._wanted = [n for n, column in enumerate(COLUMNS) if column is not GUTTER or on_terminal()]
        typical = [_kind(text) if COLUMNS[n] is KIND else text for n, text in enumerate(TYPICAL)]
        columns = _columns()
        self._table = LiveTable([columns[n] for n in self._wanted], [typical[n] for n in self._wanted])
        self._is_titled = False

    def add(self, one: SeenEvent, effect: ReportedEffect | None) -> None:
        if not self._is_titled:
            self._table.title()
            self._is_titled = True
        gutter = self._gutter.row(GutterEvent(one.lane, one.kind)) if on_terminal() else ""
        row = _cells(one, gutter, effect)
        self._table.add([row[n] for n in self._wanted])


def _cells(one: SeenEvent, gutter: str, effect: ReportedEffect | None) -> list[str]:
    used = effect.used if effect is not None else None
    return [
        str(one.seq),
        local_time(one.time, "%H:%M:%S") if one.time is not None else "?",
        fit(lane_text(one.lane), LANE_CELLS),
        gutter,
        _kind(one.kind),
        fit(inert(_name(one, effect)), NAME_CELLS),
        duration_text(effect.took_us) if effect is not None else "",
        tokens_text(used.tokens) if used is not None else "",
        cost_text(used.cost) if used is not None else "",
        _content(one),
    ]


def _kind(kind: str) -> str:
    """One word where there is little room, the one that tells kinds apart: the name of an effect says more."""
    words = _WORDS.findall(kind) if _is_narrow() else []
    return inert(words[words[0] in _SAID_BY_NAMES] if len(words) > 1 else kind)


def _name(one: SeenEvent, effect: ReportedEffect | None) -> str:
    name = one.content.get("name") if isinstance(one.content, dict) else None
    if isinstance(name, str):
        return name
    return (effect.name if effect is not None else None) or one.key or ""


def _content(one: SeenEvent) -> str:
    if one.damage is not None:
        return f"DAMAGED: {inert(one.damage)}"
    return "(erased)" if one.erased else essence(one.content)


def essence(content: Any) -> str:
    if isinstance(content, dict):
        for member in _ESSENCE:
            if member in content:
                return brief(content[member])
    return brief(content)
