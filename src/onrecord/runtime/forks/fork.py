"""Create a fork or a live replay of a run. No agent code runs here.

A fork shares its parent's events up to a position and stores only its own events after it, so that its creation costs
the same at any position. Its change is one of its facts. A changed answer is written among its first events, after a
copy of its request, so that the original answer is not in its history.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from onrecord.core.events import (
    ANSWERS,
    OPENING_KINDS,
    TERMINAL_KINDS,
    ActionFailed,
    ActionSucceeded,
    ChunkReceived,
    Event,
    Resumed,
    WaitResolved,
)
from onrecord.core.hashing import render
from onrecord.core.links import ParentRun
from onrecord.core.state import StateUpdatedOnlyReducer
from onrecord.errors import BadPosition, InvalidInput, Refused
from onrecord.journal.chain import Draft
from onrecord.journal.journal import Journal
from onrecord.journal.lineage import shared_stretches
from onrecord.journal.reader import JournalReader
from onrecord.runtime.forks.overrides import ANSWER, MODEL, REQUEST, count_requests
from onrecord.runtime.forks.tail_policy import FACT, LIVE, TailPolicy, check_mode, check_tool_names
from onrecord.runtime.replay.delivery_marks import make_mark
from onrecord.runtime.scheduler.items import AHEAD
from onrecord.store.contract import EventRow, Store

CHANGE = "change"


class AnotherAnswer(NamedTuple):
    """Answer the request at `seq` of the parent, or the request that event `seq` answers, with this value or error."""

    seq: int
    value: Any = None
    error: BaseException | None = None


class AnotherInput(NamedTuple):
    """Make the request at `seq` of the parent with this input."""

    seq: int
    payload: Any


class AnotherModel(NamedTuple):
    """Send every model call after the fork position to this model."""

    model: str


Change = AnotherAnswer | AnotherInput | AnotherModel


class _ForkStart(NamedTuple):
    at: int
    """The last shared event."""
    fact: dict[str, Any] | None = None
    """The change."""
    drafts: tuple[Draft, ...] = ()
    """The fork's first events."""


def begin_fork(
    store: Store,
    run: str,
    at: int | None = None,
    namespace: str = "default",
    *,
    change: Change | None = None,
    tail: str = LIVE,
    live_tools: Iterable[str] = (),
    run_id: str | None = None,
    facts: Mapping[str, Any] | None = None,
) -> str:
    """Create a fork of `run` after its event `at`, and return its id. A resume executes it.

    The default position is the last one at which the change takes effect. Without a change it is the last event before
    the parent's end. `facts` replace those of the parent.
    """
    parent = JournalReader(store, run, namespace)
    _check_reducer(parent)
    shared_stretches(parent)  # raises if the parent's lineage cannot be read
    start = _plan_start(parent, at, change)
    policy = TailPolicy(run, start.at, check_mode(tail), check_tool_names(live_tools))
    own = {
        **_inherit_facts(parent, facts),
        FACT: policy.to_fact(),
        **({CHANGE: start.fact} if start.fact is not None else {}),
    }
    head = parent.header_row if start.at == 0 else _find_row(parent, start.at)
    link = ParentRun(head=render(head.hash), relation="fork", run=run, seq=start.at)
    with Journal.create(store, run_id, namespace, facts=own, parent=link, volatile=parent.rules().volatile) as journal:
        if start.drafts:
            appended = journal.append(list(start.drafts))
            _check_copy(journal, parent, appended[0].seq, change)
        return journal.run


def begin_live_replay(
    store: Store,
    run: str,
    namespace: str = "default",
    *,
    live_tools: Iterable[str] = (),
    model: str | None = None,
    run_id: str | None = None,
    facts: Mapping[str, Any] | None = None,
) -> str:
    """Create a live replay of `run`, and return its id. A resume executes it."""
    parent = JournalReader(store, run, namespace)
    _check_reducer(parent)
    head, shared = parent.head(), shared_stretches(parent)
    policy = TailPolicy(run, shared[0].shift if shared else 0, LIVE, check_tool_names(live_tools), is_replay=True)
    own = {**_inherit_facts(parent, facts), FACT: policy.to_fact()}
    if model is not None:
        own[CHANGE] = {"kind": MODEL, "model": model}
    link = ParentRun(head=render(head.hash), relation="replay", run=run, seq=head.seq)
    with Journal.create(store, run_id, namespace, facts=own, parent=link, volatile=parent.rules().volatile) as journal:
        return journal.run


