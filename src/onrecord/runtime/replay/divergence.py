"""Divergences in words: where the program and its record differ, what was expected, and the first differing field.

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
from onrecord.core.lane_names import shown_lane
from onrecord.core.matching import VOLATILE_MEMBERS
from onrecord.errors import OnrecordError
from onrecord.runtime.engine.stops import Divergence, RecordCancelled, RecordEnded
from onrecord.runtime.replay.history import seq_of
from onrecord.runtime.replay.in_doubt import effect_in_doubt
from onrecord.runtime.replay.python_paths import INSTALLED, ONRECORD, PYTHONS
from onrecord.runtime.replay.records import Asked, Recorded, RecordedRequest
from onrecord.runtime.scheduler.items import (
    CheckpointTaken,
    Diverged,
    EffectsInDoubt,
    Ended,
    Noted,
    RecordOver,
    Requested,
    Turn,
)
from onrecord.store.location import store_options

if TYPE_CHECKING:
    from onrecord.core.events import Event
    from onrecord.runtime.engine.run import LiveRun

MOST_COMPARED = 64
MOST_LEAVES = 2000
NAME_CHARACTERS = 200
_BETWEEN = (ONRECORD, os.path.join(os.path.dirname(asyncio.__file__), ""))
"""Folders of the code between an agent and its call: this package and asyncio."""
_LIBRARIES = tuple(f"{folder}{os.sep}" for folder in PYTHONS + INSTALLED)


def explain_stop(run: LiveRun, stop: Diverged | EffectsInDoubt | RecordOver) -> OnrecordError:
    """Return the reason of a stop that the kernel reports."""
    if isinstance(stop, EffectsInDoubt):
        return effect_in_doubt(run, stop.tokens[0].detail)
    if isinstance(stop, RecordOver):
        return record_ended(run)
    divergence = _DivergenceText(run, stop).make()
    if isinstance(divergence, Divergence) and divergence.hint == Divergence.default_hint:
        divergence.replace_hint(advise(run, divergence))
    return divergence


def record_ended(run: LiveRun) -> RecordEnded:
    history = run.history
    assert history is not None
    if history.was_cut_off:
        return RecordCancelled(f"run {run.name} was cancelled from outside at seq {history.last_seq}")
    return RecordEnded(f"the record of run {run.name} ends at seq {history.last_seq}, before its end")


class _DivergenceText:
    """Describe one divergence of the kernel in words."""

    def __init__(self, run: LiveRun, diverged: Diverged) -> None:
        assert run.history is not None
        self._run = run
        self._history = run.history
        self._stop = diverged
        self._lane = shown_lane(diverged.lane)

    def make(self) -> OnrecordError:
        expected, actual = self._stop.expected, self._stop.actual
        if isinstance(actual, Requested):
            return self._other_request(actual.digest)
        if isinstance(actual, Noted) and actual.digest.event.kind == "ActionDenied":
            return self._other_request(actual.digest)
        if isinstance(actual, (Noted, CheckpointTaken)):
            return self._other_state(actual)
        if isinstance(expected, Ended) and isinstance(actual, Ended):
            return self._other_end(expected.digest, actual.digest)
        if isinstance(expected, (Requested, Noted, CheckpointTaken)):
            return self._missing_act(expected)
        return self._not_awaited()

    # A request or a state that differs

    def _other_request(self, asked: Asked) -> OnrecordError:
        expected = self._stop.expected
        if isinstance(expected, Requested) and isinstance(expected.digest, RecordedRequest):
            recorded = expected.digest
            moved = self._find_moved(asked)
            if moved is not None:
                return self._moved_request(recorded, moved)
            if self._is_same_effect(recorded, asked):
                return self._conflicting_request(recorded, asked)
        return self._unrecorded_request(asked)

    def _is_same_effect(self, recorded: RecordedRequest, asked: Asked) -> bool:
        """Return True if the requests have one name: then their inputs differ."""
        members = self._history.members(recorded.row)
        return recorded.kind == asked.event.kind and members.get("name") == asked.event.content().get("name")

    def _find_moved(self, asked: Asked) -> RecordedRequest | None:
        """Return a later request of the lane that is the same as this one, under the same key."""
        for _, act in self._run.kernel.history.acts_of(self._stop.lane)[1:]:
            if isinstance(act, Requested) and act.key == self._stop.actual.key and act.digest == asked:
                found: RecordedRequest = act.digest
                return found
        return None

    def _conflicting_request(self, recorded: RecordedRequest, asked: Asked) -> Divergence:
        expected, actual = self._history.members(recorded.row), asked.event.content()
        path = first_difference(compared(encode(expected).tree), compared(encode(actual).tree))
        position = self._history.name_position(recorded.seq)
        return Divergence(
            f"run {self._run.name} asked for something else at {position} ({recorded.key}): "
            f"{path or 'its kind'} differs{self._in_lane()}",
            code="conflicting_request",
            seq=self._history.own_row(recorded.row).seq,
            key=recorded.key,
            lane=self._stop.lane,
            expected=expected,
            actual=actual,
            path=path,
            line=source_line(),
        )

    def _moved_request(self, earlier: RecordedRequest, recorded: RecordedRequest) -> Divergence:
        place, before = self._history.name_position(recorded.seq), self._history.name_position(earlier.seq)
        return Divergence(
            f"run {self._run.name} made the request of {place} ({recorded.key}) before that of {before} "
            f"({earlier.key}), which came first",
            hint="Put the earlier request back. If it only comes later now, a replay tolerates that: --loose=moved.",
            code="moved_request",
            seq=self._history.own_row(earlier.row).seq,
            key=recorded.key,
            lane=self._stop.lane,
            expected=self._history.members(earlier.row),
            actual=self._history.members(recorded.row),
            line=source_line(),
        )

    def _unrecorded_request(self, asked: Asked) -> Divergence:
        run, history = self._run, self._history
        name = str(asked.event.content().get("name") or asked.event.kind)
        nearest = nearest_recorded(run, name, asked.event)
        near, path, expected = "", None, None
        if nearest is not None:
            near = f"; the nearest recorded call is {history.name_position(nearest.seq)} ({nearest.key})"
            expected = history.members(nearest.row)
            path = first_difference(compared(encode(expected).tree), compared(encode(asked.event.content()).tree))
        stop_expected = self._stop.expected
        seq = None
        if isinstance(stop_expected, Requested):
            seq = history.own_row(stop_expected.digest.row).seq
        return Divergence(
            f"run {run.name} never recorded this call of {name}{self._in_lane()}{near}",
            code="unrecorded_request",
            seq=seq,
            lane=self._stop.lane,
            actual=asked.event.content(),
            nearest=history.own_row(nearest.row).seq if nearest is not None else None,
            path=path,
            line=source_line(),
        )

    def _other_state(self, actual: Noted | CheckpointTaken) -> OnrecordError:
        expected, event = self._stop.expected, actual.digest.event
        if type(expected) is type(actual):
            recorded = expected.digest
            members = self._history.members(recorded.row)
            path = first_difference(compared(encode(members).tree), compared(encode(event.content()).tree))
            position = self._history.name_position(recorded.seq)
            return Divergence(
                f"run {self._run.name} set another state at {position}: {path or 'its kind'} differs{self._in_lane()}",
                code="conflicting_state",
                seq=self._history.own_row(recorded.row).seq,
                lane=self._stop.lane,
                expected=members,
                actual=event.content(),
                path=path,
                line=source_line(),
            )
        what, code = "set a state", "unrecorded_state"
        if isinstance(actual, CheckpointTaken):
            what, code = "came to a checkpoint", "unrecorded_checkpoint"
        return Divergence(
            f"run {self._run.name} {what} that was not recorded here{self._in_lane()}",
            code=code,
            seq=self._expected_seq(),
            lane=self._stop.lane,
            actual=event.content(),
            line=source_line(),
        )

    # An act that is missing

    def _missing_act(self, expected: Requested | Noted | CheckpointTaken) -> Divergence:
        recorded: Recorded = expected.digest
        history, row = self._history, recorded.row
        position, doing = history.name_position(recorded.seq), self._stop.actual
        is_request = isinstance(expected, Requested)
        kind = "request" if is_request else "checkpoint" if isinstance(expected, CheckpointTaken) else "state"
        key = f" ({expected.key})" if isinstance(expected, Requested) else ""
        failed = ""
        if doing == "the agent ended" and self._run.failure is not None:
            failed = f"; before that it failed with {_failure_in_words(self._run.failure)}"
        return Divergence(
            f"run {self._run.name} did not make the {kind} recorded at {position}{key}: "
            f"lane {self._lane} {_doing_in_words(doing)}{failed}",
            code="missing_request" if is_request else "missing_state",
            seq=history.own_row(row).seq,
            key=expected.key if isinstance(expected, Requested) else None,
            lane=self._stop.lane,
            expected=history.members(row),
            unmatched=self._unmatched(),
        )

    def _unmatched(self) -> list[int]:
        """Return the seqs of recorded requests that were not made, at most a hundred."""
        unmade = self._run.kernel.history.unmade_requests()
        return [self._history.own_row(request.digest.row).seq for _, request in unmade[:100]]

    def _other_end(self, end: Recorded, asked: Asked) -> Divergence:
        event, is_same_kind = asked.event, end.kind == asked.event.kind
        expected = self._history.members(end.row)
        path = first_difference(encode(expected).tree, encode(event.content()).tree) if is_same_kind else None
        differs = f" ({path} differs)" if path else ""
        return Divergence(
            f"run {self._run.name} ended differently: recorded {end.kind} at seq {end.seq}, now {event.kind}{differs}",
            code="other_end",
            seq=end.seq,
            expected=expected,
            actual=event.content(),
            path=path or "/kind",
        )

    def _not_awaited(self) -> OnrecordError:
        expected, run = self._stop.expected, self._run
        if isinstance(expected, Ended) or expected == "an end":
            return Divergence(
                f"run {run.name} did not end where the record has its end: "
                f"lane {self._lane} {_doing_in_words(self._stop.actual)}",
                code="no_end",
                seq=self._history.end.seq if self._history.end is not None else None,
            )
        if isinstance(expected, Turn):
            delivery = f"{expected.kind} {expected.ordinal} of lane {shown_lane(expected.lane)}"
        else:
            delivery = f"the outcome of {getattr(expected, 'key', expected)}"
        return Divergence(
            f"run {run.name} does not wait for {delivery}, which was delivered at {self._position()}: "
            f"lane {self._lane} {_doing_in_words(self._stop.actual)}",
            code="not_awaited",
            seq=self._expected_seq(),
            lane=self._stop.lane,
        )

    def _position(self) -> str:
        position = self._stop.position
        return "the end of the record" if position is None else self._history.name_position(seq_of(position))

    def _expected_seq(self) -> int | None:
        position = self._stop.position
        return None if position is None or seq_of(position) <= 0 else seq_of(position)

    def _in_lane(self) -> str:
        return "" if self._stop.lane == self._run.kernel.root else f", in lane {self._lane}"


def _doing_in_words(doing: Any) -> str:
    return "ended" if doing == "the agent ended" else str(doing)


def advise(run: LiveRun, divergence: Divergence) -> str:
    """Return what can be done about a divergence, as commands that work as printed."""
    reader, choices = run.reader, ["Put the recorded code back"]
    seq = divergence.where.get("seq") or divergence.where.get("nearest")
    if not reader.store.url.startswith("memory:"):
        options = store_options(reader.store.url, reader.namespace)
        if run.history is not None and run.history.end is None and "program" not in (reader.facts() or {}):
            choices.append(f"accept the new code: `onrecord resume {reader.run} --accept-code{options}`")
        if seq:
            choices.append(f"fork the run before this point: `onrecord fork {reader.run} --at {seq - 1}{options}`")
    return f"{'; or '.join(choices)}." if len(choices) > 1 else divergence.default_hint


def _failure_in_words(failure: BaseException) -> str:
    """Return the class of an error and the agent's own line. Its text may quote recorded values."""
    frames = traceback.extract_tb(failure.__traceback__)
    called = [frame for frame in frames if not frame.filename.startswith((*_BETWEEN, "<"))]
    own = [frame for frame in called if not frame.filename.startswith(_LIBRARIES)] or called
    if not own:
        return f"{type(failure).__name__}: it cannot be called with the recorded input"
    return f"{type(failure).__name__} at {os.path.basename(own[-1].filename)}:{own[-1].lineno}"


