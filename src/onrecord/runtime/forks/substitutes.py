"""Serve effects from another run's record instead of executing them (fork tails and live replays).

Each effect is decided after its request was recorded, before it would be executed:

1. `stopped`: the run stops before its first new effect. `mocked`: no effect is executed; a request that the other
   record does not have stops the run. `live`: model calls, steps and named tools are executed; any other tool is served
   from the other record, or stops the run. So a replay never sends a mail by default.
2. A request is served by an equal request of the other record: the same kind, name and input, preferably the same key.
   Each answer is used once. An error is served as an error. A cancelled request of that record is never answered.
3. In a live replay, waits, sleeps and draws are inputs: they come from the other record as long as it has them.
4. A note (`stood_in`) records each served request, so that a resume does not use the same answer twice.
5. The policy belongs to its run and to the runs that it calls: it is one of their facts. A resume may change it. An
   interrupted effect may have begun if a policy that was in force since its request executes it.
"""

from __future__ import annotations

import asyncio
import functools
from _thread import allocate_lock
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from contextvars import Context, copy_context
from shlex import quote
from typing import TYPE_CHECKING, Any, NoReturn

from onrecord.core.events import ProcessAttached
from onrecord.errors import Damaged, NotFound, OnrecordError
from onrecord.journal.chain import Draft
from onrecord.journal.lineage import LONGEST
from onrecord.journal.reader import JournalReader
from onrecord.runtime.engine.context import EFFECT, current_effect, inside
from onrecord.runtime.engine.outcomes import class_missing, is_opaque
from onrecord.runtime.engine.stops import NotCarriedOut, NotReplayable, Suspended
from onrecord.runtime.forks.overrides import FACT as CHANGE
from onrecord.runtime.forks.overrides import MODEL, Overrides, load_overrides
from onrecord.runtime.forks.recorded_answers import SubstituteAnswer, SubstituteRecord, child_id
from onrecord.runtime.forks.tail_policy import (
    FACT,
    INPUT_KINDS,
    LIVE,
    MOCKED,
    STOPPED,
    TailPolicy,
    check_mode,
    check_tool_names,
)
from onrecord.runtime.replay.history import History, served_before
from onrecord.runtime.scheduler.drivers import threads

if TYPE_CHECKING:
    from onrecord.runtime.engine.open_effect import EffectSpec, MakeEvent, OpenEffect
    from onrecord.runtime.engine.run import LiveRun

_MEMBERS = {"ActionSucceeded": "output", "ActionFailed": "error", "WaitResolved": "resolution", "Resumed": "value"}


