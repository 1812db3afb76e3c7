"""The model calls of a run as a conversation: of each call the messages that the call before had not, then the answer.

*The call before* is the last one of the same lane; where its messages are not the beginning of this one's, the last
call of any lane of which that is so. Where there is none, all messages of the call are told. Of how many messages of
the call before nothing is left at their place is told as `dropped`; that the model's own answer to it came back as it
was, and is not told again, as `own_answer`. What was sent and what came back is read in the
forms of OpenAI, Anthropic and Google, and of tools of the kind `model_call`; a stream is put together.
"""

from __future__ import annotations

from itertools import takewhile
from typing import Any, NamedTuple

from onrecord.analysis.compare.messages import ChatMessage, messages_of
from onrecord.errors import OnrecordError
from onrecord.journal.reader import JournalReader
from onrecord.reports.conversations import answered_messages, conversation_of
from onrecord.reports.effects import OUTCOMES, asked_model, is_model_call
from onrecord.reports.json_text import json_bytes
from onrecord.reports.timelines import SeenEvent, find_answer, seen
from onrecord.reports.usages import ReadAnswer, plain, used_by
from onrecord.store.contract import EventRow

EVENTS_LOOKED_AT = 2_000
"""For one page: where few of them are model calls a page is short, and says where the next one begins."""
PAGE_BYTES = 512 * 1024
TEXT_ROOM = 20_000
"""Characters of one text that are told here; the event has all of it."""

_NO_MESSAGES: dict[str, Any] = {"messages": [], "before": None, "repeated": 0, "own_answer": False, "dropped": 0}
_NO_ANSWER: dict[str, Any] = {
    "answer": None,
    "answer_erased": False,
    "outcome": "open",
    "took_us": None,
    "message": None,
    "error": None,
    "used": None,
}


class _Call(NamedTuple):
    seq: int
    lane: str
    messages: list[ChatMessage]
    answer: ChatMessage | None = None


def chat_page(reader: JournalReader, read: ReadAnswer, start: int, limit: int) -> dict[str, Any]:
    """Model calls requested from event `start` on. `next` is where the page that follows begins."""
    reader.check_start(start)
    head = reader.head().seq
    last_calls = _calls_before(reader, start)
    calls: list[dict[str, Any]] = []
    size, stop = 0, min(head, start + EVENTS_LOOKED_AT - 1)
    for row in reader.store.scan(reader.namespace, reader.run, start, stop + 1):
        if not is_model_call(reader, row):
            continue
        if len(calls) == limit or size > PAGE_BYTES:
            stop = row.seq - 1
            break
        told = _told(reader, read, row, last_calls)
        calls.append(told)
        size += len(json_bytes(told))
    return {
        "run": reader.run,
        "events": head,
        "calls": calls,
        "from": start,
        "to": stop,
        "next": stop + 1 if stop < head else None,
    }


def chat_start(reader: JournalReader, before: int, calls: int) -> int:
    """Where to begin in order to see the last so many model calls before an event, as far as they are near."""
    start = max(1, min(before, reader.head().seq + 1) - EVENTS_LOOKED_AT)
    rows = reader.store.scan(reader.namespace, reader.run, start, before)
    found = [row.seq for row in rows if is_model_call(reader, row)]
    return found[-calls:][0] if found else start


def _told(reader: JournalReader, read: ReadAnswer, row: EventRow, last_calls: dict[str, _Call]) -> dict[str, Any]:
    request = seen(reader, row)
    content = request.content if isinstance(request.content, dict) else {}
    told: dict[str, Any] = {
        "seq": row.seq,
        "lane": row.lane,
        "time": request.time,
        "name": content.get("name"),
        "model": asked_model(content.get("payload")),
        "damage": request.damage,
        "erased": request.erased,
    }
    call, answer = _call_of(request), _answer_of(reader, request.seq)
    if call is not None:
        told |= _new_messages(call, _call_before(call, last_calls))
        last_calls[row.lane] = call._replace(answer=_message_of(answer))
    return {**_NO_MESSAGES, **told, **_answered(read, request, answer)}


