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
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from reenact.core.events import ANSWERS, OPENING_KINDS, ProcessAttached
from reenact.effect.outcomes import is_opaque
from reenact.effect.past import Past, stood_in_before
from reenact.effect.places import PLACE, Inside
from reenact.effect.recorded import CANCELLED
from reenact.effect.stopping import NotCarriedOut, NotReplayable, Suspended
from reenact.effect.varying import FACT as CHANGE
from reenact.effect.varying import MODEL, Variations, variations_of
from reenact.errors import Damaged, InvalidInput, NotFound, ReenactError
from reenact.journal.chain import Draft
from reenact.journal.lineage import LONGEST, Stretch, shared_stretches, stretch_of
from reenact.journal.reader import JournalReader

if TYPE_CHECKING:
    from reenact.core.links import Link
    from reenact.effect.live_run import LiveRun, MakeEvent
    from reenact.effect.tickets import EffectSpec, Ticket
    from reenact.store.contract import EventRow

LIVE, MOCKED, STOPPED = "live", "mocked", "stopped"
FACT = "standing_in"
DONE_AGAIN = frozenset({"model_call", "durable_step"})
_INPUTS = frozenset({"sleep", "await_event"})
_MEMBERS = {"ActionSucceeded": "output", "ActionFailed": "error", "WaitResolved": "resolution", "Resumed": "value"}


class Policy(NamedTuple):
    """How a run treats what its own record does not have."""

    run: str
    """Whose record stands in."""
    after: int = 0
    """From behind this event of it on."""
    mode: str = LIVE
    live_tools: frozenset[str] = frozenset()
    is_replay: bool = False

    def to_fact(self) -> dict[str, Any]:
        return {**self._asdict(), "live_tools": sorted(self.live_tools)}

    @classmethod
    def from_fact(cls, fact: Any) -> Policy:
        try:
            found = cls(**{**fact, "live_tools": frozenset(fact["live_tools"])})
            good = [type(value) for value in found] == _TYPES and len(fact) == len(_TYPES)
            if not good or found.mode not in (LIVE, MOCKED, STOPPED) or isinstance(fact["live_tools"], str):
                raise TypeError
        except (TypeError, LookupError) as error:
            raise Damaged("the facts of the run do not say what stands in for the world", code="bad_content") from error
        return found

    def carries_out(self, spec: EffectSpec) -> bool:
        """Whatever the other record has."""
        if self.mode != LIVE:
            return False
        if spec.name in self.live_tools or spec.kind == "process":
            return True  # a run that is called is held to the same
        if spec.kind in _INPUTS:
            return not self.is_replay
        return spec.kind in DONE_AGAIN and not spec.writes


_TYPES = [str, int, str, frozenset, bool]


def names_of(tools: Iterable[str]) -> frozenset[str]:
    """Tools by their names. One name is one tool, not a row of letters."""
    named = [tools] if isinstance(tools, str) else list(tools)
    if not all(isinstance(name, str) for name in named):
        raise InvalidInput("tools are given by their names", hint='Such as live_tools=["send_mail"].', code="bad_tool")
    return frozenset(named)


def check_mode(mode: str) -> str:
    if mode not in (LIVE, MOCKED, STOPPED):
        raise InvalidInput(f"a tail is {LIVE}, {MOCKED} or {STOPPED}, not {mode[:40]!r}", code="bad_tail")
    return mode


def carried_out_kinds() -> frozenset[str]:
    """Kinds of effects that are carried out in a live tail although nobody has named them."""
    return DONE_AGAIN | _INPUTS | {"process"}


class _Found(NamedTuple):
    """A request of the other record that has an answer."""

    seq: int
    key: str


def _found(row: EventRow, link: Link) -> _Found:
    return _Found(row.seq, link.key or str(row.seq))


