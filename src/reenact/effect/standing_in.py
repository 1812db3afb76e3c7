"""Another run's record stands in for the world: in the tail of a fork, and in a live replay.

What is to be done about an effect is decided when it would be carried out, after its request is on record:

1. `stopped`: the run stands still before its first new effect. `mocked`: nothing is ever carried out; what the other
   record does not have stops the run. `live`: model calls and steps are carried out, and so is every tool that was
   named; any other tool is answered from the other record, or stops the run. A replay never sends a mail by itself.
2. The other record answers a request that it has: the same kind, name and input, the same key before another one, each
   once. An error is answered as an error. What was given up there never comes here.
3. In a replay, waits, sleeps and drawn values are inputs: they come from the other record as long as it has them.
4. Which request was answered so is on record (`stood_in`), so that whoever comes back does not use it twice.
5. A policy belongs to its run, and to the runs that it calls: it is part of their facts. It may be changed when the run
   is resumed; whether an effect may have begun is told by those that were in force since it was asked for.
"""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from shlex import quote
from typing import TYPE_CHECKING, Any, NoReturn

from reenact.core.events import ProcessAttached
from reenact.effect.other_records import Found, OtherRecord, child_id
from reenact.effect.outcomes import is_opaque
from reenact.effect.past import Past, stood_in_before
from reenact.effect.places import PLACE, Inside
from reenact.effect.stopping import NotCarriedOut, NotReplayable, Suspended
from reenact.effect.tails import FACT, INPUTS, LIVE, MOCKED, STOPPED, Policy, check_mode, names_of
from reenact.effect.varying import FACT as CHANGE
from reenact.effect.varying import MODEL, Variations, variations_of
from reenact.errors import Damaged, NotFound, ReenactError
from reenact.journal.chain import Draft
from reenact.journal.lineage import LONGEST
from reenact.journal.reader import JournalReader

if TYPE_CHECKING:
    from reenact.effect.live_run import LiveRun
    from reenact.effect.tickets import EffectSpec, MakeEvent, Ticket

_MEMBERS = {"ActionSucceeded": "output", "ActionFailed": "error", "WaitResolved": "resolution", "Resumed": "value"}


