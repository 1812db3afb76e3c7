"""What a fork would cost, and the change that a patch describes. To begin one is `reenact.effect.forking`."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable
from typing import Any

from reenact.core.codec import encode
from reenact.core.events import ANSWERS, ActionFailed, ActionRequested, ActionSucceeded, Resumed, WaitResolved
from reenact.effect.agents import find_agent
from reenact.effect.forking import AnotherAnswer, AnotherInput, Change, fork_position
from reenact.effect.open_stores import store_of
from reenact.effect.other_records import child_id
from reenact.effect.policy import usual_usage
from reenact.effect.tails import LIVE, carried_out_kinds
from reenact.errors import InvalidInput, NotFound
from reenact.journal.reader import JournalReader, SequencedEvent
from reenact.replays.comparing.patches import apply_patch
from reenact.store.contract import Store


@dataclasses.dataclass(frozen=True, slots=True)
class ExpectedTail:
    """What the run that is forked did behind that position: as much may be expected of the fork."""

    run: str
    at: int
    effects: int
    carried_out: dict[str, int]
    """Effects by name that would really be carried out."""
    answered: dict[str, int]
    """Effects by name that would be answered from the record, or stop the fork."""
    tokens: float
    cost: float
    """Of what would be carried out, as far as its results tell."""
    untold: int
    """Model calls among them whose results say nothing of it."""

    def to_data(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


def expected_tail(
    reader: JournalReader,
    at: int,
    *,
    tail: str = LIVE,
    live_tools: Iterable[str] = (),
    change: Change | None = None,
) -> ExpectedTail:
    """Read from the record; nothing is carried out. What an answer is given for instead is asked for by nobody."""
    reader.check_start(at + 1)
    named, kinds = frozenset(live_tools), carried_out_kinds()
    given = change.seq if isinstance(change, AnotherAnswer) else 0
    carried_out: Counter[str] = Counter()
    answered: Counter[str] = Counter()
    spent: Counter[str] = Counter()
    untold = 0
    for row in reader.store.scan(reader.namespace, reader.run, at + 1):
        if row.kind not in ANSWERS:
            continue
        answer = reader.sequenced(row)
        if given in (answer.seq, answer.parent):
            continue
        request = reader.event(answer.parent or 0)
        name, kind = _name_and_kind(request.event)
        if tail != LIVE or not (name in named or kind in kinds):
            answered[name] += 1
            continue
        carried_out[name] += 1
        usage: dict[str, float] = {}
        if isinstance(answer.event, ActionSucceeded) and kind != "process":  # a called agent's own effects tell
            usage = usual_usage(_answer_of_model(answer.event.output))
        spent.update(usage)
        untold += kind == "model_call" and not usage
        below = _expected_of_child(reader, str(request.key), tail, named) if kind == "process" else None
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


def _expected_of_child(reader: JournalReader, key: str, tail: str, live_tools: frozenset[str]) -> ExpectedTail | None:
    """What a called agent did; None where its run is not here."""
    try:
        child = JournalReader(reader.store, child_id(f"{reader.run}/{key}"), reader.namespace)
    except NotFound:
        return None
    return expected_tail(child, 0, tail=tail, live_tools=live_tools)


def _answer_of_model(output: Any) -> Any:
    """An answer that came by HTTP says it in its body."""
    body = output.get("body") if isinstance(output, dict) else None
    return body["json"] if isinstance(body, dict) and "json" in body else output


def _name_and_kind(request: Any) -> tuple[str, str]:
    if isinstance(request, ActionRequested):
        return str(request.name or request.action_id), str(request.effect or "tool_call")
    return request.kind, "await_event"


def patched_change(reader: JournalReader, seq: int, patch: list[dict[str, Any]]) -> Change:
    """The change that an RFC 6902 patch of event `seq` is: of a request its input, of an answer its value."""
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
    run_id: str,
    at: int | None = None,
    *,
    store: Store | str | None = None,
    namespace: str = "default",
    **options: Any,
) -> Any:
    """Goes another way from behind event `at` of a run of any agent that is loaded; options as of `Agent.fork`."""
    opened = store_of(store)
    facts = JournalReader(opened, run_id, namespace).facts() or {}
    if "agent" not in facts:
        raise InvalidInput(f"run {run_id} was not recorded by an agent", code="no_agent")
    return find_agent(facts["agent"]).fork(run_id, at, store=opened, namespace=namespace, **options)


__all__ = ["ExpectedTail", "expected_tail", "fork", "fork_position", "patched_change"]
