"""Saying exactly where the program and its record part: what was expected, what came, and the first field that differs.

`expected` is what was recorded, `actual` what came now.
"""

from __future__ import annotations

import asyncio
import os
import sys
import traceback
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from onrecord.core.codec import encode
from onrecord.core.matching import VOLATILE_MEMBERS
from onrecord.runtime.engine.stops import Divergence, RecordCancelled, RecordEnded
from onrecord.runtime.replay.python_paths import INSTALLED, ONRECORD, PYTHONS
from onrecord.runtime.replay.records import HandOver, RecordedCheckpoint, RecordedMark, RecordedRequest, RecordedTurn
from onrecord.store.location import store_options

if TYPE_CHECKING:
    from onrecord.core.events import Event
    from onrecord.errors import OnrecordError
    from onrecord.runtime.engine.open_effect import EffectSpec
    from onrecord.runtime.engine.run import LiveRun
    from onrecord.runtime.scheduler.lanes import Lane

MOST_COMPARED = 64
MOST_LEAVES = 2000
NAME_CHARACTERS = 200
_BETWEEN = (ONRECORD, os.path.join(os.path.dirname(asyncio.__file__), ""))
"""Folders of the code between an agent and its call: this package and asyncio."""
_LIBRARIES = tuple(f"{folder}{os.sep}" for folder in PYTHONS + INSTALLED)


def conflicting_request(run: LiveRun, recorded: RecordedRequest, event: Event) -> Divergence:
    """The same key with another input."""
    assert run.past is not None
    expected, actual = run.past.members(recorded.row), encode(event.content()).tree
    path = first_difference(compared(encode(expected).tree), compared(actual))
    place = run.past.place_of(recorded.seq)
    return Divergence(
        f"run {run.name} asked for something else at {place} ({recorded.key}): {path or 'its kind'} differs",
        hint=_hint_of_threads(run),
        code="conflicting_request",
        seq=run.past.own_row(recorded.row).seq,
        key=recorded.key,
        lane=recorded.lane,
        expected=expected,
        actual=event.content(),
        path=path,
        line=source_line(),
    )


def unrecorded_request(run: LiveRun, lane: Lane, spec: EffectSpec, event: Event) -> Divergence:
    """A replay came to a call that the record does not have."""
    nearest = nearest_recorded(run, spec.name, event)
    near, path = "", None
    if nearest is not None and run.past is not None:
        near = f"; the nearest recorded call is {run.past.place_of(nearest.seq)} ({nearest.key})"
        members = run.past.members(nearest.row)
        path = first_difference(compared(encode(members).tree), compared(encode(event.content()).tree))
    return Divergence(
        f"run {run.name} never recorded this call of {spec.name}{near}",
        code="unrecorded_request",
        lane=lane.identity,
        actual=event.content(),
        nearest=run.past.own_row(nearest.row).seq if nearest is not None and run.past is not None else None,
        path=path,
        line=source_line(),
    )


def moved_request(run: LiveRun, recorded: RecordedRequest, earlier: RecordedRequest) -> Divergence:
    """The same call as was recorded, but before one that came before it."""
    assert run.past is not None
    place, before = run.past.place_of(recorded.seq), run.past.place_of(earlier.seq)
    return Divergence(
        f"run {run.name} asked for {place} ({recorded.key}) before {before} ({earlier.key}), which came first",
        hint="Put back what came first. If it only comes later now, a replay tolerates that: --loose=moved.",
        code="moved_request",
        seq=run.past.own_row(earlier.row).seq,
        key=recorded.key,
        lane=recorded.lane,
        expected=run.past.members(earlier.row),
        actual=run.past.members(recorded.row),
        line=source_line(),
    )


def conflicting_state(run: LiveRun, recorded: RecordedMark | RecordedCheckpoint, event: Event) -> Divergence:
    assert run.past is not None
    expected = run.past.members(recorded.row)
    path = first_difference(compared(encode(expected).tree), compared(encode(event.content()).tree))
    return Divergence(
        f"run {run.name} set another state at {run.past.place_of(recorded.seq)}: {path or 'its kind'} differs",
        code="conflicting_state",
        seq=run.past.own_row(recorded.row).seq,
        expected=expected,
        actual=event.content(),
        path=path,
        line=source_line(),
    )


def unrecorded_state(run: LiveRun, lane: Lane, event: Event) -> Divergence:
    return Divergence(
        f"run {run.name} never recorded this state",
        code="unrecorded_state",
        lane=lane.identity,
        actual=event.content(),
        line=source_line(),
    )


