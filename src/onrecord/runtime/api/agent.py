"""Agents: functions whose runs are durable. Call one, or start, resume and replay it."""

from __future__ import annotations

import asyncio
import functools
import hashlib
import inspect
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, overload

from reenact.core.events import TERMINAL_KINDS, Completed, Failed
from reenact.core.links import ParentRun
from reenact.effect import traps
from reenact.effect.called_agents import CalledByAgents, last_event
from reenact.effect.earlier import past_to_resume
from reenact.effect.handles import RunHandle
from reenact.effect.keeping import keeper
from reenact.effect.lanes import Lane
from reenact.effect.live_run import LiveRun
from reenact.effect.open_stores import store_of
from reenact.effect.outcomes import is_opaque
from reenact.effect.past import Past
from reenact.effect.places import PLACE, Inside
from reenact.effect.policy import Guard, Policy
from reenact.effect.running import carry, carry_async
from reenact.effect.secrets import FACT as REDACTION_FACT
from reenact.effect.secrets import Secrets, secrets_of
from reenact.effect.standing_in import stand_ins_of
from reenact.effect.stopping import CodeChanged, Divergence, NotReplayable, RecordCancelled
from reenact.effect.tails import LIVE
from reenact.errors import InvalidInput, NotFound
from reenact.journal.journal import LEASE_SECONDS, Journal
from reenact.journal.reader import JournalReader
from reenact.store.contract import EventRow, Store

if TYPE_CHECKING:
    from reenact.effect.forking import Change
    from reenact.effect.redacting import Redaction

_agents: dict[str, Agent[..., Any]] = {}


P = ParamSpec("P")
R = TypeVar("R")


@overload
def agent(function: Callable[P, R], /) -> Agent[P, R]: ...


@overload
def agent(
    *,
    name: str | None = None,
    policy: Policy | None = None,
    store: Store | str | None = None,
    namespace: str = "default",
    lease_seconds: float = LEASE_SECONDS,
    redact: Redaction | bool | None = None,
) -> Callable[[Callable[P, R]], Agent[P, R]]: ...