class _Tail:
    """The other record, from some event on, by what was asked for. Read when it is first needed."""

    def __init__(self, reader: JournalReader, after: int, used: set[int]) -> None:
        self.reader = reader
        self._whole: Past | None = None
        self._stretches = [*shared_stretches(reader), Stretch(reader, reader.head().seq, 0)]
        self._used = used
        self.by_match: dict[tuple[str, bytes], deque[_Found]] = {}
        self.answers: dict[int, int] = {}
        self.given_up: set[int] = set()
        self.asked: dict[int, tuple[EventRow, Link]] = {}
        self.draws: dict[tuple[str, str], list[Any]] = {}
        try:
            self._read(after)
        except (TypeError, ValueError, LookupError, AttributeError, OverflowError) as error:
            raise Damaged(f"the record of run {reader.run} is not well formed", code="bad_content") from error

    def _read(self, after: int) -> None:
        asked = self.asked
        for row, link in self._rows(after):
            if row.kind in OPENING_KINDS:
                asked[row.seq] = row, link
            elif row.kind in ANSWERS and link.parent is not None:
                self.answers[link.parent] = row.seq
                if link.key == CANCELLED:
                    self.given_up.add(link.parent)
                if link.parent not in asked:  # it was under way where the other one parted
                    asked[link.parent] = self.event(link.parent)
            elif row.kind == "ValuesDrawn":
                for lane, kind, value in self.members(row.seq)["draws"]:
                    self.draws.setdefault((lane, kind), []).append(value)
        for seq in sorted(set(asked) & set(self.answers) - self._used):
            row, link = asked[seq]
            if row.match is not None:
                self.by_match.setdefault((row.kind, row.match), deque()).append(_found(row, link))

    def _rows(self, after: int) -> Iterator[tuple[EventRow, Link]]:
        for stretch in self._stretches:
            if after < stretch.last + stretch.shift:
                yield from stretch.rows(max(0, after - stretch.shift), contents=False)

    def take(self, kind: str, match: bytes, key: str) -> _Found | None:
        found = self.by_match.get((kind, match))
        if not found:
            return None
        one = next((one for one in found if one.key == key), found[0])
        found.remove(one)
        return one

    def taken_before(self, seq: int, kind: str, match: bytes) -> _Found | None:
        """What a process that died had taken for the same request."""
        row, link = self.asked.get(seq, (None, None))
        if row is None or link is None or seq not in self.answers or (row.kind, row.match) != (kind, match):
            return None
        return _found(row, link)

    def chunks(self, found: _Found) -> list[Any]:
        """The parts of a stream, as whoever read it there was handed them."""
        if self._whole is None:
            self._whole = Past.read(self.reader)
        request = self._whole.by_key.get(found.key)
        chunks = request.chunks if request is not None else ()
        return [self._whole.members(chunk.row)["chunk"] for chunk in chunks]

    def event(self, position: int) -> tuple[EventRow, Link]:
        stretch = stretch_of(self._stretches, position)
        reader = stretch.reader
        row = reader.store.event(reader.namespace, reader.run, position - stretch.shift)
        if row is None:
            raise Damaged(f"event {position - stretch.shift} of run {reader.run} is missing", code="missing_event")
        return stretch.placed(row) if stretch.shift else (row, reader.link(row))

    def owner(self, found: _Found) -> str:
        """The run that asked for it: the other one, or one that it was forked from."""
        return stretch_of(self._stretches, found.seq).reader.run

    def tree(self, position: int) -> tuple[str, Any, JournalReader]:
        """Kind and encoded content of an event, and who reads it."""
        stretch = stretch_of(self._stretches, position)
        row, link = self.event(position)
        return row.kind, stretch.reader.tree_of(row, link.content), stretch.reader

    def members(self, position: int) -> Any:
        _, tree, reader = self.tree(position)
        if tree is None:
            raise NotReplayable(f"the content of event {position} of run {reader.run} was erased")
        return reader.decoded(tree)


class StandIns:
    def __init__(self, run: LiveRun, policy: Policy, past: Past | None, variations: Variations) -> None:
        self._run = run
        self.policy = policy
        self._past = past
        self._in_force: list[tuple[int, Policy]] = []
        """Policies by which the run went on before, and where it was told of them."""
        self._begun: set[Ticket] = set()
        """What is being carried out."""
        self._tail: _Tail | None = None
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

    def _decided(self) -> _Found | None:
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
        if policy.mode == LIVE and spec.kind in _INPUTS and (spec.kind == "sleep" or not policy.is_replay):
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

    def _take(self, ticket: Ticket) -> _Found | None:
        event = self._run.secrets.without(ticket.event)
        match = self._run.rules.match_of(event.kind, event.content())
        tail = self._record()
        if tail is None:
            return None
        with self._lock:
            before = self._stood_in().get(ticket.key)
            found = tail.taken_before(before, event.kind, match) if before is not None else None
            return found or tail.take(event.kind, match, ticket.key)

    def _record(self) -> _Tail | None:
        """None: there is none, as of a run that was never called there."""
        with self._stopped_by_damage(), self._lock:
            if not self._is_read:
                self._is_read = True
                with suppress(NotFound):
                    reader = JournalReader(self._run.reader.store, self.policy.run, self._run.reader.namespace)
                    self._tail = _Tail(reader, self.policy.after, set(self._stood_in().values()))
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

    def _note(self, ticket: Ticket, found: _Found) -> None:
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
                hint=f"If it may act: reenact resume {self._run.name} --live-tool {name}",
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
            hint=f"If it may act: reenact resume {self._run.name} --live-tool {spec.name}",
        )

    # Answering

    async def _in_recorded_order(self, found: _Found) -> None:
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

    def _opened(self, found: _Found, spec: EffectSpec) -> Any:
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


def child_id(idempotency_key: str) -> str:
    """The id of a run that an effect calls: it follows from the request."""
    return sha256(f"child\0{idempotency_key}".encode()).hexdigest()[:20]


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


__all__ = ["FACT", "LIVE", "MOCKED", "STOPPED", "Policy", "StandIns", "check_mode", "child_id", "stand_ins_of"]