class Substitutes:
    """The substitutes of a fork or a live replay."""

    def __init__(self, run: LiveRun, policy: TailPolicy, history: History | None, overrides: Overrides) -> None:
        self._run = run
        self.policy = policy
        self._history = history
        self._earlier_policies: list[tuple[int, TailPolicy]] = []
        """The policies of earlier processes, each with the seq from which it was in force."""
        self._begun: set[OpenEffect] = set()
        """Effects that are being executed."""
        self._record: SubstituteRecord | None = None
        self._is_loaded = self._has_looked_back = False
        self._overrides = overrides
        self._lock = allocate_lock()  # never a lock of the agent
        self._arriving: list[tuple[int, asyncio.Future[None]]] = []

    @property
    def executes_nothing(self) -> bool:
        return self.policy.mode != LIVE

    @functools.cached_property
    def origin(self) -> str:
        """Return the first ancestor by fork or live replay. Idempotency keys of all these runs use its name."""
        run = self.policy.run
        for _ in range(LONGEST):
            with suppress(NotFound):
                reader = JournalReader(self._run.reader.store, run, self._run.reader.namespace)
                if reader.header.parent is not None and FACT in (facts := reader.facts() or {}):
                    run = TailPolicy.from_fact(facts[FACT]).run
                    continue
            return run
        raise Damaged(f"the lineage of run {self._run.name} has no beginning", code="endless_lineage")

    # Calls

    def substitute_call(
        self, spec: EffectSpec, make: MakeEvent, call: Callable[[], Any], *, blocking: bool = False
    ) -> tuple[MakeEvent, Callable[[], Any]]:
        """Return the request with its overrides, and a call that serves or executes the effect."""
        make, call = self._apply_overrides(spec, make, call)
        return make, self._wrap_blocking(spec, call) if blocking else self._wrap_async(spec, call)

    def substitute_stream(
        self, spec: EffectSpec, make: MakeEvent, generate: Callable[[], Any]
    ) -> tuple[MakeEvent, Callable[[], Any]]:
        make, generate = self._apply_overrides(spec, make, generate)
        return make, self._wrap_stream(spec, generate)

    def _apply_overrides(self, spec: EffectSpec, make: MakeEvent, call: Callable[[], Any]) -> tuple[MakeEvent, Any]:
        with self._run.lock:
            return self._overrides.apply(spec, make, call)

    def _wrap_async(self, spec: EffectSpec, call: Callable[[], Any]) -> Callable[[], Any]:
        async def serve_or_call() -> Any:
            answer = self._choose_answer()
            if answer is None:
                return await call()
            await self._wait_for_turn(answer)
            return self._decode(answer, spec)

        return serve_or_call

    def _wrap_blocking(self, spec: EffectSpec, call: Callable[[], Any]) -> Callable[[], Any]:
        def serve_or_call() -> Any:
            answer = self._choose_answer()
            return call() if answer is None else self._decode(answer, spec)

        return serve_or_call

    def _wrap_stream(self, spec: EffectSpec, generate: Callable[[], Any]) -> Callable[[], Any]:
        async def serve_or_generate() -> AsyncIterator[Any]:
            answer = self._choose_answer()
            if answer is None:
                async for chunk in generate():
                    yield chunk
                return
            record = self._load_record()
            assert record is not None
            with self._stopping_on_damage():
                chunks = list(record.chunks(answer))
            for chunk in chunks:
                yield chunk
            await self._wait_for_turn(answer)
            self._decode(answer, spec)  # raises the error that ended the stream

        return serve_or_generate

    def find_draw(self, lane: str, site: str) -> list[Any] | None:
        """Return the next draw of the other record in a list, or None if the value must be drawn now."""
        if self.policy.mode == LIVE and not self.policy.is_replay:
            return None
        with inside():
            record = self._load_record()
        return record.take_draw(lane, site) if record is not None else None

    def _skip_draws(self, record: SubstituteRecord) -> None:
        """Pass the values that earlier processes of this run were served: its own record has them."""
        if self._history is None:
            return
        own, first = self._history.reader, max(0, self._history.began_at) + 1
        drawn: Counter[tuple[str, str]] = Counter()
        for row in own.store.scan(own.namespace, own.run, first, self._history.last_seq + 1, contents=False):
            if row.kind == "ValuesDrawn":
                drawn.update((lane, site) for lane, site, _ in own.event(row.seq).event.content()["draws"])
        for (lane, site), count in drawn.items():
            for _ in range(count):
                record.take_draw(lane, site)

    @contextmanager
    def _stopping_on_damage(self) -> Iterator[None]:
        """Stop the run if the other record is damaged: the agent must not handle that error."""
        try:
            yield
        except Damaged as damage:
            self._run.stop_here(damage)

    # Deciding

    def _choose_answer(self) -> SubstituteAnswer | None:
        """Return the recorded answer to the current effect, or None if it is executed. Otherwise stop the run."""
        current = current_effect()
        assert current is not None
        effect, policy = current.effect, self.policy
        spec = effect.spec
        if policy.mode == STOPPED:
            hint = f"Continue it: onrecord resume {self._run.name} --tail live, or --tail mocked"
            reason = f"run {self._run.name} stopped before its first new effect, {spec.name}"
            self._stop_before(effect, Suspended(reason, hint=hint, code="fork_stopped"))
        if self.executes(spec):
            with self._run.lock:
                self._run.check_going_on()
                self._begun = {one for one in self._begun if self._run.effects.get(one.key) is one}
                self._begun.add(effect)
            return None
        answer = self._take(effect)
        if answer is not None:
            # The outcome is known: no retry, no timeout.
            effect.spec = spec._replace(retry=None, timeout_seconds=None)
            self._note(effect, answer)
            return answer
        if policy.mode == LIVE and spec.kind in INPUT_KINDS and (spec.kind == "sleep" or not policy.is_replay):
            return None
        self._stop_before(effect, self._make_refusal(spec))

    def executes(self, spec: EffectSpec) -> bool:
        return self.policy.executes(spec)

    def may_begin(self, spec: EffectSpec) -> bool:
        """Return False for an effect that may be executed once and is not under this policy: served, or stopped."""
        return self._history is None or self.executes(spec)

    def add_earlier_policy(self, at: int, policy: TailPolicy) -> None:
        self._earlier_policies.append((at, policy))

    def may_have_begun(self, effect: OpenEffect) -> bool:
        """Return True if a policy in force since the request executes the effect: an earlier process may have begun."""
        assert effect.recorded is not None
        requested_at = effect.recorded.row.seq
        before = [policy for at, policy in self._earlier_policies if at < requested_at]
        since = [policy for at, policy in self._earlier_policies if at > requested_at]
        return any(policy.executes(effect.spec) for policy in (*before[-1:], *since))

    def _take(self, effect: OpenEffect) -> SubstituteAnswer | None:
        event = self._run.secrets.redact_event(effect.event)
        match = self._run.rules.match_of(event.kind, event.content())
        record = self._load_record()
        if record is None:
            return None
        with self._lock:
            served_seq = self._find_served().get(effect.key)
            answer = record.find_taken(served_seq, event.kind, match) if served_seq is not None else None
            return answer or record.take(event.kind, match, effect.key)

    def _load_record(self) -> SubstituteRecord | None:
        """Return the other record, or None if that run does not exist (a child run that was never called there)."""
        with self._stopping_on_damage(), self._lock:
            if not self._is_loaded:
                self._is_loaded = True
                with suppress(NotFound):
                    reader = JournalReader(self._run.reader.store, self.policy.run, self._run.reader.namespace)
                    record = SubstituteRecord(reader, self.policy.after, set(self._find_served().values()))
                    self._skip_draws(record)
                    self._record = record
            return self._record

    def _find_served(self) -> dict[str, int]:
        """Return the answers (seq) that earlier processes served, by key.

        Notes before a checkpoint are read here, so that a run that needs no substitute never reads that far back.
        """
        history = self._history
        if history is None:
            return {}
        if history.began_at > 0 and not self._has_looked_back:
            self._has_looked_back = True
            history.served = {**served_before(history), **history.served}
        return history.served

    def _note(self, effect: OpenEffect, answer: SubstituteAnswer) -> None:
        detail = {"action": effect.key, "run": self.policy.run, "seq": answer.seq}
        with self._run.lock:
            if not self._run.is_stopped:
                self._run.note(ProcessAttached({"stood_in": detail}))

    def refuse_inside(self, name: str) -> None:
        """Stop the run if an executed effect calls a tool or an agent that was not named.

        A call inside an effect is not recorded, so no substitute can serve it.
        """
        if self.policy.mode != LIVE or name in self.policy.live_tools:
            return
        self._run.stop_here(
            NotCarriedOut(
                f"{name} was called inside another effect, where no record can serve it; it was not executed",
                hint=f"Allow it to run: onrecord resume {self._run.name} --live-tool {quote(name)}",
            )
        )

    def _stop_before(self, effect: OpenEffect, reason: OnrecordError) -> NoReturn:
        """Stop the run, and note that this effect and every other open one have not begun, so that none is in doubt."""
        run = self._run
        with run.lock:
            run.check_going_on()
            assert run.commits is not None
            not_begun = [effect, *(one for one in run.effects.values() if one is not effect and self._is_held(one))]
            known = run.history.digest.retries if run.history is not None else frozenset()
            notes = [ProcessAttached({"not_begun": one.key}) for one in not_begun if one.key not in known]
            run.commits.append([Draft(note, lane=run.kernel.root) for note in notes], sync=True)
            run.stop_here(reason)

    def _is_held(self, effect: OpenEffect) -> bool:
        """Return True for a committed request that may be executed once and was not."""
        is_open = effect.outcome is None and not effect.token.here
        return effect.spec.once and effect.request_seq > 0 and is_open and effect not in self._begun

    def _make_refusal(self, spec: EffectSpec) -> NotCarriedOut:
        missing = f"the record of run {self.policy.run[:128]} has no answer to {spec.name} with this input"
        if self.policy.mode == MOCKED:
            return NotCarriedOut(
                f"{missing}; a mocked tail executes nothing",
                hint=f"Continue live: onrecord resume {self._run.name} --tail live; --live-tool allows a tool to run",
                code="beyond_the_record",
            )
        return NotCarriedOut(
            f"{missing}; it was not executed, because it was not named",
            hint=f"Allow it to run: onrecord resume {self._run.name} --live-tool {quote(spec.name)}",
        )

    # Answering

    async def _wait_for_turn(self, answer: SubstituteAnswer) -> None:
        """Wait until the answers of concurrent requests are in recorded order. Never return for a cancelled request."""
        record, loop = self._load_record(), asyncio.get_running_loop()
        assert record is not None
        future: asyncio.Future[None] = loop.create_future()
        if answer.seq not in record.cancelled:
            with self._lock:
                self._arriving.append((record.answers[answer.seq], future))
            loop.call_soon(self._release_next, loop)
        await future

    def _release_next(self, loop: asyncio.AbstractEventLoop) -> None:
        """Release the earliest answer of this loop: each thread of the agent may have its own loop."""
        with self._lock:
            first = min((one for one in self._arriving if one[1].get_loop() is loop), key=lambda one: one[0])
            self._arriving.remove(first)
        if not first[1].done():
            first[1].set_result(None)

    def _decode(self, answer: SubstituteAnswer, spec: EffectSpec) -> Any:
        """Return the recorded value, or raise the recorded error."""
        record = self._load_record()
        assert record is not None
        with self._stopping_on_damage():
            kind, tree, reader = record.tree(record.answers[answer.seq])
        inner = tree.get(_MEMBERS[kind]) if tree is not None else None
        if tree is None or (kind != "ActionFailed" and is_opaque(inner)):
            message = f"the answer to event {answer.seq} of run {reader.run} was recorded without a usable value"
            self._run.stop_here(NotReplayable(message))
        missing: list[str] = []
        with self._stopping_on_damage():
            value = reader.decoded(inner, spec.annotation, missing=missing)
        if missing:
            self._run.stop_here(class_missing(missing, f"the answer to event {answer.seq}", reader.run))
        if kind == "ActionFailed":
            raise value if isinstance(value, BaseException) else OnrecordError(f"the effect failed: {value!r}")
        return value

    # Child runs

    def facts_for_child(self, effect: OpenEffect) -> dict[str, Any]:
        """Return the facts of a run that this effect calls. The run that was called there is its substitute."""
        answer = self._take(effect)
        if answer is not None:
            self._note(effect, answer)
        caller, key = self.policy.run, effect.key
        if answer is not None and self._record is not None:
            caller, key = self._record.owner(answer), answer.key
        child = child_id(f"{caller}/{key}")
        model = self._overrides.model
        change = {CHANGE: {"kind": MODEL, "model": model}} if model is not None else {}
        return {FACT: self.policy._replace(run=child, after=0).to_fact(), **change}