class StandIns:
    def __init__(self, run: LiveRun, policy: Policy, past: Past | None, variations: Variations) -> None:
        self._run = run
        self.policy = policy
        self._past = past
        self._in_force: list[tuple[int, Policy]] = []
        """Policies by which the run went on before, and where it was told of them."""
        self._begun: set[Ticket] = set()
        """What is being carried out."""
        self._tail: OtherRecord | None = None
        self._is_read = self._has_looked_back = False
        self._variations = variations
        self._lock = threading.Lock()
        self._arriving: list[tuple[int, asyncio.Future[None]]] = []

    @property
    def touches_nothing(self) -> bool:
        return self.policy.mode != LIVE

    @functools.cached_property
    def origin(self) -> str:
        """The first of the runs that it goes on with, or does again: what they ask for is known by the same names."""
        run = self.policy.run
        for _ in range(LONGEST):
            with suppress(NotFound):
                reader = JournalReader(self._run.reader.store, run, self._run.reader.namespace)
                if reader.header.parent is not None and FACT in (facts := reader.facts() or {}):
                    run = Policy.from_fact(facts[FACT]).run
                    continue
            return run
        raise Damaged(f"the line of run {self._run.name} has no beginning", code="endless_lineage")

    # What an effect is carried out as

    def between(
        self, spec: EffectSpec, make: MakeEvent, call: Callable[[], Any], *, blocking: bool = False
    ) -> tuple[MakeEvent, Callable[[], Any]]:
        """The request as it is made here, and what carries it out."""
        make, call = self._varied(spec, make, call)
        return make, self._blocking(spec, call) if blocking else self._awaited(spec, call)

    def between_stream(
        self, spec: EffectSpec, make: MakeEvent, generate: Callable[[], Any]
    ) -> tuple[MakeEvent, Callable[[], Any]]:
        make, generate = self._varied(spec, make, generate)
        return make, self._yielding(spec, generate)

    def _varied(self, spec: EffectSpec, make: MakeEvent, call: Callable[[], Any]) -> tuple[MakeEvent, Any]:
        with self._run.lock:
            return self._variations.of(spec, make, call)

    def _awaited(self, spec: EffectSpec, call: Callable[[], Any]) -> Callable[[], Any]:
        async def stood_in() -> Any:
            found = self._decided()
            if found is None:
                return await call()
            await self._in_recorded_order(found)
            return self._opened(found, spec)

        return stood_in

    def _blocking(self, spec: EffectSpec, call: Callable[[], Any]) -> Callable[[], Any]:
        def stood_in() -> Any:
            found = self._decided()
            return call() if found is None else self._opened(found, spec)

        return stood_in

    def _yielding(self, spec: EffectSpec, generate: Callable[[], Any]) -> Callable[[], Any]:
        async def stood_in() -> AsyncIterator[Any]:
            found = self._decided()
            if found is None:
                async for chunk in generate():
                    yield chunk
                return
            tail = self._record()
            assert tail is not None
            with self._stopped_by_damage():
                chunks = list(tail.chunks(found))
            for chunk in chunks:
                yield chunk
            await self._in_recorded_order(found)
            self._opened(found, spec)  # raises what it ended with

        return stood_in

    def drawn(self, lane: str, kind: str, ordinal: int) -> Any:
        """The drawn value of the other record, in a list; None where it has none or the value is to be a new one."""
        if self.policy.mode == LIVE and not self.policy.is_replay:
            return None
        tail = self._record()
        values = tail.draws.get((lane, kind), ()) if tail is not None else ()
        return [values[ordinal]] if ordinal < len(values) else None

    @contextmanager
    def _stopped_by_damage(self) -> Iterator[None]:
        """What is wrong with the other record is not the agent's to handle."""
        try:
            yield
        except Damaged as damage:
            self._run.stop_here(damage)

    # Deciding

    def _decided(self) -> Found | None:
        """What of the other record answers the effect that is about to be carried out; None: it is carried out."""
        place = PLACE.get()
        assert isinstance(place, Inside)
        ticket, policy = place.ticket, self.policy
        spec = ticket.spec
        if policy.mode == STOPPED:
            hint = f"Go on: reenact resume {self._run.name} --tail live, or --tail mocked"
            reason = f"run {self._run.name} stands before its first new effect, {spec.name}"
            self._leave(ticket, Suspended(reason, hint=hint, code="fork_stopped"))
        if self.is_carried_out(spec):
            with self._run.lock:
                self._run.check_going_on()
                self._begun &= self._run.waiting
                self._begun.add(ticket)
            return None
        found = self._take(ticket)
        if found is not None:
            # What came of it is known: no second attempt, no limit of time.
            ticket.spec = spec._replace(retry=None, timeout_seconds=None)
            self._note(ticket, found)
            return found
        if policy.mode == LIVE and spec.kind in INPUTS and (spec.kind == "sleep" or not policy.is_replay):
            return None
        self._leave(ticket, self._not_carried_out(spec))

    def is_carried_out(self, spec: EffectSpec) -> bool:
        return self.policy.carries_out(spec)

    def was_told(self, at: int, policy: Policy) -> None:
        self._in_force.append((at, policy))

    def may_have_begun(self, ticket: Ticket) -> bool:
        """A process that died may have begun to carry it out: one of the policies since it was asked for lets it."""
        assert ticket.recorded is not None
        asked = ticket.recorded.row.seq
        before = [policy for at, policy in self._in_force if at < asked]
        since = [policy for at, policy in self._in_force if at > asked]
        return any(policy.carries_out(ticket.spec) for policy in (*before[-1:], *since))

    def _take(self, ticket: Ticket) -> Found | None:
        event = self._run.secrets.without(ticket.event)
        match = self._run.rules.match_of(event.kind, event.content())
        tail = self._record()
        if tail is None:
            return None
        with self._lock:
            before = self._stood_in().get(ticket.key)
            found = tail.taken_before(before, event.kind, match) if before is not None else None
            return found or tail.take(event.kind, match, ticket.key)

    def _record(self) -> OtherRecord | None:
        """None: there is none, as of a run that was never called there."""
        with self._stopped_by_damage(), self._lock:
            if not self._is_read:
                self._is_read = True
                with suppress(NotFound):
                    reader = JournalReader(self._run.reader.store, self.policy.run, self._run.reader.namespace)
                    self._tail = OtherRecord(reader, self.policy.after, set(self._stood_in().values()))
            return self._tail

    def _stood_in(self) -> dict[str, int]:
        """What was answered from the other record before this process. Behind a checkpoint that is looked up here: who
        needs nothing of the other record never reads so far back."""
        past = self._past
        if past is None:
            return {}
        if past.began_at > 0 and not self._has_looked_back:
            self._has_looked_back = True
            past.stood_in = {**stood_in_before(past), **past.stood_in}
        return past.stood_in

    def _note(self, ticket: Ticket, found: Found) -> None:
        said = {"action": ticket.key, "run": self.policy.run, "seq": found.seq}
        with self._run.lock:
            if not self._run.is_stopped:
                self._run.note(ProcessAttached({"stood_in": said}))

    def refuse_inside(self, name: str) -> None:
        """Within an effect that is carried out, a tool is simply called, or an agent: that goes past the record, and so
        only for tools that were named. A step that calls one is not done again in its name."""
        if self.policy.mode != LIVE or name in self.policy.live_tools:
            return
        self._run.stop_here(
            NotCarriedOut(
                f"{name} was called within another effect, and nothing stands in for it there: it is not carried out",
                hint=f"If it may act: reenact resume {self._run.name} --live-tool {quote(name)}",
            )
        )

    def _leave(self, ticket: Ticket, reason: ReenactError) -> NoReturn:
        """The run stops before the effect, and its record says so: nobody needs to find out whether it happened. That
        goes for whatever else has been asked for and does not begin any more."""
        run = self._run
        with run.lock:
            run.check_going_on()
            left = [ticket, *(one for one in run.waiting if one is not ticket and self._is_left(one))]
            new = [one.key for one in left if one.recorded is None or not one.recorded.not_begun]  # said once
            if new:
                run.write([Draft(ProcessAttached({"not_begun": key})) for key in new], sync=True)
            run.stop_here(reason)

    def _is_left(self, ticket: Ticket) -> bool:
        answered = ticket.recorded is not None and ticket.recorded.answer is not None
        return ticket.spec.once and ticket not in self._begun and ticket.answer is None and not answered

    def _not_carried_out(self, spec: EffectSpec) -> NotCarriedOut:
        asked = f"{spec.name} was asked for with an input that the record of run {self.policy.run[:128]} does not have"
        if self.policy.mode == MOCKED:
            return NotCarriedOut(
                f"{asked}; nothing is carried out in a mocked tail",
                hint=f"Go on live: reenact resume {self._run.name} --tail live; name tools that may act (--live-tool)",
                code="beyond_the_record",
            )
        return NotCarriedOut(
            f"{asked}; it is not carried out unasked",
            hint=f"If it may act: reenact resume {self._run.name} --live-tool {quote(spec.name)}",
        )

    # Answering

    async def _in_recorded_order(self, found: Found) -> None:
        """What is asked for together comes in the order in which it came there. What was given up never comes."""
        tail, loop = self._record(), asyncio.get_running_loop()
        assert tail is not None
        future: asyncio.Future[None] = loop.create_future()
        if found.seq not in tail.given_up:
            with self._lock:
                self._arriving.append((tail.answers[found.seq], future))
            loop.call_soon(self._arrive, loop)
        await future

    def _arrive(self, loop: asyncio.AbstractEventLoop) -> None:
        """A thread of the agent may have a loop of its own."""
        with self._lock:
            first = min((one for one in self._arriving if one[1].get_loop() is loop), key=lambda one: one[0])
            self._arriving.remove(first)
        if not first[1].done():
            first[1].set_result(None)

    def _opened(self, found: Found, spec: EffectSpec) -> Any:
        tail = self._record()
        assert tail is not None
        with self._stopped_by_damage():
            kind, tree, reader = tail.tree(tail.answers[found.seq])
        inner = tree.get(_MEMBERS[kind]) if tree is not None else None
        if tree is None or (kind != "ActionFailed" and is_opaque(inner)):
            what = f"the answer to event {found.seq} of run {reader.run} has no value that could be handed over again"
            self._run.stop_here(NotReplayable(what))
        with self._stopped_by_damage():
            value = reader.decoded(inner, spec.annotation)
        if kind == "ActionFailed":
            raise value if isinstance(value, BaseException) else ReenactError(f"the effect failed: {value!r}")
        return value

    # Runs that this one calls

    def fact_for_child(self, ticket: Ticket) -> dict[str, Any]:
        """What stands in for the world of a run that this effect calls: the one that was called there."""
        found = self._take(ticket)
        if found is not None:
            self._note(ticket, found)
        called_by, key = self.policy.run, ticket.key
        if found is not None and self._tail is not None:
            called_by, key = self._tail.owner(found), found.key
        child = child_id(f"{called_by}/{key}")
        model = self._variations.model
        change = {CHANGE: {"kind": MODEL, "model": model}} if model is not None else {}
        return {FACT: self.policy._replace(run=child, after=0).to_fact(), **change}


