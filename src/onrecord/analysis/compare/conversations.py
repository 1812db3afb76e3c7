"""Two conversations compared message by message: which are the same, injected, dropped, changed, cut short or extended.

Messages are brought into one shape first (`messages`), so a text and the same text as parts are the same. Equal
messages are aligned; of the others, those of one role are taken for each other where they are most alike, in order.

- `SAME`: nothing differs.
- `INJECTED` / `DROPPED`: only the actual / the expected conversation has it.
- `TRUNCATED` / `EXTENDED`: all is the same but that the actual / the expected text is the beginning of the other one,
  with or without a mark of omission (`…`, `...`, `[truncated]`) at its end; at least one character of it is left.
- `CHANGED`: anything else, with the words that differ and the places where something other than text does.
"""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from typing import Any, Literal, NamedTuple

from reenact.replays.comparing.alignment import Hunk, aligned, hunks_of
from reenact.replays.comparing.interning import Interner
from reenact.replays.comparing.messages import ChatMessage, messages_of
from reenact.replays.comparing.texts import TextDiff, diff_texts
from reenact.replays.comparing.trees import TreeDiff, compare_trees, tree_digest

MessageChangeKind = Literal["SAME", "INJECTED", "DROPPED", "CHANGED", "TRUNCATED", "EXTENDED"]

_OMISSION = re.compile(r"\s*(?:…|\.{3,}|\[\s*(?:…|\.{3}|truncated|cut)\s*\]|<truncated>)\s*\Z", re.IGNORECASE)
_MARK_CHARACTERS = 40  # no mark of omission is longer
_MATRIX = 4096  # pairs of messages that are looked at for their likeness
_SAMPLE = 2000  # characters that tell how alike two messages are


class MessageChange(NamedTuple):
    kind: MessageChangeKind
    role: str
    expected_index: int | None
    actual_index: int | None
    expected: ChatMessage | None
    actual: ChatMessage | None
    words: TextDiff | None = None
    rest: TreeDiff | None = None
    """Where something other than the text differs: calls, results, parts."""

    def to_data(self) -> dict[str, Any]:
        data: dict[str, Any] = {"kind": self.kind, "role": self.role}
        for name in ("expected_index", "actual_index"):
            if getattr(self, name) is not None:
                data[name] = getattr(self, name)
        if self.kind != "SAME":
            for name in ("expected", "actual", "words", "rest"):
                if getattr(self, name) is not None:
                    data[name] = getattr(self, name).to_data()
        return data


@dataclasses.dataclass(frozen=True, slots=True)
class ConversationDiff:
    changes: tuple[MessageChange, ...]
    """One for each message of either side, in order; indexes count the messages as `messages_of` gives them."""

    @property
    def equal(self) -> bool:
        return all(change.kind == "SAME" for change in self.changes)

    def counts(self) -> dict[str, int]:
        return dict(Counter(change.kind for change in self.changes))

    def to_data(self) -> dict[str, Any]:
        return {"equal": self.equal, "counts": self.counts(), "changes": [change.to_data() for change in self.changes]}


def compare_conversations(expected: Any, actual: Any, *, words: bool = True) -> ConversationDiff:
    """Two lists of messages, or two requests to a model that hold them. Without `words` texts that differ are not
    compared any further: whoever shows only a little of them has less to wait for."""
    left, right = messages_of(expected), messages_of(actual)
    trees = [[message.to_data() for message in side] for side in (left, right)]
    interner = Interner()
    for side in trees:
        tree_digest(side)  # refuses what is not plain
        interner.add(side)
    numbers, other_numbers = ([interner.number(tree) for tree in side] for side in trees)
    changes: list[MessageChange] = []
    at = other_at = 0
    for hunk in [*hunks_of(aligned(numbers, other_numbers), len(left), len(right)), None]:
        stop = hunk.start if hunk is not None else len(left)
        changes += [
            MessageChange("SAME", left[i].role, i, other_at + i - at, left[i], right[other_at + i - at])
            for i in range(at, stop)
        ]
        if hunk is not None:
            changes += _in_hunk(left, right, hunk, words=words)
            at, other_at = hunk.stop, hunk.other_stop
    return ConversationDiff(tuple(changes))


