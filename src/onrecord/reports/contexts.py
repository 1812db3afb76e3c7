"""What a model saw: the messages of one call, each labelled against the call before.

*The call before* is the nearest earlier model call of the same lane that begins with the same messages, one of them no
system text; where none does, one of another lane that does (a loop that makes each call in a task or a thread of its
own); where that is not there either, the nearest of the lane. A fork looks on in the run that it comes from.

Messages are compared in one shape, whoever's they are (`replays.comparing.messages`: ids that tie calls to results
do not count). A message is

- `SAME`       in both calls, with nothing changed
- `INJECTED`   in this call only; `place` is `end` behind everything that the call before had, else `between`, and
               `origin` is `answer` where it is what the model itself answered to the call before
- `DROPPED`    in the call before only: the model does not see it any more
- `TRUNCATED`  all is the same but for its text, of which only the beginning is left (with a mark of omission or not)
- `EXTENDED`   the other way round: the text of before is the beginning of what it is now
- `CHANGED`    any other difference between two messages of one role, with the words and the places that differ

With no call before, labels are null. Model, tools and other settings of the request are compared besides.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import Any, NamedTuple

from onrecord.analysis.compare.conversations import MessageChange, compare_conversations
from onrecord.analysis.compare.messages import ChatMessage, messages_of
from onrecord.analysis.compare.trees import compare_trees
from onrecord.errors import InvalidInput, InvalidValue, NotFound, OnrecordError
from onrecord.journal.lineage import shared_stretches
from onrecord.journal.reader import JournalReader
from onrecord.reports.conversations import Conversation, answered_messages, answering_model, conversation_of
from onrecord.reports.effects import MODEL_CALL, asked_model, is_model_call
from onrecord.reports.timelines import SeenEvent, find_answer, one_event
from onrecord.store.contract import EventRow

CALLS_LOOKED_AT = 20
EVENTS_LOOKED_AT = 2_000
SYSTEM_ROLES = frozenset({"system", "developer"})


class ContextCall(NamedTuple):
    reader: JournalReader
    seq: int
    lane: str
    content: dict[str, Any]
    conversation: Conversation
    messages: list[ChatMessage]

    @property
    def model(self) -> str | None:
        return asked_model(self.content.get("payload"))

    def named(self) -> dict[str, Any]:
        return {"run": self.reader.run, "seq": self.seq, "lane": self.lane, "model": self.model}


class ContextReport(NamedTuple):
    run: str
    seq: int
    name: str | None
    lane: str
    model: str | None
    answer: int | None
    before: dict[str, Any] | None
    """The call that the labels are about: run, seq, lane, model."""
    messages: list[dict[str, Any]]
    counts: dict[str, int]
    tools: list[str]
    settings: dict[str, Any] | None
    """What else was asked for that differs from the call before, as `compare_trees` tells it; None without one."""
    goes_on_from: str | None
    """The answer that the provider itself goes on from: what it kept of that is not in this request."""

    def to_json(self) -> dict[str, Any]:
        return self._asdict()


def context_report(reader: JournalReader, seq: int | None = None) -> ContextReport:
    """Of the model call at `seq`, by its request or its answer; without one, of the last."""
    at = last_model_call(reader) if seq is None else _request_of(reader, seq)
    call = _call(reader, at)
    before = call_before(call)
    changes = _compared(before, call) if before is not None else None
    if changes is None:
        messages = [_labelled(None, one, index) for index, one in enumerate(call.messages)]
    else:
        own = [] if before is None else answered_messages(_answer_of(before))
        messages = _labels(changes, own)
    name, answer = call.content.get("name"), find_answer(reader, call.seq)
    return ContextReport(
        run=reader.run,
        seq=call.seq,
        name=name if isinstance(name, str) else None,
        lane=call.lane,
        model=call.model or answering_model(_answer_of(call)),
        answer=answer,
        before=None if before is None or changes is None else before.named(),
        messages=messages,
        counts=dict(Counter(str(one["label"]) for one in messages if one["label"] is not None)),
        tools=call.conversation.tools,
        settings=None if before is None else _settings(before, call),
        goes_on_from=call.conversation.goes_on_from,
    )


def _compared(before: ContextCall, call: ContextCall) -> tuple[MessageChange, ...] | None:
    """None: a stranger's recording may hold what cannot be compared."""
    try:
        return compare_conversations(before.conversation.request, call.conversation.request).changes
    except InvalidValue:
        return None


def _settings(before: ContextCall, call: ContextCall) -> dict[str, Any] | None:
    try:
        return compare_trees(before.conversation.settings, call.conversation.settings).to_data()
    except InvalidValue:
        return None


def _labels(changes: tuple[MessageChange, ...], own: list[ChatMessage]) -> list[dict[str, Any]]:
    last = max((n for n, one in enumerate(changes) if one.expected_index is not None), default=-1)
    found = []
    for number, one in enumerate(changes):
        shown = one.actual if one.actual is not None else one.expected
        assert shown is not None
        data = _labelled(one.kind, shown, one.actual_index) | {"before_index": one.expected_index}
        if one.kind == "INJECTED":
            origin = "answer" if any(answer.says_same(shown) for answer in own) else None
            data |= {"place": "end" if number > last else "between", "origin": origin}
        elif one.kind not in ("SAME", "DROPPED") and one.expected is not None:
            data["before"] = one.expected.to_data()
            data["words"] = None if one.words is None else one.words.to_data()
            data["rest_differs"] = None if one.rest is None else one.rest.to_data()
        found.append(data)
    return found