def unrecorded_checkpoint(run: LiveRun, lane: Lane, event: Event) -> OnrecordError:
    past = run.past
    assert past is not None
    entry = run.turns.next_recorded()
    beyond = beyond_the_record(run)
    if beyond is not None:
        return beyond
    return Divergence(
        f"run {run.name} came to a checkpoint that it never recorded here",
        code="unrecorded_checkpoint",
        seq=entry.seq if entry is not None and not isinstance(entry, RecordedTurn) else None,
        lane=lane.identity,
        actual=event.content(),
        line=source_line(),
    )


def beyond_the_record(run: LiveRun) -> RecordEnded | None:
    """Everything on record has been done again, and the agent's own end is not among it. None: it is still to come."""
    past = run.past
    assert past is not None
    if past.unmade or run.turns.next_recorded() is not None or not past.is_open_ended:
        return None
    return record_ended(run)


def record_ended(run: LiveRun) -> RecordEnded:
    past = run.past
    assert past is not None
    if past.was_cut_off:
        return RecordCancelled(f"run {run.name} was cancelled from outside at seq {past.last_seq}")
    return RecordEnded(f"the record of run {run.name} ends at seq {past.last_seq}, before its end")


def resting_too_early(run: LiveRun, failure: BaseException | None = None) -> Divergence:
    """The program waits, or has failed, and the record has requests that it did not make."""
    past = run.past
    assert past is not None
    failed = f"; before that it failed with {_failure_in_words(failure)}" if failure is not None else ""
    missing = [request for request in past.by_key.values() if not request.made]
    if missing:
        first = min(missing, key=lambda request: request.seq)
        held = f"; it asked for {run.held_name()} instead" if run.held_name() else ""
        place = past.place_of(first.seq)
        message = f"run {run.name} came to rest without the call recorded at {place} ({first.key}){held}{failed}"
        return Divergence(
            message,
            hint=_hint_of_threads(run),
            code="missing_request",
            seq=past.own_row(first.row).seq,
            key=first.key,
            lane=first.lane,
            expected=past.members(first.row),
            unmatched=[past.own_row(request.row).seq for request in missing][:100],
        )
    entry = run.turns.next_recorded()
    if entry is None:
        return Divergence(
            f"run {run.name} came to rest where the record has its end{failed}",
            code="no_end",
            seq=past.end.seq if past.end is not None else None,
        )
    return Divergence(
        f"run {run.name} came to rest before {_entry_in_words(entry)}, and nobody waits for it{failed}",
        hint=_hint_of_threads(run),
        code="nobody_waits",
        seq=entry.seq if entry is not None and not isinstance(entry, RecordedTurn) else None,
    )


def advise(run: LiveRun, divergence: Divergence) -> str:
    """Return what can be done about a divergence, as commands that work as printed."""
    reader, choices = run.reader, ["Put the recorded code back"]
    seq = divergence.where.get("seq") or divergence.where.get("nearest")
    if not reader.store.url.startswith("memory:"):
        options = store_options(reader.store.url, reader.namespace)
        if run.past is not None and run.past.end is None and "program" not in (reader.facts() or {}):
            choices.append(f"accept the new code: `onrecord resume {reader.run} --accept-code{options}`")
        if seq:
            choices.append(f"fork the run before this point: `onrecord fork {reader.run} --at {seq - 1}{options}`")
    return f"{'; or '.join(choices)}." if len(choices) > 1 else divergence.default_hint


def _failure_in_words(failure: BaseException) -> str:
    """Its class and the agent's own line. Its text is left out: it may quote what was recorded."""
    frames = traceback.extract_tb(failure.__traceback__)
    called = [frame for frame in frames if not frame.filename.startswith((*_BETWEEN, "<"))]
    own = [frame for frame in called if not frame.filename.startswith(_LIBRARIES)] or called
    if not own:
        return f"{type(failure).__name__}: it cannot be called with the recorded input"
    return f"{type(failure).__name__} at {os.path.basename(own[-1].filename)}:{own[-1].lineno}"


def _hint_of_threads(run: LiveRun) -> str:
    """Threads that had not asked for anything where a fork begins are known by the order in which they are begun."""
    if run.past is None or not run.past.is_forked or not run.past.births:
        return ""
    return (
        "If its threads are begun in another order every time, those that had not asked yet where the fork begins are "
        "taken for others: begin them in one order, or fork the run before they begin or after they end."
    )