def _in_hunk(left: list[ChatMessage], right: list[ChatMessage], hunk: Hunk, *, words: bool) -> list[MessageChange]:
    changes: list[MessageChange] = []
    i, j = hunk.start, hunk.other_start
    for at, other_at in [*_alike(left, right, hunk), (hunk.stop, hunk.other_stop)]:
        changes += [MessageChange("DROPPED", left[n].role, n, None, left[n], None) for n in range(i, at)]
        changes += [MessageChange("INJECTED", right[n].role, None, n, None, right[n]) for n in range(j, other_at)]
        if at < hunk.stop and other_at < hunk.other_stop:
            changes.append(_changed(left[at], right[other_at], at, other_at, words=words))
        i, j = at + 1, other_at + 1
    return changes


def _changed(expected: ChatMessage, actual: ChatMessage, at: int, other_at: int, *, words: bool) -> MessageChange:
    rest = compare_trees(expected._replace(text="").to_data(), actual._replace(text="").to_data())
    kind: MessageChangeKind = "CHANGED"
    if rest.equal and is_truncated(expected.text, actual.text):
        kind = "TRUNCATED"
    elif rest.equal and is_truncated(actual.text, expected.text):
        kind = "EXTENDED"
    found = diff_texts(expected.text, actual.text) if words and expected.text != actual.text else None
    return MessageChange(kind, expected.role, at, other_at, expected, actual, found, None if rest.equal else rest)


def is_truncated(long: str, short: str) -> bool:
    """Whether the second text is the beginning of the first, and not all of it."""
    mark = _OMISSION.search(short, max(0, len(short) - _MARK_CHARACTERS))
    return any(
        beginning and len(beginning) < len(long) and long.startswith(beginning)
        for beginning in (short, short[: mark.start()] if mark else short)
    )


def _alike(left: list[ChatMessage], right: list[ChatMessage], hunk: Hunk) -> list[tuple[int, int]]:
    """Messages taken for each other: of one role, in order, so that they are as alike as can be."""
    here, there = left[hunk.start : hunk.stop], right[hunk.other_start : hunk.other_stop]
    pairs = _by_likeness(here, there) if len(here) * len(there) <= _MATRIX else _by_role(here, there)
    return [(hunk.start + i, hunk.other_start + j) for i, j in pairs]


def _by_role(here: list[ChatMessage], there: list[ChatMessage]) -> list[tuple[int, int]]:
    roles: dict[str, int] = {}
    sides = [[roles.setdefault(message.role, len(roles)) for message in side] for side in (here, there)]
    return [(block.expected + n, block.actual + n) for block in aligned(*sides) for n in range(block.length)]


def _by_likeness(here: list[ChatMessage], there: list[ChatMessage]) -> list[tuple[int, int]]:
    scores = _scores(here, there)
    best = [[0.0] * (len(there) + 1) for _ in range(len(here) + 1)]  # what the messages from i and j on can reach
    for i in reversed(range(len(here))):
        for j in reversed(range(len(there))):
            best[i][j] = max(best[i + 1][j], best[i][j + 1], scores[i][j] + best[i + 1][j + 1])
    pairs: list[tuple[int, int]] = []
    i = j = 0
    while i < len(here) and j < len(there):
        if scores[i][j] and best[i][j] == scores[i][j] + best[i + 1][j + 1]:
            pairs.append((i, j))
            i, j = i + 1, j + 1
        elif best[i][j] == best[i + 1][j]:
            i += 1
        else:
            j += 1
    return pairs


def _scores(here: list[ChatMessage], there: list[ChatMessage]) -> list[list[float]]:
    """How alike two messages are; nothing for those of different roles, a little for any of one role."""
    words, other_words = ([Counter(message.text[:_SAMPLE].split()) for message in side] for side in (here, there))
    return [
        [0.1 + _share(words[i], other_words[j]) if one.role == other.role else 0.0 for j, other in enumerate(there)]
        for i, one in enumerate(here)
    ]


def _share(words: Counter[str], other: Counter[str]) -> float:
    return 2 * (words & other).total() / ((words.total() + other.total()) or 1)