def _inherit_facts(parent: JournalReader, facts: Mapping[str, Any] | None) -> dict[str, Any]:
    known = parent.facts()
    if known is None:
        raise Refused(f"the facts of run {parent.run} were erased, and with them its arguments", code="facts_erased")
    return {name: fact for name, fact in {**known, **(facts or {})}.items() if name not in (FACT, CHANGE, "volatile")}


def _check_reducer(parent: JournalReader) -> None:
    if parent.header.reducer != StateUpdatedOnlyReducer.id:
        raise Refused(
            f"run {parent.run} folds its state with the reducer {parent.header.reducer!r}, which a fork cannot do",
            hint="Read it with ReplayEngine and that reducer instead.",
            code="other_reducer",
        )


def _find_row(reader: JournalReader, seq: int) -> EventRow:
    in_range = type(seq) is int and 0 < seq <= reader.head().seq
    row = reader.store.event(reader.namespace, reader.run, seq) if in_range else None
    if row is None:
        raise BadPosition(
            f"run {reader.run} has no event {seq}: its events are 1 to {reader.head().seq}",
            hint=f"`onrecord show {reader.run}` lists them.",
        )
    return row


# Position and change


def _plan_start(parent: JournalReader, at: int | None, change: Change | None) -> _ForkStart:
    if change is not None and not isinstance(change, (AnotherAnswer, AnotherInput, AnotherModel)):
        raise InvalidInput(
            f"a {type(change).__name__} is not a change of a fork",
            hint="Give an AnotherAnswer, AnotherInput or AnotherModel.",
            code="bad_change",
        )
    if isinstance(change, AnotherModel) and not change.model:
        raise InvalidInput(
            "the name of the model is empty", hint="Leave the change out to keep the model.", code="bad_change"
        )
    if isinstance(change, AnotherAnswer):
        return _start_with_answer(parent, at, change)
    if isinstance(change, AnotherInput):
        return _start_with_input(parent, at, change)
    position = _check_position(parent, at)
    if change is None:
        return _ForkStart(position)
    return _ForkStart(position, {"kind": MODEL, "model": change.model})


def fork_position(parent: JournalReader, at: int | None, change: Change | None) -> int:
    """Return the last event that such a fork would share."""
    return _plan_start(parent, at, change).at


def _check_position(parent: JournalReader, at: int | None) -> int:
    if at is None:
        last = parent.store.last_event(parent.namespace, parent.run)
        return 0 if last is None else last.seq - (last.kind in TERMINAL_KINDS)
    if type(at) is not int or at < 0:
        raise BadPosition(f"a fork begins after an event, or at 0; there is no event {at}")
    if at and _find_row(parent, at).kind in TERMINAL_KINDS:
        raise BadPosition(
            f"run {parent.run} ended with event {at}: a fork cannot begin after it",
            hint=f"Fork it at {at - 1}, before its end.",
        )
    return at


def _start_with_answer(parent: JournalReader, at: int | None, change: AnotherAnswer) -> _ForkStart:
    request_row, answer = _find_request(parent, change)
    if request_row.kind not in OPENING_KINDS:
        raise InvalidInput(
            f"event {change.seq} of run {parent.run} is a {request_row.kind}: neither a request nor an answer",
            hint="Name a request, or the event that answers it.",
            code="bad_change",
        )
    if answer is None:
        answer = _find_answer(parent, request_row.seq)
    latest = answer - 1 if answer is not None else parent.head().seq
    if answer is None and at is None:
        latest = request_row.seq
    chunk = _find_first_chunk(parent, request_row, latest)
    latest = latest if chunk is None else chunk - 1
    position = _check_position(parent, latest if at is None else at)
    if not request_row.seq <= position <= latest:
        raise BadPosition(
            f"the request at event {request_row.seq} of run {parent.run} is open up to {latest}, not at {position}",
            hint="Leave the position out, or fork between the request and its answer.",
        )
    request, link = parent.sequenced(request_row), parent.link(request_row)
    is_stream = chunk is not None and not _has_single_answer(parent, answer)
    fact = {"kind": ANSWER, "event": answer if answer is not None else request_row.seq, "request": request_row.seq}
    # The answer is delivered at the first rest after the shared events: it is marked as committed ahead of that.
    ahead = make_mark(AHEAD)
    chunks = _make_chunks(request.event, change) if is_stream else []
    drafts = (
        Draft(request.event, lane=link.lane, key=link.key),
        *(Draft(chunk, lane=link.lane, key=ahead, parent=1) for chunk in chunks),
        Draft(_make_answer_event(request.event, change), lane=link.lane, key=ahead),
    )
    return _ForkStart(position, fact, drafts)


