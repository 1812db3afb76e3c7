"""Agents: functions whose runs are durable. An agent can be called, started, resumed, replayed and forked."""

from __future__ import annotations

import asyncio
import functools
import hashlib
import inspect
import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, overload

from onrecord.core.events import TERMINAL_KINDS, Completed, Failed
from onrecord.core.links import ParentRun
from onrecord.errors import Damaged, InvalidInput, NotFound, RunExists, StoreUnavailable
from onrecord.journal.journal import LEASE_SECONDS, Journal
from onrecord.journal.reader import JournalReader
from onrecord.runtime.api.child_run import call_as_child, call_with_id, find_last_event, refuse_in_replay
from onrecord.runtime.api.handle import RunHandle
from onrecord.runtime.api.origins import find_origin, refuse_while_loading
from onrecord.runtime.api.policy import Policy, PolicyGuard
from onrecord.runtime.engine.context import current_effect, current_lane
from onrecord.runtime.engine.execution import execute_run, execute_run_async
from onrecord.runtime.engine.lease_keeper import keeper
from onrecord.runtime.engine.outcomes import class_missing, is_opaque
from onrecord.runtime.engine.run import LiveRun
from onrecord.runtime.engine.stops import CodeChanged, Divergence, NotReplayable, RecordCancelled
from onrecord.runtime.engine.stores import store_of
from onrecord.runtime.forks.substitutes import load_substitutes
from onrecord.runtime.forks.tail_policy import LIVE
from onrecord.runtime.replay import sandbox
from onrecord.runtime.replay.checkpoint_entry import history_to_resume
from onrecord.runtime.replay.history import History
from onrecord.runtime.secrets.run_secrets import FACT as REDACTION_FACT
from onrecord.runtime.secrets.run_secrets import Secrets, load_secrets
from onrecord.store.contract import EventRow, Store
from onrecord.store.location import store_options

if TYPE_CHECKING:
    from onrecord.runtime.forks.fork import Change
    from onrecord.runtime.secrets.redaction import Redaction

_agents: dict[str, Agent[..., Any]] = {}
_SHORT_ERRORS = (RunExists, StoreUnavailable, Damaged)
"""Errors about the store: only the caller's line matters, so the lines of this package are left out."""


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
    strict: bool = False,
) -> Callable[[Callable[P, R]], Agent[P, R]]: ...