def stand_ins_of(run: LiveRun, *, mode: str | None = None, tools: Iterable[str] = ()) -> StandIns | None:
    """What stands in for the world, by the record of the run; None for an ordinary run. Another mode, or further tools,
    are on record before anything is carried out by them."""
    parent = run.reader.header.parent
    if parent is None:
        return None
    facts, past = run.reader.facts() or {}, run.past
    if FACT not in facts:
        if parent.relation in ("fork", "replay"):
            raise Damaged(f"the facts of run {run.name} do not say what stands in for the world", code="bad_content")
        return None
    told = [(0, facts[FACT])]
    if past is not None and past.began_at > 0:
        told = [(past.began_at, (past.carried or {}).get(FACT, facts[FACT]))]
    in_force = [(at, Policy.from_fact(fact)) for at, fact in (*told, *(past.standing_in if past is not None else ()))]
    policy, caller = in_force[-1][1], PLACE.get()
    if isinstance(caller, Inside) and caller.run.stand_ins is not None:  # a run that is called is held to the same
        mode, tools = caller.run.stand_ins.policy.mode, caller.run.stand_ins.policy.live_tools
    wanted = policy._replace(mode=check_mode(mode or policy.mode), live_tools=policy.live_tools | names_of(tools))
    if wanted != policy and run.journal is not None:
        run.note(ProcessAttached({FACT: wanted.to_fact()}))
    made = StandIns(run, wanted, past, variations_of(run, facts, policy.run))
    for at, one in in_force:
        made.was_told(at, one)
    return made