def _find_request(parent: JournalReader, change: AnotherAnswer) -> tuple[EventRow, int | None]:
    """Return the request of the change, and the seq of its answer if the change names the answer."""
    row = _find_row(parent, change.seq)
    return (_find_row(parent, parent.link(row).parent or 0), row.seq) if row.kind in ANSWERS else (row, None)


def _find_answer(parent: JournalReader, request: int) -> int | None:
    for row in parent.store.scan(parent.namespace, parent.run, request + 1, contents=False):
        if row.kind in ANSWERS and parent.link(row).parent == request:
            return row.seq
    return None


def _find_first_chunk(parent: JournalReader, request_row: EventRow, latest: int) -> int | None:
    """Return the seq of a stream's first chunk: the fork with another answer must begin before it."""
    key = parent.link(request_row).key
    for row in parent.store.scan(parent.namespace, parent.run, request_row.seq + 1, latest + 1, contents=False):
        if row.kind != "ChunkReceived":
            continue
        request = parent.link(row).parent
        if request == request_row.seq or (
            request is None and getattr(parent.event(row.seq).event, "action_id", None) == key
        ):
            return row.seq
    return None


def _has_single_answer(parent: JournalReader, answer: int | None) -> bool:
    """Return True for a streamed HTTP response, whose answer is the response. A tool's stream is a list of chunks."""
    event = parent.event(answer).event if answer is not None else None
    return isinstance(event, ActionSucceeded) and not isinstance(event.output, list)


def _make_chunks(request: Event, change: AnotherAnswer) -> list[ChunkReceived]:
    if change.error is not None:
        return []
    if not isinstance(change.value, list):
        raise InvalidInput(
            "the answer to a stream is the list of its chunks", hint='Such as ["Hello", " world"].', code="bad_change"
        )
    key = str(getattr(request, "action_id", ""))
    return [ChunkReceived(key, number, chunk) for number, chunk in enumerate(change.value)]


def _make_answer_event(request: Event, change: AnotherAnswer) -> Event:
    key = getattr(request, request.pair_id) if request.pair_id is not None else ""
    if request.kind == "WaitCreated":
        return WaitResolved(key, _make_resolution(key, change))
    if request.kind == "Interrupted":
        return Resumed(change.value)
    return ActionSucceeded(key, change.value) if change.error is None else ActionFailed(key, change.error)


def _make_resolution(key: str, change: AnotherAnswer) -> dict[str, Any]:
    if change.error is not None:
        return {"status": "error", "value": str(change.error)}
    if "/wait_first:" not in key:
        return {"status": "ok", "value": change.value}
    if not isinstance(change.value, Mapping) or set(change.value) != {"winner", "value"}:
        raise InvalidInput(
            "the answer to a wait for the first of several has the members winner and value",
            hint='Such as {"winner": "approve", "value": true}.',
            code="bad_change",
        )
    return {"status": "ok", **change.value}


def _check_copy(journal: Journal, parent: JournalReader, seq: int, change: Change | None) -> None:
    """Raise `Refused` unless the copied request matches the original."""
    assert isinstance(change, AnotherAnswer)
    copied, link = _find_row(journal, seq), journal.link(_find_row(journal, seq))
    request_row, _ = _find_request(parent, change)
    if copied.match != request_row.match or link.key != parent.link(request_row).key:
        raise Refused(
            f"the request at event {request_row.seq} of run {parent.run} cannot be copied from its record",
            hint="Classes of its values are not loaded here: load the program first.",
            code="not_copied",
        )


def _start_with_input(parent: JournalReader, at: int | None, change: AnotherInput) -> _ForkStart:
    request_row = _find_row(parent, change.seq)
    if request_row.kind != "ActionRequested" or request_row.match is None:
        raise InvalidInput(
            f"event {change.seq} of run {parent.run} is a {request_row.kind}: it has no input that can be changed",
            hint="Name the request of an effect.",
            code="bad_change",
        )
    position = _check_position(parent, request_row.seq - 1 if at is None else at)
    if position >= request_row.seq:
        raise BadPosition(
            f"event {request_row.seq} of run {parent.run}, whose input is changed, is not after position {position}"
        )
    occurrence = count_requests(parent, request_row.match, request_row.seq)
    fact = {
        "kind": REQUEST,
        "request": request_row.seq,
        "match": request_row.match.hex(),
        "occurrence": occurrence,
        "payload": change.payload,
    }
    return _ForkStart(position, fact)