def nearest_recorded(run: LiveRun, name: str, event: Event | None = None) -> RecordedRequest | None:
    """Return the recorded request that is most like this one.

    The same name goes before another, one that was not made again before one that was; then the one with most in
    common, then the earliest.
    """
    if run.history is None:
        return None
    unmade = [request.digest for _, request in run.kernel.history.unmade_requests()]
    made = [] if event is None else list(run.history.requests())
    named = ([request for request in some if f"/{name}/" in request.key] for some in (unmade, made))
    return nearest_of(run, next(filter(None, (*named, unmade, made)), []), name, event)


def nearest_of(
    run: LiveRun, requests: Sequence[RecordedRequest], name: str, event: Event | None
) -> RecordedRequest | None:
    known = sorted(requests, key=lambda request: request.seq)[:MOST_COMPARED]
    if event is None or len(known) < 2:
        return known[0] if known else None
    asked = _leaves(compared(encode(event.content()).tree))
    return max(known, key=lambda request: (_alike(run, request, name, asked), -request.seq))


def _alike(run: LiveRun, request: RecordedRequest, name: str, asked: set[tuple[str, str]]) -> float:
    """Return from 0 to 2 how much the names and the inputs have in common."""
    from difflib import SequenceMatcher  # loaded for a divergence

    assert run.history is not None
    other = request.key.partition("/")[2].rpartition("/")[0]
    names = SequenceMatcher(None, name[:NAME_CHARACTERS], other[:NAME_CHARACTERS], autojunk=False).ratio()
    reader, row = run.history.reader_of(request.row), run.history.own_row(request.row)
    tree = reader.content_tree(row, reader.link(row))
    recorded = _leaves(compared(tree)) if tree is not None else set()
    return names + len(asked & recorded) / max(1, len(asked | recorded))


def _leaves(tree: Any) -> set[tuple[str, str]]:
    """Return paths with their values, up to a limit."""
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
    """Return the part of a content that is compared."""
    return {name: value for name, value in tree.items() if name not in VOLATILE_MEMBERS}


def first_difference(expected: Any, actual: Any, path: str = "") -> str | None:
    """Return the JSON pointer of the first difference of two trees; None if they are equal."""
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


def is_between(file: str) -> bool:
    """Return True for code that is not the agent's own: this package and what Python brings along."""
    return file.startswith((*_BETWEEN, *_LIBRARIES, "<"))


def source_line() -> str:
    """Return the line of the agent's own code that made the call, or that of the library, if there is no other."""
    frame, found = sys._getframe(1), ""
    while frame is not None:
        file = frame.f_code.co_filename
        if not file.startswith((*_BETWEEN, "<")):
            found = found or f"{file}:{frame.f_lineno}"
            if not file.startswith(_LIBRARIES):
                return f"{file}:{frame.f_lineno}"
        frame = frame.f_back  # type: ignore[assignment]
    return found