def _labelled(label: str | None, message: ChatMessage, index: int | None) -> dict[str, Any]:
    return {"label": label, "index": index, **message.to_data()}


# Which calls


def last_model_call(reader: JournalReader) -> int:
    """Where it was requested. Looked for from the end, a stretch at a time."""
    stop = reader.head().seq + 1
    while stop > 1:
        start = max(1, stop - EVENTS_LOOKED_AT)
        rows = reader.store.scan(reader.namespace, reader.run, start, stop)
        found = [row.seq for row in rows if is_model_call(reader, row)]
        if found:
            return found[-1]
        stop = start
    raise NotFound(
        f"run {reader.run} has asked no model",
        hint="Model calls are known by their HTTP requests; tools are made one by @onrecord.tool(kind='model_call').",
        code="no_model_call",
    )


def _request_of(reader: JournalReader, seq: int) -> int:
    event = one_event(reader, seq)
    if event.kind in ("ActionSucceeded", "ActionFailed", "ChunkReceived") and event.parent is not None:
        return event.parent
    return seq


def _call(reader: JournalReader, seq: int) -> ContextCall:
    event = one_event(reader, seq)
    found = _as_call(reader, event)
    if found is None:
        content = event.content if isinstance(event.content, dict) else {}
        is_call = content.get("effect") == MODEL_CALL
        what = "has no conversation that is known" if is_call else "is no model call"
        raise InvalidInput(
            f"event {seq} of run {reader.run} {what}" if not event.erased else f"event {seq} was erased",
            hint="`onrecord show RUN --event N` shows the event; without a number the last model call is shown.",
            code="no_conversation" if is_call else "erased" if event.erased else "no_model_call",
        )
    return found


def _as_call(reader: JournalReader, event: SeenEvent) -> ContextCall | None:
    content = event.content
    if not isinstance(content, dict) or content.get("effect") != MODEL_CALL:
        return None
    conversation = conversation_of(content.get("payload"))
    if conversation is None:
        return None
    try:
        messages = messages_of(conversation.request)
    except OnrecordError:
        return None
    return ContextCall(reader, event.seq, event.lane, content, conversation, messages)


def call_before(call: ContextCall) -> ContextCall | None:
    """The call that a model call goes on from; None for the first of a run."""
    nearest: ContextCall | None = None
    for earlier in _readable(_of_lane(call)):
        if _goes_on(earlier, call):
            return earlier
        nearest = nearest or earlier
    for earlier in _readable(_of_other_lanes(call)):
        if _goes_on(earlier, call):
            return earlier
    return nearest


def _readable(places: Iterator[tuple[JournalReader, EventRow]]) -> Iterator[ContextCall]:
    for reader, row in islice(places, CALLS_LOOKED_AT):
        try:
            found = _as_call(reader, one_event(reader, row.seq))
        except OnrecordError:
            continue  # damaged or gone: the next one is looked at
        if found is not None:
            yield found


def _goes_on(earlier: ContextCall, call: ContextCall) -> bool:
    """Both begin with the same messages, and not only with the same system text."""
    for one, other in zip(earlier.messages, call.messages, strict=False):
        if one != other:
            return False
        if one.role not in SYSTEM_ROLES:
            return True
    return False


def _of_lane(call: ContextCall) -> Iterator[tuple[JournalReader, EventRow]]:
    """Model calls of the same lane, the nearest first; then those of the runs that this one was forked from."""
    reader = call.reader
    yield from _back_from(reader, reader.store.event(reader.namespace, reader.run, call.seq))
    try:
        shared = shared_stretches(reader)
    except OnrecordError:
        return  # its parents are not here
    for stretch in reversed(shared):
        ends = stretch.reader.store.lanes(stretch.reader.namespace, stretch.reader.run, below=stretch.last + 1)
        last = next((end for end in ends if end.lane == call.lane), None)
        if last is not None:
            yield from _back_from(stretch.reader, last, itself=True)


def _back_from(
    reader: JournalReader, row: EventRow | None, *, itself: bool = False
) -> Iterator[tuple[JournalReader, EventRow]]:
    if row is None or row.lane_seq is None:
        return
    first = row.lane_seq if itself else row.lane_seq - 1
    for place in range(first, max(0, first - EVENTS_LOOKED_AT), -1):
        found = reader.store.lane_event(reader.namespace, reader.run, row.lane, place)
        if found is not None and found.kind == "ActionRequested":
            whole = reader.store.event(reader.namespace, reader.run, found.seq)
            if whole is not None and is_model_call(reader, whole):
                yield reader, whole


def _of_other_lanes(call: ContextCall) -> Iterator[tuple[JournalReader, EventRow]]:
    reader = call.reader
    start = max(1, call.seq - EVENTS_LOOKED_AT)
    rows = reader.store.scan(reader.namespace, reader.run, start, call.seq)
    found = [row for row in rows if row.lane != call.lane and is_model_call(reader, row)]
    yield from ((reader, row) for row in reversed(found[-CALLS_LOOKED_AT:]))


# Their answers


def _answer_of(call: ContextCall) -> Any:
    seq = find_answer(call.reader, call.seq)
    if seq is None:
        return None
    try:
        content = one_event(call.reader, seq).content
    except OnrecordError:
        return None
    return content.get("output") if isinstance(content, dict) else None
