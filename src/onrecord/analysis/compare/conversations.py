"""Compare two conversations message by message.

Messages get one shape first (`messages`), so a text and the same text in parts are equal. Equal messages are aligned.
The rest is paired by role and similarity, in order.

- `SAME`: nothing differs.
- `INJECTED` / `DROPPED`: only the actual / the expected conversation has the message.
- `TRUNCATED` / `EXTENDED`: only the text differs, and the actual / the expected text is a non-empty beginning of the
  other one, with or without an omission mark (`…`, `...`, `[truncated]`) at its end.
- `CHANGED`: anything else, with the words that differ and the other fields that differ.
"""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from typing import Any, Literal, NamedTuple

from onrecord.analysis.compare.messages import ChatMessage, messages_of
from onrecord.analysis.compare.sequence_alignment import Hunk, align, find_hunks, pair_best
from onrecord.analysis.compare.subtree_ids import Interner
from onrecord.analysis.compare.texts import TextDiff, diff_texts
from onrecord.analysis.compare.trees import TreeDiff, compare_trees, tree_digest

MessageChangeKind = Literal["SAME", "INJECTED", "DROPPED", "CHANGED", "TRUNCATED", "EXTENDED"]

_OMISSION = re.compile(r"\s*(?:…|\.{3,}|\[\s*(?:…|\.{3}|truncated|cut)\s*\]|<truncated>)\s*\Z", re.IGNORECASE)
_MARK_CHARACTERS = 40  # no omission mark is longer
_MATRIX = 4096  # most pairs of messages that are scored for similarity
_SAMPLE = 2000  # characters of a message that its similarity score reads


class MessageChange(NamedTuple):
    kind: MessageChangeKind
    role: str
    expected_index: int | None
    actual_index: int | None
    expected: ChatMessage | None
    actual: ChatMessage | None
    words: TextDiff | None = None
    rest: TreeDiff | None = None
    """The differences outside the text: calls, results, parts."""

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
    """Changes in order, one for each message of either side. Indexes count the list that `messages_of` returns."""

    @property
    def equal(self) -> bool:
        return all(change.kind == "SAME" for change in self.changes)

    def counts(self) -> dict[str, int]:
        return dict(Counter(change.kind for change in self.changes))

    def to_data(self) -> dict[str, Any]:
        return {"equal": self.equal, "counts": self.counts(), "changes": [change.to_data() for change in self.changes]}


def compare_conversations(expected: Any, actual: Any, *, words: bool = True) -> ConversationDiff:
    """Compare two lists of messages, or two model requests that hold them.

    Pass `words=False` to skip the word-by-word comparison of differing texts, which is the slow part.
    """
    left, right = messages_of(expected), messages_of(actual)
    trees = [[message.to_data() for message in side] for side in (left, right)]
    interner = Interner()
    for side in trees:
        tree_digest(side)  # refuses what is not plain
        interner.add(side)
    numbers, other_numbers = ([interner.number(tree) for tree in side] for side in trees)
    changes: list[MessageChange] = []
    at = other_at = 0
    for hunk in [*find_hunks(align(numbers, other_numbers), len(left), len(right)), None]:
        stop = hunk.start if hunk is not None else len(left)
        changes += [
            MessageChange("SAME", left[i].role, i, other_at + i - at, left[i], right[other_at + i - at])
            for i in range(at, stop)
        ]
        if hunk is not None:
            changes += _compare_hunk(left, right, hunk, words=words)
            at, other_at = hunk.stop, hunk.other_stop
    return ConversationDiff(tuple(changes))


def _compare_hunk(left: list[ChatMessage], right: list[ChatMessage], hunk: Hunk, *, words: bool) -> list[MessageChange]:
    changes: list[MessageChange] = []
    i, j = hunk.start, hunk.other_start
    for at, other_at in [*_pair_messages(left, right, hunk), (hunk.stop, hunk.other_stop)]:
        changes += [MessageChange("DROPPED", left[n].role, n, None, left[n], None) for n in range(i, at)]
        changes += [MessageChange("INJECTED", right[n].role, None, n, None, right[n]) for n in range(j, other_at)]
        if at < hunk.stop and other_at < hunk.other_stop:
            changes.append(_compare_messages(left[at], right[other_at], at, other_at, words=words))
        i, j = at + 1, other_at + 1
    return changes


def _compare_messages(
    expected: ChatMessage, actual: ChatMessage, at: int, other_at: int, *, words: bool
) -> MessageChange:
    rest = compare_trees(expected._replace(text="").to_data(), actual._replace(text="").to_data())
    kind: MessageChangeKind = "CHANGED"
    if rest.equal and is_truncated(expected.text, actual.text):
        kind = "TRUNCATED"
    elif rest.equal and is_truncated(actual.text, expected.text):
        kind = "EXTENDED"
    found = diff_texts(expected.text, actual.text) if words and expected.text != actual.text else None
    return MessageChange(kind, expected.role, at, other_at, expected, actual, found, None if rest.equal else rest)


def is_truncated(long: str, short: str) -> bool:
    """Return True if the second text is a proper, non-empty beginning of the first."""
    mark = _OMISSION.search(short, max(0, len(short) - _MARK_CHARACTERS))
    return any(
        beginning and len(beginning) < len(long) and long.startswith(beginning)
        for beginning in (short, short[: mark.start()] if mark else short)
    )


def _pair_messages(left: list[ChatMessage], right: list[ChatMessage], hunk: Hunk) -> list[tuple[int, int]]:
    """Pair the messages of a hunk: same role, in order, most similar in total."""
    left, right = left[hunk.start : hunk.stop], right[hunk.other_start : hunk.other_stop]
    scored = len(left) * len(right) <= _MATRIX
    pairs = pair_best(_score_similarity(left, right)) if scored else _pair_by_role(left, right)
    return [(hunk.start + i, hunk.other_start + j) for i, j in pairs]


def _pair_by_role(left: list[ChatMessage], right: list[ChatMessage]) -> list[tuple[int, int]]:
    roles: dict[str, int] = {}
    sides = [[roles.setdefault(message.role, len(roles)) for message in side] for side in (left, right)]
    return [(block.expected + n, block.actual + n) for block in align(*sides) for n in range(block.length)]


def _score_similarity(left: list[ChatMessage], right: list[ChatMessage]) -> list[list[float]]:
    """Return the similarity of each pair of messages: 0 for different roles, at least 0.1 for equal ones."""
    words, other_words = ([Counter(message.text[:_SAMPLE].split()) for message in side] for side in (left, right))
    return [
        [
            0.1 + _word_overlap(words[i], other_words[j]) if one.role == other.role else 0.0
            for j, other in enumerate(right)
        ]
        for i, one in enumerate(left)
    ]


def _word_overlap(words: Counter[str], other: Counter[str]) -> float:
    return 2 * (words & other).total() / ((words.total() + other.total()) or 1)