def _new_messages(call: _Call, before: _Call | None) -> dict[str, Any]:
    if before is None:
        return {"messages": [_shown(one) for one in call.messages]}
    same = _common(before.messages, call.messages)
    new = call.messages[same:]
    own = bool(new) and same == len(before.messages) and before.answer is not None and before.answer.says_same(new[0])
    return {
        "messages": [_shown(one) for one in new[own:]],
        "before": before.seq,
        "repeated": same,
        "own_answer": own,
        "dropped": len(before.messages) - same,
    }


def _answered(read: ReadAnswer, request: SeenEvent, answer: SeenEvent | None) -> dict[str, Any]:
    if answer is None:
        return {**_NO_ANSWER}
    content = answer.content if isinstance(answer.content, dict) else {}
    output = content.get("output")
    took = None if answer.time is None or request.time is None else max(0, answer.time - request.time)
    used = used_by(output, read)
    message = _message_of(answer)
    return {
        "answer": answer.seq,
        "answer_erased": answer.erased,
        "outcome": "damaged" if answer.damage is not None else OUTCOMES.get(answer.kind, "succeeded"),
        "took_us": took,
        "message": None if message is None else _shown(message),
        "error": answer.damage
        if answer.damage is not None
        else _cut(plain(content.get("error", content.get("reason")))),
        "used": None if used is None else used.to_json(),
        **({} if used is None or used.model is None else {"model": used.model}),
    }


def _message_of(answer: SeenEvent | None) -> ChatMessage | None:
    content = None if answer is None else answer.content
    return answer_message(content.get("output")) if isinstance(content, dict) else None


def answer_message(output: Any) -> ChatMessage | None:
    """Return the answer of a model as one message: reasoning, texts and calls of a response together."""
    if isinstance(output, str):
        return ChatMessage("assistant", output)
    found = answered_messages(output)
    said = [one for one in found if one.text or one.calls] or found
    if len(said) <= 1:
        return said[0] if said else None
    calls = tuple(call for one in said for call in one.calls)
    rest = [one.rest for one in said if one.rest is not None]
    return ChatMessage("assistant", "\n".join(one.text for one in said if one.text), calls, (), rest or None)


def _calls_before(reader: JournalReader, start: int) -> dict[str, _Call]:
    """The last calls before a page, by their lanes, as far as they are near."""
    found: dict[str, _Call] = {}
    rows = reader.store.scan(reader.namespace, reader.run, max(1, start - EVENTS_LOOKED_AT), start) if start > 1 else ()
    last: dict[str, EventRow] = {row.lane: row for row in rows if is_model_call(reader, row)}
    for row in sorted(last.values(), key=lambda one: one.seq):
        call = _call_of(seen(reader, row))
        if call is not None:
            found[row.lane] = call._replace(answer=_message_of(_answer_of(reader, row.seq)))
    return found


def _call_before(call: _Call, last_calls: dict[str, _Call]) -> _Call | None:
    own = last_calls.get(call.lane)
    if own is not None and _common(own.messages, call.messages) == len(own.messages):
        return own
    others = (one for one in last_calls.values() if _common(one.messages, call.messages) == len(one.messages))
    return max(others, key=lambda one: one.seq, default=own)


def _common(before: list[ChatMessage], now: list[ChatMessage]) -> int:
    pairs = zip(before, now, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _call_of(request: SeenEvent) -> _Call | None:
    content = request.content
    conversation = conversation_of(content.get("payload")) if isinstance(content, dict) else None
    if conversation is None:
        return None
    try:
        return _Call(request.seq, request.lane, messages_of(conversation.request))
    except OnrecordError:
        return None


def _answer_of(reader: JournalReader, seq: int) -> SeenEvent | None:
    answer = find_answer(reader, seq)
    row = None if answer is None else reader.store.event(reader.namespace, reader.run, answer)
    return None if row is None else seen(reader, row)


def _shown(message: ChatMessage) -> dict[str, Any]:
    data: dict[str, Any] = _cut(message.to_data())
    return data


def _cut(value: Any, depth: int = 40) -> Any:
    """Long texts are cut short, and say so."""
    if isinstance(value, str) and len(value) > TEXT_ROOM:
        return f"{value[:TEXT_ROOM]}… ({len(value) - TEXT_ROOM:,} more characters)"
    if isinstance(value, list):
        return [_cut(one, depth - 1) for one in value] if depth else "…"
    if isinstance(value, dict):
        return {name: _cut(one, depth - 1) for name, one in value.items()} if depth else "…"
    return value
