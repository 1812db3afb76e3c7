"""Beginning a run that comes from another one: a fork, or a live replay. Nothing of the agent runs here.

A fork shares its parent's events up to a position and has only its own behind it: to begin one costs the same wherever
that is. What it changes is part of its facts; an answer that is another one is among its first events, behind a copy of
the request it answers, so that the original answer is not in its past at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from reenact.core.events import (
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
from reenact.core.hashing import render
from reenact.core.links import ParentRun
from reenact.core.state import StateUpdatedOnlyReducer
from reenact.effect.tails import FACT, LIVE, Policy, check_mode, names_of
from reenact.effect.varying import ANSWER, MODEL, REQUEST, times_asked
from reenact.errors import BadPosition, InvalidInput, Refused
from reenact.journal.chain import Draft
from reenact.journal.journal import Journal
from reenact.journal.lineage import shared_stretches
from reenact.journal.reader import JournalReader
from reenact.store.contract import EventRow, Store

CHANGE = "change"


class AnotherAnswer(NamedTuple):
    """The request at `seq` of the parent (or the one that its event `seq` answers) is answered with this instead."""

    seq: int
    value: Any = None
    error: BaseException | None = None


class AnotherInput(NamedTuple):
    """The request at `seq` of the parent is made with this input instead."""

    seq: int
    payload: Any


class AnotherModel(NamedTuple):
    """Every model call behind the fork asks this model."""

    model: str


Change = AnotherAnswer | AnotherInput | AnotherModel


class _Beginning(NamedTuple):
    """What a fork begins with."""

    at: int
    fact: dict[str, Any] | None = None
    drafts: tuple[Draft, ...] = ()


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
    """Writes down a fork of `run` behind its event `at`, and returns its id. It goes on when it is resumed.

    Without `at` it is where the change takes effect; without a change it is the last event, or the one before the end.
    `facts` replace those of the parent.
    """
    parent = JournalReader(store, run, namespace)
    _check_reducer(parent)
    shared_stretches(parent)  # a fork of what cannot be read is not begun
    beginning = _beginning(parent, at, change)
    policy = Policy(run, beginning.at, check_mode(tail), names_of(live_tools))
    own = {
        **_inherited(parent, facts),
        FACT: policy.to_fact(),
        **({CHANGE: beginning.fact} if beginning.fact is not None else {}),
    }
    link = ParentRun(head=_head(parent, beginning.at), relation="fork", run=run, seq=beginning.at)
    with Journal.create(store, run_id, namespace, facts=own, parent=link, volatile=parent.rules().volatile) as journal:
        if beginning.drafts:
            appended = journal.append(list(beginning.drafts))
            _check_copied(journal, parent, appended[0].seq, change)
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
    """Writes down a run that replays `run` live, and returns its id. It does so when it is resumed."""
    parent = JournalReader(store, run, namespace)
    _check_reducer(parent)
    head, shared = parent.head(), shared_stretches(parent)
    policy = Policy(run, shared[0].shift if shared else 0, LIVE, names_of(live_tools), is_replay=True)
    own = {**_inherited(parent, facts), FACT: policy.to_fact()}
    if model is not None:
        own[CHANGE] = {"kind": MODEL, "model": model}
    link = ParentRun(head=render(head.hash), relation="replay", run=run, seq=head.seq)
    with Journal.create(store, run_id, namespace, facts=own, parent=link, volatile=parent.rules().volatile) as journal:
        return journal.run


def _inherited(parent: JournalReader, facts: Mapping[str, Any] | None) -> dict[str, Any]:
    known = parent.facts()
    if known is None:
        raise Refused(
            f"the facts of run {parent.run} were erased, and with them what it was called with", code="facts_erased"
        )
    return {name: fact for name, fact in {**known, **(facts or {})}.items() if name not in (FACT, CHANGE, "volatile")}


def _check_reducer(parent: JournalReader) -> None:
    if parent.header.reducer != StateUpdatedOnlyReducer.id:
        raise Refused(
            f"run {parent.run} folds its state with the reducer {parent.header.reducer!r}, and no fork can",
            hint="Read it with ReplayEngine and that reducer instead.",
            code="other_reducer",
        )


def _head(parent: JournalReader, at: int) -> str:
    if at == 0:
        return render(parent.header_row.hash)
    return render(_row(parent, at).hash)


def _row(reader: JournalReader, seq: int) -> EventRow:
    is_one = type(seq) is int and 0 < seq <= reader.head().seq
    row = reader.store.event(reader.namespace, reader.run, seq) if is_one else None
    if row is None:
        raise BadPosition(
            f"run {reader.run} has no event {seq}: its events are 1 to {reader.head().seq}",
            hint="`reenact show` lists them.",
        )
    return row


# Where, and what with


def _beginning(parent: JournalReader, at: int | None, change: Change | None) -> _Beginning:
    if change is not None and not isinstance(change, (AnotherAnswer, AnotherInput, AnotherModel)):
        raise InvalidInput(
            f"a {type(change).__name__} is no change of a fork",
            hint="Give an AnotherAnswer, AnotherInput or AnotherModel.",
            code="bad_change",
        )
    if isinstance(change, AnotherModel) and not change.model:
        raise InvalidInput("another model has a name", hint="Leave it out to ask the same one.", code="bad_change")
    if isinstance(change, AnotherAnswer):
        return _with_answer(parent, at, change)
    if isinstance(change, AnotherInput):
        return _with_input(parent, at, change)
    position = _position(parent, at)
    if change is None:
        return _Beginning(position)
    return _Beginning(position, {"kind": MODEL, "model": change.model})


def fork_position(parent: JournalReader, at: int | None, change: Change | None) -> int:
    """The last event that such a fork would share."""
    return _beginning(parent, at, change).at


def _position(parent: JournalReader, at: int | None) -> int:
    if at is None:
        last = parent.store.last_event(parent.namespace, parent.run)
        return 0 if last is None else last.seq - (last.kind in TERMINAL_KINDS)
    if type(at) is not int or at < 0:
        raise BadPosition(f"a fork begins behind an event, or at 0; there is no event {at}")
    if at and _row(parent, at).kind in TERMINAL_KINDS:
        raise BadPosition(
            f"run {parent.run} has ended with event {at}: there is nothing behind it",
            hint=f"Fork it at {at - 1}, before its end.",
        )
    return at


def _with_answer(parent: JournalReader, at: int | None, change: AnotherAnswer) -> _Beginning:
    asked, answer = _asked_and_answer(parent, change)
    if asked.kind not in OPENING_KINDS:
        raise InvalidInput(
            f"event {change.seq} of run {parent.run} is a {asked.kind}: it asks for nothing and answers nothing",
            hint="Name a request, or the event that answers it.",
            code="bad_change",
        )
    if answer is None:
        answer = _answer_of(parent, asked.seq)
    latest = answer - 1 if answer is not None else parent.head().seq
    if answer is None and at is None:
        latest = asked.seq
    chunk = _first_chunk(parent, asked, latest)
    latest = latest if chunk is None else chunk - 1
    position = _position(parent, latest if at is None else at)
    if not asked.seq <= position <= latest:
        raise BadPosition(
            f"the request at event {asked.seq} of run {parent.run} is open from there to {latest}, not at {position}",
            hint="Leave the position out, or fork between the request and its answer.",
        )
    request, link = parent.sequenced(asked), parent.link(asked)
    is_parted = chunk is not None and not _is_answered_as_a_whole(parent, answer)
    fact = {"kind": ANSWER, "event": answer if answer is not None else asked.seq, "request": asked.seq}
    drafts = (
        Draft(request.event, lane=link.lane, key=link.key),
        *(Draft(one, lane=link.lane) for one in (_chunks(request.event, change) if is_parted else ())),
        Draft(_answering(request.event, change), lane=link.lane),
    )
    return _Beginning(position, fact, drafts)


def _asked_and_answer(parent: JournalReader, change: AnotherAnswer) -> tuple[EventRow, int | None]:
    row = _row(parent, change.seq)
    return (_row(parent, parent.link(row).parent or 0), row.seq) if row.kind in ANSWERS else (row, None)


def _answer_of(parent: JournalReader, request: int) -> int | None:
    for row in parent.store.scan(parent.namespace, parent.run, request + 1, contents=False):
        if row.kind in ANSWERS and parent.link(row).parent == request:
            return row.seq
    return None


def _first_chunk(parent: JournalReader, asked: EventRow, latest: int) -> int | None:
    """Where the first part of it stands, if it is a stream: whoever is answered otherwise has seen none."""
    key = parent.link(asked).key
    for row in parent.store.scan(parent.namespace, parent.run, asked.seq + 1, latest + 1, contents=False):
        if row.kind == "ChunkReceived" and getattr(parent.event(row.seq).event, "action_id", None) == key:
            return row.seq
    return None


def _is_answered_as_a_whole(parent: JournalReader, answer: int | None) -> bool:
    """The answer of a tool that yields is the list of its parts. Of an HTTP response it is the response, which can be
    read part by part without there being any."""
    event = parent.event(answer).event if answer is not None else None
    return isinstance(event, ActionSucceeded) and not isinstance(event.output, list)


def _chunks(request: Event, change: AnotherAnswer) -> list[ChunkReceived]:
    if change.error is not None:
        return []
    if not isinstance(change.value, list):
        raise InvalidInput(
            "a stream is answered with all of its parts, in a list",
            hint='Such as ["Hello", " world"].',
            code="bad_change",
        )
    key = str(getattr(request, "action_id", ""))
    return [ChunkReceived(key, number, chunk) for number, chunk in enumerate(change.value)]


def _answering(request: Event, change: AnotherAnswer) -> Event:
    key = getattr(request, request.pair_id) if request.pair_id is not None else ""
    if request.kind == "WaitCreated":
        return WaitResolved(key, _resolution(key, change))
    if request.kind == "Interrupted":
        return Resumed(change.value)
    return ActionSucceeded(key, change.value) if change.error is None else ActionFailed(key, change.error)


def _resolution(key: str, change: AnotherAnswer) -> dict[str, Any]:
    if change.error is not None:
        return {"status": "error", "value": str(change.error)}
    if "/wait_first:" not in key:
        return {"status": "ok", "value": change.value}
    if not isinstance(change.value, Mapping) or set(change.value) != {"winner", "value"}:
        raise InvalidInput(
            "a wait for the first of several is answered with who won and with what",
            hint='Such as {"winner": "approve", "value": true}.',
            code="bad_change",
        )
    return {"status": "ok", **change.value}


def _check_copied(journal: Journal, parent: JournalReader, seq: int, change: Change | None) -> None:
    """The copy has to be found by whoever asks for the original."""
    assert isinstance(change, AnotherAnswer)
    copied, link = _row(journal, seq), journal.link(_row(journal, seq))
    asked, _ = _asked_and_answer(parent, change)
    if copied.match != asked.match or link.key != parent.link(asked).key:
        raise Refused(
            f"the request at event {asked.seq} of run {parent.run} cannot be made again from its record",
            hint="Its values are of classes that are not loaded here: load the program first.",
            code="not_copied",
        )


def _with_input(parent: JournalReader, at: int | None, change: AnotherInput) -> _Beginning:
    asked = _row(parent, change.seq)
    if asked.kind != "ActionRequested" or asked.match is None:
        raise InvalidInput(
            f"event {change.seq} of run {parent.run} is a {asked.kind}: it has no input that could be another one",
            hint="Name the request of an effect.",
            code="bad_change",
        )
    position = _position(parent, asked.seq - 1 if at is None else at)
    if position >= asked.seq:
        raise BadPosition(f"at {position} the request at event {asked.seq} of run {parent.run} has been made already")
    occurrence = times_asked(parent, asked.match, asked.seq)
    fact = {
        "kind": REQUEST,
        "request": asked.seq,
        "match": asked.match.hex(),
        "occurrence": occurrence,
        "payload": change.payload,
    }
    return _Beginning(position, fact)