def agent(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Makes a function an agent: each call of it is a durable run. `@agent` or `@agent(name=..., policy=...)`.

    `name` is what its runs are known by; `store` and `namespace` say where they are kept, `policy` what it may do,
    `redact` that secrets are kept out of the record. A process that dies is missed after `lease_seconds` at the latest.
    """
    if function is None:
        return functools.partial(agent, **options)
    return Agent(function, **options)


class Agent(CalledByAgents, Generic[P, R]):
    """A function whose runs are recorded, survive a crash, and can be replayed."""

    redacts_by_default = False

    def __init__(
        self,
        function: Callable[P, R],
        *,
        name: str | None = None,
        policy: Policy | None = None,
        store: Store | str | None = None,
        namespace: str = "default",
        lease_seconds: float = LEASE_SECONDS,
        redact: Redaction | bool | None = None,
    ) -> None:
        if not callable(function):
            raise InvalidInput(
                f"an agent is made of a function, not of {type(function).__name__}",
                hint="`@reenact.agent` stands before a function; options by name: `@reenact.agent(name=...)`.",
                code="bad_function",
            )
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise InvalidInput(
                f"{function.__qualname__} is a generator: it would do its work after its run has ended",
                hint="An agent returns its result; what it has to say meanwhile goes through a tool or its state.",
                code="generator_agent",
            )
        if policy is not None and not isinstance(policy, Policy):
            raise InvalidInput(
                f"`policy` of {function.__qualname__} is a Policy, not {type(policy).__name__}",
                hint="Such as policy=reenact.Policy(budget=reenact.Budget(calls=100)).",
                code="bad_policy",
            )
        functools.update_wrapper(self, function)
        self.function: Callable[..., Any] = function
        self.name = name or function.__qualname__.replace(".<locals>", "")
        self.policy = policy
        self.namespace = namespace
        self.lease_seconds = lease_seconds
        self.redaction: Redaction | None = None
        redact = redact if redact is not None else self.redacts_by_default
        if redact:
            from reenact.effect.redacting import redaction_of  # loaded for agents that need it

            self.redaction = redaction_of(redact)
        self.is_async = inspect.iscoroutinefunction(function)
        self.origin: Mapping[str, str] | None = None
        """Where whoever loaded the function found it; told by the facts of its runs, so that they can be resumed."""
        self._store = store
        self._code: dict[str, str] | None = None
        _agents[self.name] = self

    # Running

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """One run, from beginning to end. Inside another agent's run it is a linked run of its own."""
        place = PLACE.get()
        if type(place) is Inside and place.run.stand_ins is not None:
            place.run.stand_ins.refuse_inside(self.name)  # it would be a run of its own, held to nothing
        if type(place) is Lane and place.run.calls_agents_inline:
            return self.function(*args, **kwargs)  # type: ignore[no-any-return]
        made: R = self.as_child(args, kwargs) if type(place) is Lane else self._run(args, kwargs, None, None)
        return made

    def run(self, *args: Any, run_id: str | None = None, store: Store | str | None = None, **kwargs: Any) -> Any:
        """As calling it, with a say in the run's id and store. Inside another run that is an effect of that one."""
        place = PLACE.get()
        if type(place) is not Lane:
            return self._run(args, kwargs, run_id, store)
        if run_id is None and store is None:
            return self(*args, **kwargs)
        return self.as_own_run(args, kwargs, lambda: self._run(args, kwargs, run_id, store), run_id, store)

    def _run(self, args: Any, kwargs: Any, run_id: str | None, store: Store | str | None) -> Any:
        def begun() -> Any:
            live = LiveRun(self.begun(args, kwargs, run_id, store, None), guard=self.guard())
            return self.carried(live, args, kwargs)

        return _later(begun) if self.is_async else begun()

    def start(
        self, *args: Any, run_id: str | None = None, store: Store | str | None = None, **kwargs: Any
    ) -> RunHandle:
        """Begins a run in the background. It is on record when this returns."""
        self.refuse_in_replay()
        journal = self.begun(args, kwargs, run_id, store, None)
        live = LiveRun(journal, guard=self.guard())

        def work() -> Any:
            return self.carried(live, args, kwargs)

        return RunHandle(journal.run, journal.store, self.namespace, work, is_async=self.is_async)

    def resume(
        self,
        run_id: str,
        *,
        store: Store | str | None = None,
        namespace: str | None = None,
        pin_code: bool = False,
        accept_code: bool = False,
        tail: str | None = None,
        live_tools: Iterable[str] = (),
    ) -> Any:
        """Goes on with a run that was interrupted; what is on record is not done again. An ended run's result is
        given again.

        Code that has changed since may ask for something else than the record has: that is a divergence, nothing runs,
        and with the old code the run can still go on. `pin_code` refuses changed code from the start; `accept_code`
        drops what the new code does not ask for any more and goes on with it from there. A fork, or a live replay,
        may be told to go on otherwise than it began: with another `tail`, and with further `live_tools`.
        """
        self.refuse_in_replay()
        opened = store_of(store if store is not None else self._store)
        namespace = namespace or self.namespace
        reader = JournalReader(opened, run_id, namespace)
        last = opened.last_event(namespace, run_id)
        if last is not None and last.kind in TERMINAL_KINDS:
            return self.outcome(reader, last)
        if pin_code and self.has_changed(reader):
            raise CodeChanged(f"the code of {self.name} is not the one that recorded run {run_id}")
        given = self._input(reader, needed=True)
        live = self.taken_over(opened, run_id, namespace, accepts_code=accept_code, tail=tail, live_tools=live_tools)
        return self.carried(live, *given) if live is not None else self.outcome(reader, last_event(reader))

    def taken_over(
        self,
        store: Store,
        run: str,
        namespace: str,
        *,
        accepts_code: bool = False,
        above: Guard | None = None,
        tail: str | None = None,
        live_tools: Iterable[str] = (),
    ) -> LiveRun | None:
        """The run, held by this process. None: it has ended since somebody looked, and was let go of again."""
        journal = keeper.open_alone(store, run, namespace, self.lease_seconds)
        live = None
        try:
            guard = self.guard(above)
            past = past_to_resume(journal, guard)
            if past.end is None:
                found = LiveRun(journal, past=past, accepts_code=accepts_code, guard=guard)
                found.stand_ins = stand_ins_of(found, mode=tail, tools=live_tools)
                live = found
        finally:
            if live is None:  # nobody carries it: a record that cannot be read is not kept from others
                _release(journal)
        return live

    def has_changed(self, reader: JournalReader) -> bool:
        """The agent's code is not what it was when the run began."""
        recorded = (reader.facts() or {}).get("code")
        return recorded != self.code()

    def replay(
        self, run_id: str, *, store: Store | str | None = None, namespace: str | None = None, strict: bool = False
    ) -> Any:
        """Runs the code again on the record alone: nothing outside is touched, and the same must come out.

        Strict: the agent's code may not read the clock or draw chance by itself either.
        """
        opened = store_of(store if store is not None else self._store, to_read=True)
        reader = JournalReader(opened, run_id, namespace or self.namespace)
        live = LiveRun(reader, past=Past.read(reader))
        live.stand_ins = stand_ins_of(live)
        return self.carried(live, *self._input(reader), strict=strict)

    def fork(
        self,
        run_id: str,
        at: int | None = None,
        *,
        change: Change | None = None,
        tail: str = LIVE,
        live_tools: Iterable[str] = (),
        fork_id: str | None = None,
        store: Store | str | None = None,
        namespace: str | None = None,
    ) -> Any:
        """Goes another way from behind event `at` of a run: a run of its own, that shares what was before.

        What is shared is served; behind it, model calls and steps are carried out, and so are the tools that are named;
        other tools are answered from the run that was forked, or stop the fork. With `tail="mocked"` nothing is carried
        out at all, with `"stopped"` the fork stands before its first new effect. `resume` goes on with a stopped one.
        """
        self.refuse_in_replay()
        opened = store_of(store if store is not None else self._store)
        namespace = namespace or self.namespace
        self._input(JournalReader(opened, run_id, namespace))
        from reenact.effect.forking import begin_fork  # loaded when somebody forks

        fork = begin_fork(
            opened,
            run_id,
            at,
            namespace,
            change=change,
            tail=tail,
            live_tools=live_tools,
            run_id=fork_id,
            facts=self.own_facts(),
        )
        return self.resume(fork, store=opened, namespace=namespace)

    def replay_live(
        self,
        run_id: str,
        *,
        live_tools: Iterable[str] = (),
        model: str | None = None,
        live_run_id: str | None = None,
        store: Store | str | None = None,
        namespace: str | None = None,
    ) -> Any:
        """Does again what a run did, in a new run that names it: model calls and steps are carried out, and the tools
        that are named; whatever else comes from the record. `reenact.replays.live` compares the two."""
        self.refuse_in_replay()
        opened = store_of(store if store is not None else self._store)
        namespace = namespace or self.namespace
        self._input(JournalReader(opened, run_id, namespace))
        from reenact.effect.forking import begin_live_replay

        again = begin_live_replay(
            opened,
            run_id,
            namespace,
            live_tools=live_tools,
            model=model,
            run_id=live_run_id,
            facts=self.own_facts(),
        )
        return self.resume(again, store=opened, namespace=namespace)

    def outcome(self, reader: JournalReader, last: EventRow, asked_by: Secrets | None = None) -> Any:
        event, secrets = reader.sequenced(last).event, secrets_of(reader)
        if asked_by is not None and secrets.redacts:
            secrets.adopt(asked_by)
        if isinstance(event, Completed):
            return self._given(secrets.opened_value(reader, last, event.output, needed=False))
        if isinstance(event, Failed) and isinstance(event.error, BaseException):
            raise secrets.opened_value(reader, last, event.error, needed=False)
        raise InvalidInput(f"run {reader.run} ended with {last.kind}; there is no result", code="no_result")

    def _given(self, value: Any) -> Any:
        if not self.is_async:
            return value

        async def given() -> Any:
            return value

        return given()

    def carried(self, live: LiveRun, args: Any, kwargs: Any, *, strict: bool = False) -> Any:
        if live.secrets.redacts:
            given = [dict(zip(self._names, args, strict=False)), list(args), dict(kwargs)]
            live.secrets.know(self.redaction.values if self.redaction is not None else (), given)
        call: Callable[[], Any] = functools.partial(self.function, *args, **kwargs)
        if live.touches_nothing:
            call = traps.guarded(live, call, is_async=self.is_async, strict=strict)
        if self.is_async:
            return self._carry_async(live, call)
        try:
            self._keep(live)
            return carry(live, call)
        except Divergence as divergence:
            raise self._explained(live, divergence) from None
        except RecordCancelled:
            raise asyncio.CancelledError from None
        finally:
            _let_go(live)

    def _explained(self, live: LiveRun, divergence: Divergence) -> Divergence:
        """Where the code has changed since, that is what to look at first."""
        if not self.has_changed(live.reader):
            return divergence
        code = (live.reader.facts() or {}).get("code"), self.code()
        where = {**divergence.where, "recorded_code": code[0], "present_code": code[1]}
        message = f"{divergence.message}; the code of {self.name} has changed since it was recorded"
        return Divergence(message, hint=divergence.hint, code=divergence.code, **where)

    def _keep(self, live: LiveRun) -> None:
        if live.journal is not None:
            keeper.keep(live, self.lease_seconds)

    async def _carry_async(self, live: LiveRun, call: Callable[[], Any]) -> Any:
        try:
            self._keep(live)
            return await carry_async(live, call, functools.partial(_let_go, live))
        except Divergence as divergence:
            raise self._explained(live, divergence) from None
        except RecordCancelled:
            raise asyncio.CancelledError from None
        finally:
            _let_go(live)

    def guard(self, above: Guard | None = None) -> Guard | None:
        """What it may do in a run; what it spends counts for the runs above, too."""
        if self.policy is None and above is None:
            return None
        return (self.policy or Policy()).guard(above)

    def own_facts(self) -> dict[str, Any]:
        """What is known of whatever carries its runs."""
        facts: dict[str, Any] = {"code": self.code()}
        if self.origin is not None:
            facts["origin"] = dict(self.origin)
        if self.redaction is not None:
            facts[REDACTION_FACT] = self.redaction.to_fact()
        return facts

    def begun(
        self,
        args: Any,
        kwargs: Any,
        run_id: str | None,
        store: Store | str | None,
        parent: ParentRun | None,
        further: Mapping[str, Any] | None = None,
    ) -> Journal:
        facts: dict[str, Any] = {
            "agent": self.name,
            "input": {"args": list(args), "kwargs": dict(kwargs)},
            **self.own_facts(),
            **(further or {}),
        }
        originals: Mapping[str, Any] = {}
        if REDACTION_FACT in facts:
            from reenact.effect.redacting import without_secrets

            facts, originals = without_secrets(facts, self.redaction, self._names)
        journal = keeper.create_alone(
            store_of(store if store is not None else self._store),
            run_id,
            self.namespace,
            facts=facts,
            parent=parent,
            lease_seconds=self.lease_seconds,
        )
        if originals:
            from reenact.effect.redacting import seal_facts

            seal_facts(journal, originals)
        return journal

    @property
    def _names(self) -> list[str]:
        """Of the parameters that may be given by position."""
        found = inspect.signature(self.function).parameters.values()
        return [one.name for one in found if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]

    def code(self) -> dict[str, str]:
        """What the code is, so that a change can be named. Told once: what is loaded does not change any more."""
        if self._code is None:
            source = ""
            with suppress(OSError, TypeError):
                # The whole module: what the agent calls matters as much as what it says itself.
                source = inspect.getsource(inspect.getmodule(self.function) or self.function)
            self._code = {"function": self.name, "digest": f"sha256:{hashlib.sha256(source.encode()).hexdigest()}"}
        return self._code

    def check_recorded(self, reader: JournalReader) -> None:
        """Refuses a run that is not one of this agent's, or that cannot be called again."""
        self._input(reader)

    def _input(self, reader: JournalReader, *, needed: bool = False) -> tuple[list[Any], Mapping[str, Any]]:
        """What the agent was called with. Needed: not without the secrets that were in it."""
        facts = reader.facts()
        if facts is None or facts.get("agent") != self.name or "input" not in facts:
            raise InvalidInput(
                f"run {reader.run} is not one of the agent {self.name}",
                hint="`reenact show` tells which agent recorded it.",
                code="other_agent",
            )
        if is_opaque((reader.facts_tree() or {}).get("input")):
            raise NotReplayable(
                f"the input of run {reader.run} holds something of which only the type could be recorded",
                hint="Give agents plain values, and let them make clients and files themselves.",
            )
        given = secrets_of(reader).opened_facts(reader, facts["input"], needed=needed)
        return given["args"], given["kwargs"]


async def _later(begin: Callable[[], Any]) -> Any:
    """Nothing is begun before somebody awaits it: a coroutine may be thrown away unused."""
    return await begin()


def _let_go(live: LiveRun) -> None:
    """Once: by now the run may be somebody else's."""
    if live.journal is not None and not live.was_let_go:
        live.was_let_go = True
        keeper.let_go(live)
        _release(live.journal)


def _release(journal: Journal) -> None:
    try:
        journal.release()
    finally:
        keeper.give_back(journal)


def find_agent(name: str) -> Agent[..., Any]:
    found = _agents.get(name)
    if found is None:
        raise NotFound(
            f"no agent called {name!r} has been loaded",
            hint="Import the module that defines it first.",
            code="unknown_agent",
        )
    return found


def resume(run_id: str, *, store: Store | str | None = None, namespace: str = "default", **options: Any) -> Any:
    """Goes on with a run of any agent that is loaded; options as of `Agent.resume`."""
    return _agent_of(run_id, store, namespace).resume(run_id, store=store, namespace=namespace, **options)


def replay(run_id: str, *, store: Store | str | None = None, namespace: str = "default", strict: bool = False) -> Any:
    """Runs the code of a run again on its record alone."""
    return _agent_of(run_id, store, namespace).replay(run_id, store=store, namespace=namespace, strict=strict)


def _agent_of(run_id: str, store: Store | str | None, namespace: str) -> Agent[..., Any]:
    facts = JournalReader(store_of(store), run_id, namespace).facts() or {}
    if "agent" not in facts:
        raise InvalidInput(f"run {run_id} was not recorded by an agent", code="no_agent")
    return find_agent(facts["agent"])