def _find_effect_context() -> Context | None:
    """Return the context of an effect under a tail policy: its threads must not call tools that were not named."""
    current = EFFECT.get()
    return copy_context() if current is not None and current.run.substitutes is not None else None


threads.find_effect_context = _find_effect_context


def load_substitutes(run: LiveRun, *, mode: str | None = None, tools: Iterable[str] = ()) -> Substitutes | None:
    """Return the substitutes of a fork or a live replay, or None for an ordinary run.

    Another mode and further tools are recorded before they take effect.
    """
    parent = run.reader.header.parent
    if parent is None:
        return None
    facts, history = run.reader.facts() or {}, run.history
    if FACT not in facts:
        if parent.relation in ("fork", "replay"):
            raise Damaged(f"the facts of run {run.name} have no tail policy", code="bad_content")
        return None
    recorded = [(0, facts[FACT])]
    if history is not None and history.began_at > 0:
        recorded = [(history.began_at, (history.carried or {}).get(FACT, facts[FACT]))]
    recorded += history.policies if history is not None else ()
    policies = [(at, TailPolicy.from_fact(fact)) for at, fact in recorded]
    policy, caller = policies[-1][1], current_effect()
    if caller is not None and caller.run.substitutes is not None:  # a called run has its caller's policy
        mode, tools = caller.run.substitutes.policy.mode, caller.run.substitutes.policy.live_tools
    wanted = policy._replace(
        mode=check_mode(mode or policy.mode), live_tools=policy.live_tools | check_tool_names(tools)
    )
    if wanted != policy and run.journal is not None:
        run.note(ProcessAttached({FACT: wanted.to_fact()}))
    substitutes = Substitutes(run, wanted, history, load_overrides(run, facts, policy.run))
    for at, one in policies:
        substitutes.add_earlier_policy(at, one)
    return substitutes
