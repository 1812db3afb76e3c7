"""Lines made of pieces that are painted one by one: texts with their changed words marked, wrapped to a width.

Every piece is inert before it gets here or is made so here; marks of our own are colours on a terminal, and
[-removed-] and {+added+} where there are none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from onrecord.cli.render.output import colourful, painted
from onrecord.cli.render.text import cells, inert

if TYPE_CHECKING:  # loaded when texts are compared
    from onrecord.analysis.compare.texts import TextDiff

REMOVED, ADDED = "red strikethrough", "green bold"
LONGEST_COMPARED = 4_000
"""Of longer lines only what is around their first difference is compared by words."""
_MARKS = {REMOVED: ("[-", "-]"), ADDED: ("{+", "+}")}


class Piece(NamedTuple):
    text: str
    style: str = ""


Line = list[Piece]


def lines_of_text(text: str) -> list[str]:
    """The lines of a recorded text, each inert. Ends of lines as Windows writes them are ends of lines."""
    return [inert(line.replace("\t", "    ")) for line in text.replace("\r\n", "\n").split("\n")]


def drawn(line: Line) -> str:
    if colourful():
        return "".join(painted(piece.text, piece.style) for piece in line)
    return "".join(piece.text.join(_MARKS.get(piece.style, ("", ""))) for piece in line)


def width_of(line: Line) -> int:
    marks = 0 if colourful() else sum(4 for piece in line if piece.style in _MARKS)
    return sum(cells(piece.text) for piece in line) + marks


def wrapped(line: Line, width: int) -> list[Line]:
    """In lines of at most so many columns. Cut where they are full: recorded text has no better places."""
    if width_of(line) <= width:
        return [line]
    found: list[Line] = [[]]
    room = width
    for piece in line:
        marks = 0 if colourful() or piece.style not in _MARKS else 4
        text = piece.text
        while text:
            head, text = _cut(text, max(1, room - marks))
            found[-1].append(Piece(head, piece.style))
            room -= cells(head) + marks
            if text or room <= marks:
                found.append([])
                room = width
    return [one for one in found if one] or [[]]


def _cut(text: str, room: int) -> tuple[str, str]:
    """As much as fits, at least one character, and the rest."""
    if text.isascii():
        return text[:room], text[room:]
    used = 0
    for place, character in enumerate(text):
        used += cells(character)
        if used > room and place:
            return text[:place], text[place:]
    return text, ""


def compared_by_words(expected: str, actual: str) -> TextDiff:
    """Two inert texts. However long they are, little of them is compared."""
    from onrecord.analysis.compare.excerpts import excerpt
    from onrecord.analysis.compare.texts import diff_texts

    if max(len(expected), len(actual)) <= LONGEST_COMPARED:
        return diff_texts(expected, actual)
    return excerpt(expected, actual).diff


def marked(diff: TextDiff, *, kinds: Iterable[str] = ("equal", "removed", "added")) -> Iterator[Piece]:
    """Runs of the difference as pieces; one side of it by naming the kinds that it has."""
    styles = {"equal": "", "removed": REMOVED, "added": ADDED}
    for run in diff.runs:
        if run.kind in kinds:
            yield Piece(run.text, styles[run.kind])


def split_lines(pieces: Iterable[Piece]) -> list[Line]:
    """Pieces of recorded text as lines, each piece inert."""
    found: list[Line] = [[]]
    for piece in pieces:
        first, *more = lines_of_text(piece.text)
        found[-1].append(Piece(first, piece.style))
        found.extend([Piece(text, piece.style)] for text in more)
    return [[piece for piece in line if piece.text] for line in found]
