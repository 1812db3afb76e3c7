"""Estimate the cost of a fork, read a change from a patch, and fork any loaded agent (`runtime.forks.fork`)."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable
from typing import Any

from onrecord.analysis.compare.patches import apply_patch
from onrecord.core.codec import encode
from onrecord.core.events import ANSWERS, ActionFailed, ActionRequested, ActionSucceeded, Resumed, WaitResolved
from onrecord.errors import InvalidInput, NotFound
from onrecord.journal.reader import JournalReader, SequencedEvent
from onrecord.runtime.api.agent import find_agent
from onrecord.runtime.api.policy import find_usage
from onrecord.runtime.engine.stores import store_of
from onrecord.runtime.forks.fork import AnotherAnswer, AnotherInput, Change
from onrecord.runtime.forks.recorded_answers import child_id
from onrecord.runtime.forks.tail_policy import LIVE, executed_kinds
from onrecord.store.contract import Store


@dataclasses.dataclass(frozen=True, slots=True)
class ExpectedTail:
    """The effects of the parent run after the fork position: an estimate for the fork."""

    run: str
    at: int
    effects: int
    carried_out: dict[str, int]
    """Effects by name that would be executed."""
    answered: dict[str, int]
    """Effects by name that would be answered from the record, or stop the fork."""
    tokens: float
    cost: float
    """The recorded cost of the effects that would be executed."""
    untold: int
    """Model calls among them without recorded usage."""

    def to_data(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


def expected_tail(
    reader: JournalReader, at: int, *, tail: str = LIVE, live_tools: Iterable[str] = (), change: Change | None = None
) -> ExpectedTail:
    """Estimate the tail of a fork from the record, without executing anything.

    An effect whose answer the change replaces is not counted: it is not requested again.
    """
    reader.check_start(at + 1)
    live_names, kinds = frozenset(live_tools), executed_kinds()
    replaced_seq = change.seq if isinstance(change, AnotherAnswer) else 0
    carried_out: Counter[str] = Counter()
    answered: Counter[str] = Counter()
    spent: Counter[str] = Counter()
    untold = 0
    for row in reader.store.scan(reader.namespace, reader.run, at + 1):
        if row.kind not in ANSWERS:
            continue
        answer = reader.sequenced(row)
        if replaced_seq in (answer.seq, answer.parent):
            continue
        request = reader.event(answer.parent or 0)
        name, kind = _name_and_kind(request.event)
        if tail != LIVE or not (name in live_names or kind in kinds):
            answered[name] += 1
            continue
        carried_out[name] += 1
        usage: dict[str, float] = {}
        if isinstance(answer.event, ActionSucceeded) and kind != "process":  # a child run counts its own effects
            usage = find_usage(_model_answer(answer.event.output))
        spent.update(usage)
        untold += kind == "model_call" and not usage
        below = _expected_child_tail(reader, str(request.key), tail, live_names) if kind == "process" else None
        if below is not None:
            carried_out.update(below.carried_out)
            answered.update(below.answered)
            spent.update({"tokens": below.tokens, "cost": below.cost})
            untold += below.untold
    return ExpectedTail(
        reader.run,
        at,
        carried_out.total() + answered.total(),
        dict(carried_out),
        dict(answered),
        float(spent["tokens"]),
        float(spent["cost"]),
        untold,
    )


def _expected_child_tail(reader: JournalReader, key: str, tail: str, live_tools: frozenset[str]) -> ExpectedTail | None:
    """Return the estimate for a child run, or None if its run is not in this store."""
    try:
        child = JournalReader(reader.store, child_id(f"{reader.run}/{key}"), reader.namespace)
    except NotFound:
        return None
    return expected_tail(child, 0, tail=tail, live_tools=live_tools)


def _model_answer(output: Any) -> Any:
    """Return the model's answer, from the body if it is an HTTP response."""
    body = output.get("body") if isinstance(output, dict) else None
    return body["json"] if isinstance(body, dict) and "json" in body else output


def _name_and_kind(request: Any) -> tuple[str, str]:
    if isinstance(request, ActionRequested):
        return str(request.name or request.action_id), str(request.effect or "tool_call")
    return request.kind, "await_event"


def patched_change(reader: JournalReader, seq: int, patch: list[dict[str, Any]]) -> Change:
    """Return the change that an RFC 6902 patch makes to event `seq`: to a request's input or an answer's value."""
    event = reader.event(seq)
    member = _member(event)
    value = reader.decoded(apply_patch(encode(getattr(event.event, member)).tree, patch))
    if member == "payload":
        return AnotherInput(seq, value)
    if isinstance(event.event, WaitResolved):
        return AnotherAnswer(seq, value.get("value") if isinstance(value, dict) else value)
    return AnotherAnswer(seq, value)


def _member(event: SequencedEvent) -> str:
    kinds: dict[type, str] = {
        ActionRequested: "payload",
        ActionSucceeded: "output",
        WaitResolved: "resolution",
        Resumed: "value",
    }
    member = kinds.get(type(event.event))
    if member is None:
        hint = (
            "Answer it with --answer or --fail."
            if isinstance(event.event, ActionFailed)
            else "Name a request or an answer."
        )
        raise InvalidInput(
            f"event {event.seq} is a {event.kind}, which has no value to patch", hint=hint, code="bad_change"
        )
    return member


def fork(
    run_id: str, at: int | None = None, *, store: Store | str | None = None, namespace: str = "default", **options: Any
) -> Any:
    """Fork a run of any loaded agent after event `at`. Options are those of `Agent.fork`."""
    opened = store_of(store)
    facts = JournalReader(opened, run_id, namespace).facts() or {}
    if "agent" not in facts:
        raise InvalidInput(f"run {run_id} was not recorded by an agent", code="no_agent")
    return find_agent(facts["agent"]).fork(run_id, at, store=opened, namespace=namespace, **options)
