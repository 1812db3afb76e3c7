"""Override requests of a fork: one request with another input, or every model call with another model.

The change is a fact of the fork. It is applied before the request is looked up in the record: the program makes its
usual request, and the record holds the changed one.

The events that a fork shares with its parent were recorded without the change. A model override therefore computes the
match digests that the shared requests would have with the other model.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from onrecord.core.codec import encode
from onrecord.core.events import ActionRequested, Event
from onrecord.errors import Damaged, InvalidInput
from onrecord.journal.lineage import Stretch, shared_stretches
from onrecord.journal.reader import JournalReader
from onrecord.runtime.engine.context import current_effect

if TYPE_CHECKING:
    from onrecord.core.matching import MatchRules
    from onrecord.runtime.engine.open_effect import EffectSpec, MakeEvent
    from onrecord.runtime.engine.run import LiveRun
    from onrecord.runtime.replay.history import History
    from onrecord.runtime.replay.records import RecordedRequest

FACT = "change"
REQUEST, MODEL, ANSWER = "request", "model", "answer"
MODEL_CALL = "model_call"


class RequestOverride:
    """A change of requests. `apply` is called for every request of the program, with the run's lock held."""

    def apply(self, spec: EffectSpec, make: MakeEvent, call: Callable[[], Any]) -> tuple[MakeEvent, Callable[[], Any]]:
        raise NotImplementedError


class InputOverride(RequestOverride):
    """Override the input of the n-th request with this match digest."""

    def __init__(self, rules: MatchRules, match: bytes, occurrence: int, payload: Any) -> None:
        self._rules = rules
        self._match = match
        self._left = occurrence
        self._payload = payload

    def apply(self, spec: EffectSpec, make: MakeEvent, call: Callable[[], Any]) -> tuple[MakeEvent, Callable[[], Any]]:
        event = make("")
        if self._left <= 0 or self._rules.match_of(event.kind, event.content()) != self._match:
            return make, call
        self._left -= 1
        return (make, call) if self._left else (_replace_payload(make, self._payload), bind_call(call, self._payload))


class ModelOverride(RequestOverride):
    """Override the model of every model call."""

    def __init__(self, model: str) -> None:
        self.model = model

    def apply(self, spec: EffectSpec, make: MakeEvent, call: Callable[[], Any]) -> tuple[MakeEvent, Callable[[], Any]]:
        if spec.kind != MODEL_CALL:
            return make, call
        payload = replace_model(getattr(make(""), "payload", None), self.model)
        return (make, call) if payload is None else (_replace_payload(make, payload), bind_call(call, payload))

    def adopt_history(self, history: History, rules: MatchRules) -> None:
        """Give each shared request the match digest that it has with the other model, when it is read."""

        def find_match(request: RecordedRequest) -> bytes | None:
            if request.match is None or request.kind != "ActionRequested":
                return request.match
            members = history.members(request.row)
            payload = replace_model(members.get("payload"), self.model) if members.get("effect") == MODEL_CALL else None
            if payload is None:
                return request.match
            return rules.match(request.kind, encode({**members, "payload": payload}).tree)

        history.find_shared_match = find_match


MODEL_DEPTH = 4
"""The depth of the search for a request's model: in an HTTP request it is in the JSON of the body."""


def replace_model(payload: Any, model: str, depth: int = MODEL_DEPTH) -> Any:
    """Return the input with its outermost `model` member replaced, or None if there is none."""
    if not isinstance(payload, Mapping) or not depth:
        return None
    if isinstance(payload.get("model"), str):
        return {**payload, "model": model}
    for within in range(1, depth):  # the outermost first
        for name, inner in payload.items():
            changed = replace_model(inner, model, within)
            if changed is not None:
                return {**payload, name: changed}
    return None


def _replace_payload(make: MakeEvent, payload: Any) -> MakeEvent:
    def made(key: str) -> Event:
        event = make(key)
        if not isinstance(event, ActionRequested):
            raise InvalidInput(f"a {event.kind} has no input that can be changed", code="bad_change")
        return ActionRequested(event.action_id, payload, event.name, event.effect, meta=event.meta)

    return made


def bind_call(call: Callable[[], Any], payload: Any) -> Callable[[], Any]:
    """Return a call of the effect's function with another input, or one that stops the run if it does not fit."""
    if not isinstance(call, functools.partial) or not isinstance(payload, Mapping):
        return _refuse_input
    signature = inspect.signature(call.func)
    bound = inspect.BoundArguments(signature, dict(payload))
    try:
        signature.bind(*bound.args, **bound.kwargs)
    except TypeError:
        return _refuse_input
    if not payload.keys() <= signature.parameters.keys():
        return _refuse_input
    return functools.partial(call.func, *bound.args, **bound.kwargs)


def _refuse_input() -> Any:
    current = current_effect()
    assert current is not None
    current.run.stop_here(
        InvalidInput(
            f"{current.effect.spec.name} cannot be executed with this input: its function does not accept it",
            hint="Change its answer or the program instead.",
            code="bad_change",
        )
    )


class Overrides(RequestOverride):
    """The overrides of the fork's ancestors and its own, applied in this order."""

    def __init__(self, overrides: Sequence[RequestOverride]) -> None:
        self._overrides = overrides

    def apply(self, spec: EffectSpec, make: MakeEvent, call: Callable[[], Any]) -> tuple[MakeEvent, Callable[[], Any]]:
        for override in self._overrides:
            make, call = override.apply(spec, make, call)
        return make, call

    @property
    def model(self) -> str | None:
        """Return the model of the last model override."""
        models = [one.model for one in self._overrides if isinstance(one, ModelOverride)]
        return models[-1] if models else None


def load_overrides(run: LiveRun, facts: Mapping[str, Any], replayed: str) -> Overrides:
    """Return the overrides in the facts of a run and of its ancestors. The replayed run is an ancestor of a replay."""
    reader = run.reader
    ancestors = [stretch.reader for stretch in shared_stretches(reader)]
    if reader.header.parent is not None and reader.header.parent.relation == "replay":
        original = JournalReader(reader.store, replayed, reader.namespace)
        ancestors = [*(stretch.reader for stretch in shared_stretches(original)), original]
    changes = [*((one.facts() or {}).get(FACT) for one in ancestors), facts.get(FACT)]
    overrides = [_parse_override(run, change) for change in changes if change is not None]
    return Overrides([one for one in overrides if one is not None])


def _parse_override(run: LiveRun, change: Any) -> RequestOverride | None:
    try:
        if change["kind"] == ANSWER:
            return None
        if change["kind"] == MODEL:
            override = ModelOverride(str(change["model"]))
            if run.history is not None:
                override.adopt_history(run.history, run.rules)
            return override
        match, occurrence = bytes.fromhex(change["match"]), int(change["occurrence"])
        history = run.history
        if history is not None and history.beginning is not None:  # requests before a checkpoint are not made again
            occurrence -= count_requests(run.reader, match, history.began_at)
        return InputOverride(run.rules, match, occurrence, change["payload"])
    except (TypeError, ValueError, LookupError, OverflowError) as error:
        raise Damaged(f"the change in the facts of run {run.name} cannot be read", code="bad_content") from error


def count_requests(reader: JournalReader, match: bytes, last: int) -> int:
    """Return the number of requests with that match digest up to the event `last`."""
    stretches = [*shared_stretches(reader), Stretch(reader, reader.head().seq, 0)]
    return sum(
        row.match == match and row.kind == "ActionRequested"
        for stretch in stretches
        if stretch.shift < last
        for row, _ in stretch._replace(last=min(stretch.last, last - stretch.shift)).rows(contents=False)
    )
