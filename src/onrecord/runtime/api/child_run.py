"""Child runs: agents called inside another agent's run. The call is an effect of the caller; its run is linked."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from onrecord.core.events import TERMINAL_KINDS, ActionRequested, ProcessAttached
from onrecord.core.hashing import render
from onrecord.core.links import ParentRun
from onrecord.errors import OnrecordError, RunExists
from onrecord.journal.reader import JournalReader
from onrecord.runtime.engine.boundary import perform, perform_blocking
from onrecord.runtime.engine.context import Inside, current_effect, current_lane
from onrecord.runtime.engine.open_effect import EffectSpec
from onrecord.runtime.engine.outcomes import class_missing
from onrecord.runtime.engine.run import LiveRun
from onrecord.runtime.engine.stops import Divergence, RunStopped, Suspended
from onrecord.runtime.engine.stores import store_of
from onrecord.runtime.forks.recorded_answers import child_id
from onrecord.runtime.forks.substitutes import load_substitutes
from onrecord.store.contract import EventRow, Store

if TYPE_CHECKING:
    from onrecord.runtime.api.agent import Agent


def call_as_child(agent: Agent[..., Any], args: Any, kwargs: Any) -> Any:
    """Call the agent as an effect. The id of the child run is derived from the request."""
    spec = EffectSpec(agent.name, "process", once=False)

    def make(key: str) -> ActionRequested:
        return ActionRequested(key, {"args": list(args), "kwargs": dict(kwargs)}, agent.name, "process")

    if agent.is_async:
        return perform(spec, make, lambda: _execute_child(agent, args, kwargs))
    return perform_blocking(spec, make, lambda: _execute_child(agent, args, kwargs))


def call_with_id(
    agent: Agent[..., Any],
    args: Any,
    kwargs: Any,
    begin: Callable[[], Any],
    run_id: str | None,
    store: Store | str | None,
) -> Any:
    """Call the agent as an effect, in a run whose id or store the caller chose."""
    spec = EffectSpec(agent.name, "process", once=run_id is None)

    def make(key: str) -> ActionRequested:
        payload = {"args": list(args), "kwargs": dict(kwargs), "run_id": run_id}
        return ActionRequested(key, payload, agent.name, "process", meta={"once": True} if spec.once else None)

    def begin_or_resume() -> Any:
        current = current_effect()
        assert current is not None
        opened = store_of(store if store is not None else agent._store)
        exists = run_id is not None and opened.run_row(agent.namespace, run_id) is not None
        if current.effect.recorded is not None and exists and run_id is not None:
            return agent.resume(run_id, store=opened)  # an earlier process began it
        return begin()

    return perform(spec, make, begin_or_resume) if agent.is_async else perform_blocking(spec, make, begin_or_resume)


def refuse_in_replay(agent: Agent[..., Any]) -> None:
    """Stop a replay that would start or resume a live run beside it."""
    lane = current_lane()
    if lane is not None and lane.run.touches_nothing:
        lane.run.stop_here(
            Divergence(
                f"the replay of {lane.run.name} would start or resume a live run of the agent {agent.name}",
                hint="Call the agent or its run() instead: these are effects. start() and resume() are not.",
                code="run_in_replay",
                lane=lane.name,
            )
        )


def _execute_child(agent: Agent[..., Any], args: Any, kwargs: Any) -> Any:
    """Begin or resume the child run, and return its result."""
    current = current_effect()
    assert current is not None
    assert current.run.journal is not None
    child = child_id(current.idempotency_key)
    if agent.is_async:
        return _execute_child_async(agent, current, child, args, kwargs)
    live = None
    try:
        live = _open_child(agent, current, child, args, kwargs)
        return agent.execute(live, args, kwargs) if live is not None else _read_child_outcome(agent, current.run, child)
    except Exception as error:
        _stop_unless_ended(agent, current.run, child, live, error)
    finally:
        _note_spending(agent, current.run, child, live)
    return _read_child_outcome(agent, current.run, child)


async def _execute_child_async(agent: Agent[..., Any], current: Inside, child: str, args: Any, kwargs: Any) -> Any:
    live, parent = None, current.run
    try:
        live = _open_child(agent, current, child, args, kwargs)
        if live is None:
            return await _read_child_outcome(agent, parent, child)
        return await agent.execute(live, args, kwargs)
    except Exception as error:
        _stop_unless_ended(agent, parent, child, live, error)
    finally:
        _note_spending(agent, parent, child, live)
    return await _read_child_outcome(agent, parent, child)


def _open_child(agent: Agent[..., Any], current: Inside, child: str, args: Any, kwargs: Any) -> LiveRun | None:
    """Create the child run or take it over. Return None if it has ended.

    Its facts hold redacted arguments, but it is executed with the real ones.
    """
    parent, journal = current.run, current.run.journal
    assert journal is not None
    last = journal.store.last_event(agent.namespace, child)
    if last is not None and last.kind in TERMINAL_KINDS:
        return None
    live = None
    if journal.store.run_row(agent.namespace, child) is None:
        head = journal.known_head
        link = ParentRun(head=render(head.hash), relation="child", run=journal.run, seq=head.seq)
        redact = parent.secrets.redact_for_child
        extra_facts = dict(parent.secrets.facts_for_child()) if agent.redaction is None else {}
        if parent.substitutes is not None:
            extra_facts.update(parent.substitutes.facts_for_child(current.effect) or {})
        with suppress(RunExists):  # an earlier process created it, and its write has arrived only now
            created = agent.create_run(redact(args), redact(kwargs), child, journal.store, link, extra_facts)
            live = LiveRun(created, guard=agent.make_guard(parent.guard))
            live.substitutes = load_substitutes(live)
    if live is None:
        live = agent.take_over(
            journal.store, child, agent.namespace, accepts_code=parent.accepts_code, parent_guard=parent.guard
        )
    if live is not None:
        live.secrets.adopt(parent.secrets)
    return live


def _note_spending(agent: Agent[..., Any], parent: LiveRun, child: str, live: LiveRun | None) -> None:
    """Record the spending of an ended child in the parent's journal, for the parent's budget."""
    if parent.guard is None or parent.is_stopped:
        return
    last = parent.reader.store.last_event(agent.namespace, child)
    if last is None or last.kind not in TERMINAL_KINDS:
        return
    with parent.lock:
        spent = parent.guard.count_child(
            child,
            live.guard if live is not None else None,
            lambda: JournalReader(parent.reader.store, child, agent.namespace),
        )
        if spent is not None:
            parent.note(ProcessAttached({"child": child, "spent": spent}))


def _read_child_outcome(agent: Agent[..., Any], parent: LiveRun, child: str) -> Any:
    reader = JournalReader(parent.reader.store, child, agent.namespace)
    last, missing = find_last_event(reader), list[str]()
    reader.decoded(reader.content_tree(last, reader.link(last)), missing=missing)
    if missing:
        parent.stop_here(class_missing(missing, f"the end at seq {last.seq}", child))
    return agent.read_outcome(reader, last, parent.secrets)


def _stop_unless_ended(
    agent: Agent[..., Any], parent: LiveRun, child: str, live: LiveRun | None, error: Exception
) -> None:
    """Raise the error if the child run failed with it. Return if another process has ended the run.

    Otherwise the child has only stopped, which is not an outcome: stop the parent, too.
    """
    row = parent.reader.store.run_row(agent.namespace, child)
    if row is None or (live is not None and live.ended and row.last is not None and row.last.kind == "Failed"):
        raise error
    if row.last is not None and row.last.kind in TERMINAL_KINDS:
        return
    reason = error if isinstance(error, OnrecordError) else Suspended(f"run {child} stopped: {error}")
    parent.stop(reason)
    raise RunStopped(reason) from error


def find_last_event(reader: JournalReader) -> EventRow:
    last = reader.store.last_event(reader.namespace, reader.run)
    assert last is not None
    return last