def _entry_in_words(entry: HandOver | None) -> str:
    if isinstance(entry, RecordedRequest):
        return f"the answer to seq {entry.seq} ({entry.key}) was handed over"
    if isinstance(entry, RecordedTurn):
        return f"{entry.kind} {entry.ordinal} of lane {entry.lane} was handed over"
    if isinstance(entry, RecordedCheckpoint):
        return f"the checkpoint at seq {entry.seq}"
    return "what was recorded next"


def nearest_recorded(run: LiveRun, name: str, event: Event | None = None) -> RecordedRequest | None:
    """The recorded request that is most like this one. The same name goes before another, one that was not made again
    before one that was; then the one with most in common, then the earliest."""
    if run.past is None:
        return None
    every = list(run.past.by_key.values())
    unmade = [request for request in every if not request.made]
    places = (unmade, every if event is not None else [])
    named = ([request for request in place if f"/{name}/" in request.key] for place in places)
    return nearest_of(run, next(filter(None, (*named, *places)), []), name, event)


def nearest_of(
    run: LiveRun, requests: Sequence[RecordedRequest], name: str, event: Event | None
) -> RecordedRequest | None:
    known = sorted(requests, key=lambda request: request.seq)[:MOST_COMPARED]
    if event is None or len(known) < 2:
        return known[0] if known else None
    asked = _leaves(compared(encode(event.content()).tree))
    return max(known, key=lambda request: (_alike(run, request, name, asked), -request.seq))


def _alike(run: LiveRun, request: RecordedRequest, name: str, asked: set[tuple[str, str]]) -> float:
    """From 0 to 2: how much the names, and what is asked for, have in common."""
    from difflib import SequenceMatcher  # where something has parted

    assert run.past is not None
    other = request.key.partition("/")[2].rpartition("/")[0]
    names = SequenceMatcher(None, name[:NAME_CHARACTERS], other[:NAME_CHARACTERS], autojunk=False).ratio()
    reader, row = run.past.reader_of(request.row), run.past.own_row(request.row)
    tree = reader.content_tree(row, reader.link(row))
    recorded = _leaves(compared(tree)) if tree is not None else set()
    return names + len(asked & recorded) / max(1, len(asked | recorded))


def _leaves(tree: Any) -> set[tuple[str, str]]:
    """Places and what stands there, as many as there is time for."""
    found: set[tuple[str, str]] = set()
    todo = [("", tree)]
    while todo and len(found) < MOST_LEAVES:
        path, value = todo.pop()
        if isinstance(value, dict):
            todo += [(f"{path}/{_escaped(name)}", item) for name, item in value.items()]
        elif isinstance(value, list):
            todo += [(f"{path}/{index}", item) for index, item in enumerate(value)]
        else:
            found.add((path, repr(value)))
    return found


def compared(tree: Any) -> Any:
    """The part of a content that counts."""
    return {name: value for name, value in tree.items() if name not in VOLATILE_MEMBERS}


def first_difference(expected: Any, actual: Any, path: str = "") -> str | None:
    """The JSON pointer of the first place where two trees differ; None when they are equal."""
    todo = [(expected, actual, path)]
    while todo:
        left, right, here = todo.pop()
        if isinstance(left, dict) and isinstance(right, dict):
            for name in left:
                if name not in right:
                    return f"{here}/{_escaped(name)}"
            for name in right:
                if name not in left:
                    return f"{here}/{_escaped(name)}"
            todo += [(left[name], right[name], f"{here}/{_escaped(name)}") for name in reversed(left)]
        elif isinstance(left, list) and isinstance(right, list):
            shared = min(len(left), len(right))
            if len(left) != len(right):
                todo.append((None, 0, f"{here}/{shared}"))
            todo += [(left[index], right[index], f"{here}/{index}") for index in reversed(range(shared))]
        elif type(left) is not type(right) or left != right:
            return here or "/"
    return None


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


def source_line() -> str:
    """The line of the agent's own code that made the call, or of the library that did, if there is no other."""
    frame, found = sys._getframe(1), ""
    while frame is not None:
        file = frame.f_code.co_filename
        if not file.startswith((*_BETWEEN, "<")):
            found = found or f"{file}:{frame.f_lineno}"
            if not file.startswith(_LIBRARIES):
                return f"{file}:{frame.f_lineno}"
        frame = frame.f_back  # type: ignore[assignment]
    return found
