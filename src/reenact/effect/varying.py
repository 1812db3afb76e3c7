"""A request that a fork makes otherwise than the program asks for it: another input once, or another model everywhere.

The change is a fact of the fork, and is made before anything is looked up in its record, whoever carries it: the
program asks as it always did, the record has what was really asked for.

What the fork shares with its parents was asked for without the change. Where the change touches everything, the shared
requests are known by what they would have been with it.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from reenact.core.codec import encode
from reenact.core.events import ActionRequested, Event
from reenact.effect.places import PLACE, Inside
from reenact.errors import Damaged, InvalidInput
from reenact.journal.lineage import Stretch, shared_stretches
from reenact.journal.reader import JournalReader

if TYPE_CHECKING:
    from reenact.core.matching import MatchRules
    from reenact.effect.live_run import LiveRun
    from reenact.effect.past import Past
    from reenact.effect.tickets import EffectSpec, MakeEvent

FACT = "change"
REQUEST, MODEL, ANSWER = "request", "model", "answer"
MODEL_CALL = "model_call"


class Variation:
    """Called with the run's lock held, for every request of the program."""

    def of(self, spec: EffectSpec, make: MakeEvent, call: Callable[[], Any]) -> tuple[MakeEvent, Callable[[], Any]]:
        raise NotImplementedError


class AnotherRequest(Variation):
    """The so-and-so-many-th request with that digest is made with another input."""

    def __init__(self, rules: MatchRules, match: bytes, occurrence: int, payload: Any) -> None:
        self._rules = rules
        self._match = match
        self._left = occurrence
        self._payload = payload

    def of(self, spec: EffectSpec, make: MakeEvent, call: Callable[[], Any]) -> tuple[MakeEvent, Callable[[], Any]]:
        event = make("")
        if self._left <= 0 or self._rules.match_of(event.kind, event.content()) != self._match:
            return make, call
        self._left -= 1
        return (make, call) if self._left else (_made_with(make, self._payload), called_with(call, self._payload))


class AnotherModel(Variation):
    """Every model call asks another model."""

    def __init__(self, model: str) -> None:
        self.model = model

    def of(self, spec: EffectSpec, make: MakeEvent, call: Callable[[], Any]) -> tuple[MakeEvent, Callable[[], Any]]:
        if spec.kind != MODEL_CALL:
            return make, call
        payload = with_model(getattr(make(""), "payload", None), self.model)
        return (make, call) if payload is None else (_made_with(make, payload), called_with(call, payload))

    def know(self, past: Past, rules: MatchRules) -> None:
        """What was asked for before the fork is found by what it would be now."""
        for request in past.by_key.values():
            if request.seq > 0 or request.kind != "ActionRequested":
                continue
            members = past.members(request.row)
            payload = with_model(members.get("payload"), self.model) if members.get("effect") == MODEL_CALL else None
            if payload is not None:
                request.match = rules.match(request.kind, encode({**members, "payload": payload}).tree)


MODEL_WITHIN = 4
"""How deep the model of a request is looked for: that of an HTTP request is in the JSON of its body."""


def with_model(payload: Any, model: str, depth: int = MODEL_WITHIN) -> Any:
    """The input with another model in it, in the outermost place that has one; None where there is none."""
    if not isinstance(payload, Mapping) or not depth:
        return None
    if isinstance(payload.get("model"), str):
        return {**payload, "model": model}
    for within in range(1, depth):  # the outermost first
        for name, inner in payload.items():
            changed = with_model(inner, model, within)
            if changed is not None:
                return {**payload, name: changed}
    return None


def _made_with(make: MakeEvent, payload: Any) -> MakeEvent:
    def made(key: str) -> Event:
        event = make(key)
        if not isinstance(event, ActionRequested):
            raise InvalidInput(f"a {event.kind} has no input that could be another one", code="bad_change")
        return ActionRequested(event.action_id, payload, event.name, event.effect, event.meta)

    return made


def called_with(call: Callable[[], Any], payload: Any) -> Callable[[], Any]:
    """What carries an effect out, with another input."""
    if not isinstance(call, functools.partial) or not isinstance(payload, Mapping):
        return _refused
    signature = inspect.signature(call.func)
    bound = inspect.BoundArguments(signature, dict(payload))
    try:
        signature.bind(*bound.args, **bound.kwargs)
    except TypeError:
        return _refused
    if not payload.keys() <= signature.parameters.keys():
        return _refused
    return functools.partial(call.func, *bound.args, **bound.kwargs)


def _refused() -> Any:
    place = PLACE.get()
    assert isinstance(place, Inside)
    place.run.stop_here(
        InvalidInput(
            f"{place.ticket.spec.name} cannot be carried out with another input than the program gave it",
            hint="Change its answer instead, or the program.",
            code="bad_change",
        )
    )


class Variations(Variation):
    """Several, one after the other: those of the runs that a fork comes from, and its own."""

    def __init__(self, variations: Sequence[Variation]) -> None:
        self._variations = variations

    def of(self, spec: EffectSpec, make: MakeEvent, call: Callable[[], Any]) -> tuple[MakeEvent, Callable[[], Any]]:
        for variation in self._variations:
            make, call = variation.of(spec, make, call)
        return make, call

    @property
    def model(self) -> str | None:
        """Which model is asked in the end."""
        found = [one.model for one in self._variations if isinstance(one, AnotherModel)]
        return found[-1] if found else None


def variations_of(run: LiveRun, facts: Mapping[str, Any], replayed: str) -> Variations:
    """What the facts of a run say that it asks for otherwise, and those of the runs that it goes on with. A live replay
    goes on with the one that it replays."""
    reader = run.reader
    line = [stretch.reader for stretch in shared_stretches(reader)]
    if reader.header.parent is not None and reader.header.parent.relation == "replay":
        above = JournalReader(reader.store, replayed, reader.namespace)
        line = [*(stretch.reader for stretch in shared_stretches(above)), above]
    changes = [*((one.facts() or {}).get(FACT) for one in line), facts.get(FACT)]
    found = [_variation(run, change) for change in changes if change is not None]
    return Variations([one for one in found if one is not None])


def _variation(run: LiveRun, change: Any) -> Variation | None:
    try:
        if change["kind"] == ANSWER:
            return None
        if change["kind"] == MODEL:
            another = AnotherModel(str(change["model"]))
            if run.past is not None:
                another.know(run.past, run.rules)
            return another
        match, occurrence = bytes.fromhex(change["match"]), int(change["occurrence"])
        if run.past is not None and run.past.beginning is not None:  # what was before is not asked for again
            occurrence -= times_asked(run.reader, match, run.past.began_at)
        return AnotherRequest(run.rules, match, occurrence, change["payload"])
    except (TypeError, ValueError, LookupError, OverflowError) as error:
        raise Damaged(f"the facts of run {run.name} do not say what it changes", code="bad_content") from error


def times_asked(reader: JournalReader, match: bytes, last: int) -> int:
    """How many requests with that digest there are up to a position."""
    stretches = [*shared_stretches(reader), Stretch(reader, reader.head().seq, 0)]
    return sum(
        row.match == match and row.kind == "ActionRequested"
        for stretch in stretches
        if stretch.shift < last
        for row, _ in stretch._replace(last=min(stretch.last, last - stretch.shift)).rows(contents=False)
    )