def agent(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Make a function an agent: each call is a durable run. Use `@agent` or `@agent(name=..., policy=...)`.

    Runs are recorded under `name`, in `store` and `namespace`. `policy` limits the effects, and `redact` keeps secrets
    out of the record. After a process has died, its lease ends within `lease_seconds`, and its run can be resumed.
    With `strict`, a connection or process that would not be recorded is refused before it happens.
    """
    if function is None:
        return functools.partial(agent, **options)
    return Agent(function, **options)


class Agent(Generic[P, R]):
    """A function whose runs are recorded. A run survives a crash and can be replayed."""

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
        strict: bool = False,
    ) -> None:
        if not callable(function):
            raise InvalidInput(
                f"an agent is made from a function, not from {type(function).__name__}",
                hint="Write `@onrecord.agent` before a function; give options by name: `@onrecord.agent(name=...)`.",
                code="bad_function",
            )
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise InvalidInput(
                f"{function.__qualname__} is a generator: its code would run after its run has ended",
                hint="Return the result; report progress through a tool or the state.",
                code="generator_agent",
            )
        if policy is not None and not isinstance(policy, Policy):
            raise InvalidInput(
                f"`policy` of {function.__qualname__} must be a Policy, not {type(policy).__name__}",
                hint="Such as policy=onrecord.Policy(budget=onrecord.Budget(calls=100)).",
                code="bad_policy",
            )
        functools.update_wrapper(self, function)
        self.function: Callable[..., Any] = function
        self.name = name or function.__qualname__.replace(".<locals>", "")
        self.policy = policy
        self.namespace = namespace
        self.lease_seconds = lease_seconds
        self.strict = strict
        self.redaction: Redaction | None = None
        redact = redact if redact is not None else self.redacts_by_default
        if redact:
            from onrecord.runtime.secrets.redaction import parse_redaction  # a lazy import: most agents do not need it

            self.redaction = parse_redaction(redact)
        self.is_async = inspect.iscoroutinefunction(function)
        self.origin: Mapping[str, str] | None = None
        """The file or module of the function. It is a fact of each run: `onrecord resume` loads the agent from it."""
        self._store = store
        self._code: dict[str, str] | None = None
        _agents[self.name] = self

    # Running

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Execute one run and return its result. Inside another agent's run, it is a linked child run."""
        lane, effect = current_lane(), current_effect()
        if effect is not None and effect.run.substitutes is not None:
            effect.run.substitutes.refuse_inside(self.name)  # it would be an unlinked run without a tail policy
        if lane is not None and lane.run.calls_agents_inline:
            return self.function(*args, **kwargs)  # type: ignore[no-any-return]
        if lane is not None:
            return call_as_child(self, args, kwargs)  # type: ignore[no-any-return]
        try:
            return self._run(args, kwargs, None, None)  # type: ignore[no-any-return]
        except _SHORT_ERRORS as error:
            raise error.with_traceback(None) from None

    def run(self, *args: Any, run_id: str | None = None, store: Store | str | None = None, **kwargs: Any) -> Any:
        """Execute a run with this id and store, and return its result. Inside another run, this is an effect of it."""
        lane = current_lane()
        if lane is not None and run_id is None and store is None:
            return self(*args, **kwargs)
        try:
            if lane is None:
                return self._run(args, kwargs, run_id, store)
            return call_with_id(self, args, kwargs, lambda: self._run(args, kwargs, run_id, store), run_id, store)
        except _SHORT_ERRORS as error:
            raise error.with_traceback(None) from None

    def _run(self, args: Any, kwargs: Any, run_id: str | None, store: Store | str | None) -> Any:
        def begin() -> Any:
            live = LiveRun(self.create_run(args, kwargs, run_id, store, None), guard=self.make_guard())
            return self.execute(live, args, kwargs)

        return _begin_when_awaited(begin) if self.is_async else begin()

    def start(
        self, *args: Any, run_id: str | None = None, store: Store | str | None = None, **kwargs: Any
    ) -> RunHandle:
        """Start a run in the background and return its handle. The run is recorded when this returns."""
        refuse_in_replay(self)
        journal = self.create_run(args, kwargs, run_id, store, None)
        live = LiveRun(journal, guard=self.make_guard())

        def work() -> Any:
            return self.execute(live, args, kwargs)

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
        """Continue an interrupted run and return its result. Recorded effects are served from the record.

        For an ended run, return its recorded result. If the code has changed so that a request differs from the record,
        a divergence is raised before any effect runs, and the old code can still resume the run. `pin_code` refuses any
        changed code. `accept_code` drops the recorded requests that the new code does not make, and continues from
        there. `tail` and `live_tools` change the tail policy of a fork or a live replay.
        """
        refuse_in_replay(self)
        opened = store_of(store if store is not None else self._store)
        namespace = namespace or self.namespace
        reader = JournalReader(opened, run_id, namespace)
        last = opened.last_event(namespace, run_id)
        if last is not None and last.kind in TERMINAL_KINDS:
            return self.read_outcome(reader, last)
        if pin_code and self.has_changed(reader):
            raise CodeChanged(f"the code of {self.name} has changed since it recorded run {run_id}")
        args, kwargs = self._read_input(reader, needed=True)
        live = self.take_over(opened, run_id, namespace, accepts_code=accept_code, tail=tail, live_tools=live_tools)
        if live is None:
            return self.read_outcome(reader, find_last_event(reader))
        return self.execute(live, args, kwargs)

    def take_over(
        self,
        store: Store,
        run: str,
        namespace: str,
        *,
        accepts_code: bool = False,
        parent_guard: PolicyGuard | None = None,
        tail: str | None = None,
        live_tools: Iterable[str] = (),
    ) -> LiveRun | None:
        """Take the lease of a run. Return None if the run has ended meanwhile."""
        refuse_while_loading(self.name, self)
        journal = keeper.open_alone(store, run, namespace, self.lease_seconds)
        live = None
        try:
            guard = self.make_guard(parent_guard)
            history = history_to_resume(journal, guard)
            if history.end is None:
                opened = LiveRun(journal, history=history, accepts_code=accepts_code, guard=guard)
                opened.substitutes = load_substitutes(opened, mode=tail, tools=live_tools)
                live = opened
        finally:
            if live is None:  # the run has ended, or its record cannot be read: do not block other processes
                _release_journal(journal)
        return live

    def has_changed(self, reader: JournalReader) -> bool:
        """Return True if the agent's code has changed since the run began."""
        recorded = (reader.facts() or {}).get("code")
        return recorded != self.code()

    def replay(
        self, run_id: str, *, store: Store | str | None = None, namespace: str | None = None, strict: bool = False
    ) -> Any:
        """Run the code again with every effect served from the record. Raise `Divergence` if it behaves differently.

        With `strict`, a reading of the clock or of randomness that is not on record is refused, too.
        """
        opened = store_of(store if store is not None else self._store, to_read=True)
        reader = JournalReader(opened, run_id, namespace or self.namespace)
        live = LiveRun(reader, history=History(reader))
        live.substitutes = load_substitutes(live)
        return self.execute(live, *self._read_input(reader), strict=strict)

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
        """Fork a run after its event `at`, execute the fork, and return its result.

        The shared events are served from the record. After them, model calls, steps and the tools in `live_tools` are
        executed. Other tools are served from the forked run, or stop the fork. With `tail="mocked"` no effect is
        executed; with `tail="stopped"` the fork stops before its first new effect, and `resume` continues it.
        """
        refuse_in_replay(self)
        opened = store_of(store if store is not None else self._store)
        namespace = namespace or self.namespace
        self.check_recorded(JournalReader(opened, run_id, namespace))
        from onrecord.runtime.forks.fork import begin_fork  # a lazy import

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
        """Replay a run live, in a new run, and return its result. `onrecord.analysis.live` compares the two runs.

        Model calls, steps and the tools in `live_tools` are executed. Everything else is served from the record.
        """
        refuse_in_replay(self)
        opened = store_of(store if store is not None else self._store)
        namespace = namespace or self.namespace
        self.check_recorded(JournalReader(opened, run_id, namespace))
        from onrecord.runtime.forks.fork import begin_live_replay

        live_run = begin_live_replay(
            opened, run_id, namespace, live_tools=live_tools, model=model, run_id=live_run_id, facts=self.own_facts()
        )
        return self.resume(live_run, store=opened, namespace=namespace)

    def read_outcome(self, reader: JournalReader, last: EventRow, caller_secrets: Secrets | None = None) -> Any:
        """Return the recorded result of an ended run, or raise its recorded error."""
        event, secrets = reader.sequenced(last).event, load_secrets(reader)
        if caller_secrets is not None and secrets.redacts:
            secrets.adopt(caller_secrets)
        if isinstance(event, Completed):
            return self._wrap_result(secrets.unseal_value(reader, last, event.output, needed=False))
        if isinstance(event, Failed) and isinstance(event.error, BaseException):
            raise secrets.unseal_value(reader, last, event.error, needed=False)
        raise InvalidInput(f"run {reader.run} ended with {last.kind}; there is no result", code="no_result")

    def _wrap_result(self, value: Any) -> Any:
        if not self.is_async:
            return value

        async def result() -> Any:
            return value

        return result()

    def execute(self, live: LiveRun, args: Any, kwargs: Any, *, strict: bool = False) -> Any:
        """Run the agent's code in this run, and release the run at the end."""
        if live.secrets.redacts:
            given = [dict(zip(self._names, args, strict=False)), list(args), dict(kwargs)]
            live.secrets.learn(self.redaction.values if self.redaction is not None else (), given)
        call: Callable[[], Any] = functools.partial(self.function, *args, **kwargs)
        live.is_strict = strict or self.strict
        if live.touches_nothing:
            sandbox.set_traps()
        if self.is_async:
            return self._execute_async(live, call)
        try:
            self._keep_lease(live)
            return execute_run(live, call)
        except Divergence as divergence:
            raise self._explain(live, divergence) from None
        except RecordCancelled:
            raise asyncio.CancelledError from None
        finally:
            _release_run(live)

    def _explain(self, live: LiveRun, divergence: Divergence) -> Divergence:
        """Add to a divergence that the code has changed, which is its most likely cause."""
        if not self.has_changed(live.reader):
            return divergence
        code = (live.reader.facts() or {}).get("code"), self.code()
        where = {**divergence.where, "recorded_code": code[0], "present_code": code[1]}
        message = f"{divergence.message}; the code of {self.name} has changed since it was recorded"
        return Divergence(message, hint=divergence.hint, code=divergence.code, **where)

    def _keep_lease(self, live: LiveRun) -> None:
        if live.journal is not None:
            keeper.keep(live, self.lease_seconds)

    async def _execute_async(self, live: LiveRun, call: Callable[[], Any]) -> Any:
        try:
            self._keep_lease(live)
            return await execute_run_async(live, call, functools.partial(_release_run, live))
        except Divergence as divergence:
            raise self._explain(live, divergence) from None
        except RecordCancelled:
            raise asyncio.CancelledError from None
        finally:
            _release_run(live)

    def make_guard(self, parent: PolicyGuard | None = None) -> PolicyGuard | None:
        """Return the guard of a run. Its spending also counts for the calling run's guard."""
        if self.policy is None and parent is None:
            return None
        return (self.policy or Policy()).make_guard(parent)

    def own_facts(self) -> dict[str, Any]:
        """Return the facts about the code that executes the runs."""
        facts: dict[str, Any] = {"code": self.code()}
        origin = self.origin or find_origin(self)
        if origin is not None:
            facts["origin"] = dict(origin)
        if self.redaction is not None:
            facts[REDACTION_FACT] = self.redaction.to_fact()
        if (seed := os.environ.get("PYTHONHASHSEED", "")).isdecimal():  # a random seed cannot be known
            facts["meta"] = {"hash_seed": int(seed)}
        return facts

    def create_run(
        self,
        args: Any,
        kwargs: Any,
        run_id: str | None,
        store: Store | str | None,
        parent: ParentRun | None,
        extra_facts: Mapping[str, Any] | None = None,
    ) -> Journal:
        """Create the journal of a new run."""
        refuse_while_loading(self.name, self)
        facts: dict[str, Any] = {
            "agent": self.name,
            "input": {"args": list(args), "kwargs": dict(kwargs)},
            **self.own_facts(),
            **(extra_facts or {}),
        }
        if parent is not None and self.origin is None:
            facts.pop("origin", None)  # a child is resumed by its caller, never alone
        originals: Mapping[str, Any] = {}
        if REDACTION_FACT in facts:
            from onrecord.runtime.secrets.redaction import redact_facts

            facts, originals = redact_facts(facts, self.redaction, self._names)
        opened = store_of(store if store is not None else self._store)
        try:
            journal = keeper.create_alone(
                opened, run_id, self.namespace, facts=facts, parent=parent, lease_seconds=self.lease_seconds
            )
        except RunExists as error:
            if parent is not None:
                raise
            raise _run_exists(opened, self.namespace, run_id) from error
        if originals:
            from onrecord.runtime.secrets.redaction import seal_facts

            seal_facts(journal, originals)
        return journal

    @property
    def _names(self) -> list[str]:
        """Return the names of the parameters that may be given by position."""
        parameters = inspect.signature(self.function).parameters.values()
        return [one.name for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]

    def code(self) -> dict[str, str]:
        """Return the digest of the agent's source, computed once: loaded code does not change."""
        if self._code is None:
            source = ""
            with suppress(OSError, TypeError):
                # The source of the whole module, since the agent calls functions beside it.
                source = inspect.getsource(inspect.getmodule(self.function) or self.function)
            self._code = {"function": self.name, "digest": f"sha256:{hashlib.sha256(source.encode()).hexdigest()}"}
        return self._code

    def check_recorded(self, reader: JournalReader) -> None:
        """Raise unless the run was recorded by this agent and its arguments can be used again."""
        self._read_input(reader)

    def _read_input(self, reader: JournalReader, *, needed: bool = False) -> tuple[list[Any], Mapping[str, Any]]:
        """Return the recorded arguments. With `needed`, raise if their secrets cannot be unsealed."""
        facts = reader.facts()
        if facts is None or facts.get("agent") != self.name or "input" not in facts:
            raise InvalidInput(
                f"run {reader.run} was not recorded by the agent {self.name}",
                hint=f"`onrecord show {reader.run}` names its agent.",
                code="other_agent",
            )
        if is_opaque((reader.facts_tree() or {}).get("input")):
            raise NotReplayable(
                f"the input of run {reader.run} holds a value of which only the type was recorded",
                hint="Give agents plain values, and open clients and files inside the agent.",
            )
        missing: list[str] = []
        reader.decoded((reader.facts_tree() or {}).get("input"), missing=missing)
        if missing:
            raise class_missing(missing, "the input", reader.run)
        given = load_secrets(reader).unseal_facts(reader, facts["input"], needed=needed)
        return given["args"], given["kwargs"]


def _run_exists(store: Store, namespace: str, run: str | None) -> RunExists:
    where = store_options(store.url, namespace)
    choices = f"Continue it: `onrecord resume {run}{where}`; replay it: `onrecord replay {run}{where}`; or give"
    hint = f"{'Give' if store.url.startswith('memory:') else choices} the new run another run_id."
    return RunExists(f"there is a run {run} already", hint=hint)


async def _begin_when_awaited(begin: Callable[[], Any]) -> Any:
    """Begin the run only when awaited: a coroutine may be dropped unused."""
    try:
        return await begin()
    except _SHORT_ERRORS as error:
        raise error.with_traceback(None) from None


def _release_run(live: LiveRun) -> None:
    """Release the run once: after that another process may hold it."""
    if live.journal is not None and not live.is_released:
        live.is_released = True
        keeper.let_go(live)
        _release_journal(live.journal)


def _release_journal(journal: Journal) -> None:
    try:
        journal.release()
    finally:
        keeper.give_back(journal)


def find_agent(name: str) -> Agent[..., Any]:
    found = _agents.get(name)
    if found is None:
        raise NotFound(
            f"no agent named {name!r} is loaded", hint="Import the module that defines it first.", code="unknown_agent"
        )
    return found


def resume(run_id: str, *, store: Store | str | None = None, namespace: str = "default", **options: Any) -> Any:
    """Resume a run of any loaded agent. The options are those of `Agent.resume`."""
    return _find_agent_of(run_id, store, namespace).resume(run_id, store=store, namespace=namespace, **options)


def replay(run_id: str, *, store: Store | str | None = None, namespace: str = "default", strict: bool = False) -> Any:
    """Replay a run of any loaded agent, as `Agent.replay` does."""
    return _find_agent_of(run_id, store, namespace).replay(run_id, store=store, namespace=namespace, strict=strict)


def _find_agent_of(run_id: str, store: Store | str | None, namespace: str) -> Agent[..., Any]:
    facts = JournalReader(store_of(store), run_id, namespace).facts() or {}
    if "agent" not in facts:
        raise InvalidInput(f"run {run_id} was not recorded by an agent", code="no_agent")
    return find_agent(facts["agent"])
