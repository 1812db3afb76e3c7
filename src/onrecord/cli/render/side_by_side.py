"""Two texts beside each other, or one under the other where the terminal is narrow, with the words that differ marked.

Lines are aligned first; of lines that changed, those are put beside each other that are most alike. What is the same
and far from any difference is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count, zip_longest
from typing import Literal, NamedTuple

from onrecord.cli.render.output import painted, say
from onrecord.cli.render.styled_text import Line, Piece, compared_by_words, drawn, marked, width_of, wrapped
from onrecord.cli.render.text import count_text, fit

NARROWEST_OF_TWO = 100
AROUND = 2
MATRIX = 2_500
"""Pairs of lines that are looked at for their likeness."""
ALIKE = 0.3
SAMPLE = 400

Kind = Literal["same", "changed", "removed", "added", "left out"]
_SIGNS: dict[str, str] = {"same": "│", "changed": "≠", "removed": "<", "added": ">", "left out": "│"}
_DIFFERENT = frozenset({"changed", "removed", "added"})


class LinePair(NamedTuple):
    """A line of either side; None where a side has none."""

    kind: Kind
    left: Line | None
    right: Line | None


def paired_lines(left: Sequence[str], right: Sequence[str]) -> list[LinePair]:
    """Two texts of inert lines beside each other."""
    from onrecord.analysis.compare.sequence_alignment import align, find_hunks

    numbers: dict[str, int] = {}
    fresh = count()
    a, b = ([numbers.setdefault(line, next(fresh)) for line in side] for side in (left, right))
    pairs: list[LinePair] = []
    at = 0
    for hunk in find_hunks(align(a, b), len(a), len(b)):
        pairs += [LinePair("same", [Piece(line)], [Piece(line)]) for line in left[at : hunk.start]]
        pairs += _changed(left[hunk.start : hunk.stop], right[hunk.other_start : hunk.other_stop])
        at = hunk.stop
    pairs += [LinePair("same", [Piece(line)], [Piece(line)]) for line in left[at:]]
    return list(_without_the_same(pairs))


def _changed(left: Sequence[str], right: Sequence[str]) -> Iterator[LinePair]:
    i = j = 0
    for at, other_at in [*_alike(left, right), (len(left), len(right))]:
        yield from (LinePair("removed", [Piece(line, "red")], None) for line in left[i:at])
        yield from (LinePair("added", None, [Piece(line, "green")]) for line in right[j:other_at])
        if at < len(left):
            diff = compared_by_words(left[at], right[other_at])
            ours, theirs = (list(marked(diff, kinds=("equal", kind))) for kind in ("removed", "added"))
            yield LinePair("changed", ours, theirs)
        i, j = at + 1, other_at + 1


def _alike(left: Sequence[str], right: Sequence[str]) -> list[tuple[int, int]]:
    """Lines taken for each other, in order, so that they are as alike as can be."""
    if len(left) * len(right) > MATRIX:
        return [(n, n) for n in range(min(len(left), len(right)))]
    from onrecord.analysis.compare.sequence_alignment import pair_best

    return pair_best([[_likeness(one, other) for other in right] for one in left])


def _likeness(one: str, other: str) -> float:
    """How many words of their beginnings are the same; nothing where that is little. Members of one name are alike."""
    words, others = set(one[:SAMPLE].split()), set(other[:SAMPLE].split())
    share = 2 * len(words & others) / ((len(words) + len(others)) or 1)
    return share if share >= ALIKE else 0.0


def _without_the_same(pairs: Sequence[LinePair]) -> Iterator[LinePair]:
    near: set[int] = set()
    for number, pair in enumerate(pairs):
        if pair.kind != "same":
            near.update(range(number - AROUND, number + AROUND + 1))
    left_out = 0
    for number, pair in enumerate(pairs):
        if number in near:
            if left_out:
                yield _left_out(left_out)
                left_out = 0
            yield pair
        else:
            left_out += 1
    if left_out:
        yield _left_out(left_out)


def _left_out(lines: int) -> LinePair:
    text = [Piece(f"… {count_text(lines, 'line')} the same", "dim")]
    return LinePair("left out", text, text)


def say_pairs(pairs: Sequence[LinePair], titles: tuple[str, str], width: int, most: int | None) -> int:
    """Draws them in at most so many lines; tells how many were left over."""
    drawn_lines = _two_columns(pairs, titles, width) if width >= NARROWEST_OF_TWO else _one_column(pairs, titles, width)
    lines = list(drawn_lines)
    for line in lines[:most]:
        say(line.rstrip())
    return 0 if most is None else max(0, len(lines) - most)


def _two_columns(pairs: Sequence[LinePair], titles: tuple[str, str], width: int) -> Iterator[str]:
    room = (width - 3) // 2
    yield f"{_padded([Piece(fit(titles[0], room), 'bold')], room)} │ {painted(fit(titles[1], room), 'bold')}"
    for pair in pairs:
        sign = painted(_SIGNS[pair.kind], "yellow bold") if pair.kind in _DIFFERENT else _SIGNS[pair.kind]
        left, right = (_shown(pair.kind, side, room) for side in (pair.left, pair.right))
        for number, (one, other) in enumerate(zip_longest(left, right)):
            yield f"{_padded(one or [], room)} {sign if not number else '│'} {drawn(other or [])}"


def _shown(kind: Kind, line: Line | None, room: int) -> list[Line]:
    """What differs is shown to its end, what is the same only as far as it fits."""
    if line is None:
        return []
    return (
        wrapped(line, room) if kind in _DIFFERENT else [[piece._replace(text=fit(piece.text, room)) for piece in line]]
    )


def _padded(line: Line, room: int) -> str:
    return drawn(line) + " " * max(0, room - width_of(line))


def _one_column(pairs: Sequence[LinePair], titles: tuple[str, str], width: int) -> Iterator[str]:
    yield painted(fit(f"- {titles[0]}", width), "red bold")
    yield painted(fit(f"+ {titles[1]}", width), "green bold")
    room = max(8, width - 2)
    for pair in pairs:
        if pair.kind not in _DIFFERENT:
            yield from (f"  {drawn(line)}" for line in _shown(pair.kind, pair.left, room))
            continue
        for sign, side, colour in (("-", pair.left, "red"), ("+", pair.right, "green")):
            if side is not None:
                yield from (f"{painted(sign, colour)} {drawn(line)}" for line in wrapped(side, room))
