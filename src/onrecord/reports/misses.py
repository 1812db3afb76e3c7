"""A miss that explains itself: what was asked for, what is nearest to it in the record, and where the two differ.

Everything that comes from a recording or a program is shown as Python shows a text, so nothing of it acts on a
terminal, and no more than a little of it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from typing import Any

from onrecord.analysis.compare.conversations import MessageChange, compare_conversations
from onrecord.analysis.compare.excerpts import Excerpt, excerpt
from onrecord.analysis.compare.trees import Difference, compare_trees
from onrecord.core.codec import encode
from onrecord.core.events import ActionRequested
from onrecord.core.matching import VOLATILE_MEMBERS
from onrecord.errors import OnrecordError
from onrecord.journal.reader import JournalReader
from onrecord.runtime.engine.stops import Divergence
from onrecord.runtime.replay.source_lines import shown_line

SHOWN_DIFFERENCES = 4
SHOWN_MESSAGES = 6
SHOWN_CHARACTERS = 160
SHOWN_OF_CHANGES = 240
"""Characters after which no further change of a text is shown."""
SHOWN_CALLS = 5
LOOKED_THROUGH = 20_000
"""Events that are looked through for a call that has moved."""

CHARACTERS_AS_DATA = 1000
ITEMS_AS_DATA = 64
"""Texts, lists and objects that are longer are cut short as data, too; what stands in them, at half of that."""
CHANGED_IN_WORDS = {"CHANGED": "changed", "TRUNCATED": "cut short", "EXTENDED": "extended"}

Line = tuple[str, str]


@dataclasses.dataclass(frozen=True, slots=True)
class Miss:
    """Lines for people, each with a word before it; the same as data."""

    lines: tuple[Line, ...]
    data: dict[str, Any]

    def texts(self) -> Iterator[str]:
        width = max((len(word) for word, _ in self.lines), default=0)
        for word, text in self.lines:
            yield f"  {word:<{width}}  {text}"


def explained(divergence: Divergence, reader: JournalReader) -> Miss:
    """What is known of a divergence at a call; no lines where it is about something else."""
    try:
        return _Explanation(divergence, reader).miss()
    except OnrecordError:  # the record cannot be read where it would have to be: what was said before stands
        return Miss((), {})


class _Explanation:
    def __init__(self, divergence: Divergence, reader: JournalReader) -> None:
        self._where = divergence.where
        self._code = divergence.code
        self._reader = reader
        self._lines: list[Line] = []
        self._data: dict[str, Any] = {}

    def miss(self) -> Miss:
        actual, expected = self._call("actual"), self._call("expected")
        if self._code == "missing_request" and expected is not None:
            self._missing(expected)
        elif actual is not None:
            self._asked(actual, expected)
        return Miss(tuple(self._lines), self._data)

    def _call(self, name: str) -> dict[str, Any] | None:
        found = self._where.get(name)
        return found if isinstance(found, dict) and "payload" in found and "name" in found else None

    def _say(self, word: str, text: str, **data: Any) -> None:
        self._lines.append((word, text))
        self._data.update(data)

    def _missing(self, expected: dict[str, Any]) -> None:
        seq = self._where.get("seq")
        self._say("recorded", f"{_title(expected)}, seq {seq}: it was not asked for again", expected_seq=seq)
        others = [one for one in self._where.get("unmatched", ()) if one != seq]
        if others:
            self._say("missing", f"{len(others)} more: seq {_listed(others)}", missing=others)
        self._say("likely", "a call was removed, or comes under another condition", likely="removed")

    def _asked(self, actual: dict[str, Any], expected: dict[str, Any] | None) -> None:
        line = shown_line(self._where.get("line") or "")
        self._say("asked", f"{_title(actual)}{f', at {line}' if line else ''}", asked=_title(actual), line=line)
        seq = self._where.get("seq") if expected is not None else self._where.get("nearest")
        if expected is None and isinstance(seq, int):
            event = self._reader.event(seq).event
            expected = event.content() if isinstance(event, ActionRequested) else None
        if expected is None:
            self._say("nearest", "none: the record has no call that was not made", nearest=None)
        else:
            self._say("nearest", f"{_title(expected)}, recorded at seq {seq}", nearest=seq)
            self._differences(expected, actual)
        self._moved(actual, seq if isinstance(seq, int) else 0)

    def _differences(self, expected: dict[str, Any], actual: dict[str, Any]) -> None:
        left, right = _compared(expected), _compared(actual)
        diff = compare_trees(left, right, limit=None)
        if diff.equal:
            self._say("differs", "nothing: it is asked for another time, or in another place", differences=[])
            return
        messages = _messages(left, right)
        others = [one for one in diff.differences if messages is None or not _is_of_conversation(one.path)]
        if others or messages is None:
            shown = others or list(diff.differences)
            for one in shown[:SHOWN_DIFFERENCES]:
                self._lines.append(("differs", _difference(one)))
            if len(shown) > SHOWN_DIFFERENCES:
                self._lines.append(("", f"and {len(shown) - SHOWN_DIFFERENCES:,} more places"))
        changed = [one for one in messages or () if one.kind != "SAME"]
        for change in changed[:SHOWN_MESSAGES]:
            self._lines.append(("message", _message(change)))
        if len(changed) > SHOWN_MESSAGES:
            self._lines.append(("", f"and {len(changed) - SHOWN_MESSAGES:,} more messages"))
        self._data["differences"] = [_bounded(one.to_data()) for one in diff.differences[:SHOWN_DIFFERENCES]]
        self._data["messages"] = [_message_data(one) for one in changed[:SHOWN_MESSAGES]]

    def _moved(self, actual: dict[str, Any], seq: int) -> None:
        """The same request stands elsewhere in the record: then a call before it is gone, or one has come."""
        same = self._same(actual)
        later = [one for one in same if one > seq > 0]
        if later and self._code == "moved_request":
            text = f"a call was removed (seq {seq}), or comes later: this one was recorded at seq {later[0]}"
            self._say("likely", text, likely="moved", same=later[0])
        elif later:
            text = f"a call was removed: the same was recorded at seq {later[0]}, after what is expected here"
            self._say("likely", text, likely="removed", same=later[0])
        elif same and self._code == "conflicting_request":
            text = f"a call was added or repeated: the same was recorded before, at seq {same[-1]}"
            self._say("likely", text, likely="added", same=same[-1])
        elif self._code == "unrecorded_request":
            self._say("likely", "a call was added, or goes to another place", likely="added")

    def _same(self, actual: dict[str, Any]) -> list[int]:
        match = self._reader.rules().match_of("ActionRequested", actual)
        reader, most = self._reader, LOOKED_THROUGH
        rows = reader.store.scan(reader.namespace, reader.run, 1, most, contents=False)
        return [row.seq for row in rows if row.kind == "ActionRequested" and row.match == match]


def _compared(call: dict[str, Any]) -> Any:
    tree = encode(call).tree
    return {name: value for name, value in tree.items() if name not in VOLATILE_MEMBERS}


def _title(call: dict[str, Any]) -> str:
    return _shown(str(call.get("name")), quoted=False)


def _request(tree: Any) -> Any:
    payload = tree.get("payload") if isinstance(tree, dict) else None
    body = payload.get("body") if isinstance(payload, dict) else None
    return body.get("json") if isinstance(body, dict) else None


def _messages(left: Any, right: Any) -> tuple[MessageChange, ...] | None:
    """The messages of both, where both hold a conversation."""
    try:
        diff = compare_conversations(_request(left), _request(right), words=False)
    except OnrecordError:
        return None
    return diff.changes if not diff.equal else None


def _is_of_conversation(path: str) -> bool:
    steps = path.split("/")
    names = ("messages", "input", "contents", "system", "instructions", "systemInstruction")
    return steps[1:4] == ["payload", "body", "json"] and len(steps) > 4 and steps[4] in names


def _difference(one: Difference) -> str:
    path = _shown(one.path, quoted=False)
    if one.kind == "added":
        return f"{path}: now {_shown(one.actual)}, which was not there"
    if one.kind == "removed":
        return f"{path}: recorded {_shown(one.expected)}, which is gone"
    if one.kind == "moved":
        return f"{path}: moved to {_shown(one.actual_path, quoted=False)}"
    texts = [one.expected, one.actual]
    if all(isinstance(text, str) for text in texts) and max(map(len, texts)) > SHOWN_CHARACTERS:
        return f"{path}: {_words(excerpt(one.expected, one.actual))}"
    return f"{path}: recorded {_shown(one.expected)}, now {_shown(one.actual)}"


def _message(change: MessageChange) -> str:
    index = change.actual_index if change.actual_index is not None else change.expected_index
    title = f"{index} ({_shown(change.role, quoted=False)})"
    if change.kind == "INJECTED" and change.actual is not None:
        return f"{title} was added: {_shown(change.actual.text)}"
    if change.kind == "DROPPED" and change.expected is not None:
        return f"{title} is gone: {_shown(change.expected.text)}"
    title = f"{title} {CHANGED_IN_WORDS.get(change.kind, change.kind)}"
    found = _text_change(change)
    if found is not None:
        return f"{title}: {_words(found)}"
    places = ", ".join(one.path for one in change.rest.differences) if change.rest is not None else ""
    return f"{title} at {_shown(places, quoted=False)}" if places else title


def _text_change(change: MessageChange) -> Excerpt | None:
    expected, actual = change.expected, change.actual
    if expected is None or actual is None or expected.text == actual.text:
        return None
    return excerpt(expected.text, actual.text)


def _words(found: Excerpt) -> str:
    """`[-gone-]{+new+}` with a little of what is around; of many changes the first ones."""
    parts = ["…"] if found.before else []
    more, before = 0, "equal"
    for run in found.diff.runs:
        if run.kind != "equal" and before == "equal" and (more or sum(map(len, parts)) > SHOWN_OF_CHANGES):
            more += 1
        before = run.kind
        if more:
            continue
        text = _shown(run.text, quoted=False)
        if run.kind == "removed":
            parts.append(f"[-{text}-]")
        elif run.kind == "added":
            parts.append(f"{{+{text}+}}")
        else:
            parts.append(text if len(text) <= 40 else f"{text[:15]}…{text[-20:]}")
    if more:
        parts.append(f" … {'at least ' if found.goes_on else ''}{more:,} more change{'s' if more > 1 else ''}")
    elif found.after or found.goes_on:
        parts.append("…")
    return "".join(parts)


def _message_data(change: MessageChange) -> dict[str, Any]:
    data, found = change.to_data(), _text_change(change)
    if found is not None:
        data["words"] = {**found.diff.to_data(), "before": found.before, "goes_on": found.goes_on}
    bounded: dict[str, Any] = _bounded(data)
    return bounded


def _bounded(tree: Any, most: int = ITEMS_AS_DATA) -> Any:
    """What is shown as data: prompts may be of any length, and the record has them."""
    if isinstance(tree, str) and len(tree) > CHARACTERS_AS_DATA:
        return f"{tree[:CHARACTERS_AS_DATA]}…"
    if isinstance(tree, list):
        return [_bounded(item, most // 2) for item in tree[:most]] + ["…"] * (len(tree) > most)
    if isinstance(tree, dict):
        members = {name: _bounded(value, most // 2) for name, value in list(tree.items())[:most]}
        return members if len(tree) <= most else {**members, "…": "…"}
    return tree


def _listed(seqs: Iterable[int]) -> str:
    known = list(seqs)
    more = ", …" if len(known) > SHOWN_CALLS else ""
    return ", ".join(str(seq) for seq in known[:SHOWN_CALLS]) + more


def _shown(value: Any, *, quoted: bool = True) -> str:
    text = repr(value)
    if not quoted and isinstance(value, str):
        text = text[1:-1]
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[: SHOWN_CHARACTERS - 1]}…"
