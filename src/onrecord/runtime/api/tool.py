"""Tools and steps: the functions through which an agent touches the world."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from copy import copy
from math import isfinite
from types import MethodType
from typing import Any, Concatenate, Generic, Literal, ParamSpec, TypeVar, overload

from reenact.core.events import ActionRequested
from reenact.effect import transactions
from reenact.effect.attempts import note_call
from reenact.effect.boundary import outside, perform, perform_blocking
from reenact.effect.lanes import Lane
from reenact.effect.places import PLACE, Inside
from reenact.effect.retrying import Retry
from reenact.effect.streams import Stream
from reenact.effect.tails import DONE_AGAIN
from reenact.effect.tickets import EffectSpec
from reenact.errors import InvalidInput

P = ParamSpec("P")
R = TypeVar("R")


@overload
def tool(function: Callable[P, R], /) -> Effect[P, R]: ...


@overload
def tool(
    *,
    name: str | None = None,
    kind: str = "tool_call",
    idempotent: bool = False,
    retry: Retry | None = None,
    timeout: float | None = None,
    probe: Callable[..., Any] | None = None,
    usage: Callable[[Any], Any] | None = None,
) -> Callable[[Callable[P, R]], Effect[P, R]]: ...


def tool(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """A function with side effects. Unless `idempotent=True`, it is never repeated unasked after a crash.

    `kind="model_call"` makes it a question to a model, which may be asked again. `retry` says which errors are worth
    another attempt, `timeout` how many seconds one may take. `probe`, called with the arguments, finds out after a
    crash whether the effect has happened; `usage` reads from a result what it spent, for budgets. `name` is its name
    on record.
    """
    if function is None:
        return functools.partial(tool, **options)
    return Effect(function, kind=options.pop("kind", "tool_call"), **options)


@overload
def step(function: Callable[P, R], /) -> Effect[P, R]: ...


@overload
def step(
    *, transactional: Literal[True], name: str | None = None, retry: Retry | None = None
) -> Callable[[Callable[Concatenate[Any, P], R]], Effect[P, R]]: ...


@overload
def step(
    *,
    name: str | None = None,
    kind: str = "durable_step",
    idempotent: bool = True,
    retry: Retry | None = None,
    timeout: float | None = None,
    probe: Callable[..., Any] | None = None,
    usage: Callable[[Any], Any] | None = None,
) -> Callable[[Callable[P, R]], Effect[P, R]]: ...


def step(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """A piece of work whose result is recorded. It may be done again after a crash, before its result is on record.

    With `transactional=True` it is given the database connection and done exactly once (`reenact.effect.transactions`).
    """
    if function is None:
        return functools.partial(step, **options)
    options.setdefault("idempotent", True)
    return Effect(function, kind=options.pop("kind", "durable_step"), **options)


def run_step(name: str, function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
    """An inline step: `await run_step("total", add, a, b)`, or without `await` for a plain function."""
    return Effect(function, kind="durable_step", name=name, idempotent=True)(*args, **kwargs)


def idempotency_key() -> str:
    """Inside an effect: a key that is the same for every attempt at it, whichever process makes it."""
    place = PLACE.get()
    if not isinstance(place, Inside):
        raise InvalidInput("there is an idempotency key only inside of an effect", code="outside_effect")
    return place.idempotency_key


class Effect(Generic[P, R]):
    """A function that is recorded when an agent calls it."""

    def __init__(
        self,
        function: Callable[P, R],
        *,
        kind: str,
        name: str | None = None,
        idempotent: bool = False,
        retry: Retry | None = None,
        timeout: float | None = None,
        probe: Callable[..., Any] | None = None,
        usage: Callable[[Any], Any] | None = None,
        transactional: bool = False,
    ) -> None:
        if inspect.isgeneratorfunction(function):
            raise InvalidInput(
                f"{function.__qualname__} is a plain generator, whose steps nobody could record",
                hint="A tool that yields is an async generator (`async def`); or return a list.",
                code="plain_generator",
            )
        _check_options(function, retry, timeout)
        functools.update_wrapper(self, function)
        self.function: Callable[..., Any] = function
        annotation = getattr(function, "__annotations__", {}).get("return")
        if isinstance(annotation, str):
            annotation = _annotation(function)
        self.spec = EffectSpec(
            name or function.__qualname__.rpartition(".<locals>.")[2],
            kind,
            not (idempotent or transactional or kind == "model_call"),
            annotation,
            retry,
            timeout,
            probe,
            usage=usage,
            writes=transactional,
        )
        self._transactional = transactional
        self._is_async = inspect.iscoroutinefunction(function)
        self._yields = inspect.isasyncgenfunction(function)
        self._signature = self._recorded_signature()
        self._names = _positional(self._signature)
        if transactional and (timeout is not None or self._yields):
            raise InvalidInput(
                f"{self.spec.name} writes in the store's transaction: it has no time limit and does not yield",
                hint="The database limits how long its statements take.",
                code="bad_transactional_step",
            )

    def __get__(self, instance: Any, owner: type | None = None) -> Effect[..., R]:
        """As a method. The instance is no part of what is recorded: the effect may change it, and a replay does not."""
        if instance is None:
            return self
        bound = copy(self)
        bound.function = MethodType(self.function, instance)
        bound._signature = bound._recorded_signature()
        bound._names = _positional(bound._signature)
        return bound

    def _recorded_signature(self) -> inspect.Signature:
        """Of what is recorded as its input: the connection that a transactional step is given is no part of it."""
        signature = _signature(self.function)
        return transactions.without_connection(self.spec.name, signature) if self._transactional else signature

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        done: R = self._do(None, args, kwargs)
        return done

    def keyed(self, key: str, /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Calls it under a replay key of the caller's own, which is used as it stands, whoever calls."""
        done: R = self._do(key, args, kwargs)
        return done

    def _do(self, key: str | None, args: Any, kwargs: Any) -> Any:
        if self._transactional:
            transactions.check_place(self.spec.name)
        elif type(place := PLACE.get()) is not Lane:
            outside(self.spec.name, depth=4)
            if type(place) is Inside and place.run.stand_ins is not None and self.spec.kind not in DONE_AGAIN:
                place.run.stand_ins.refuse_inside(self.spec.name)
            note_call(self.spec.name)
            return self.function(*args, **kwargs)
        if not kwargs and len(args) == len(self._names):
            payload = dict(zip(self._names, args, strict=True))
        else:
            payload = dict(self._signature.bind(*args, **kwargs).arguments)
        spec = self.spec

        def make(made_key: str) -> ActionRequested:
            return ActionRequested(made_key, payload, spec.name, spec.kind, {"once": True} if spec.once else None)

        call: Callable[[], Any] = functools.partial(self.function, *args, **kwargs)
        if self._transactional:
            call = transactions.in_transaction(self.function, args, kwargs, is_async=self._is_async)
        if self._yields:
            lane = PLACE.get()
            assert isinstance(lane, Lane)
            return Stream(lane, spec, make, call)
        if self._is_async:
            return perform(spec, make, call, key=key)
        return perform_blocking(spec, make, call, key=key)


def _check_options(function: Any, retry: Any, timeout: Any) -> None:
    """Said where the tool is made: the first failed attempt would be too late."""
    name = getattr(function, "__qualname__", repr(type(function)))
    if retry is not None and not isinstance(retry, Retry):
        raise InvalidInput(
            f"`retry` of {name} is a Retry, not {type(retry).__name__}",
            hint="Such as retry=reenact.Retry(attempts=3, on=(ConnectionError,)).",
            code="bad_retry",
        )
    limit = timeout if isinstance(timeout, (int, float)) else 0
    if timeout is not None and not (isfinite(limit) and limit > 0):
        raise InvalidInput(
            f"`timeout` of {name} is a number of seconds that is more than 0",
            hint="Such as timeout=30.",
            code="bad_timeout",
        )


def _positional(signature: inspect.Signature) -> tuple[str, ...]:
    """The names of its parameters, if all may be given by position; otherwise the binding is left to `inspect`."""
    usual = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    if all(parameter.kind in usual for parameter in signature.parameters.values()):
        return tuple(signature.parameters)
    return ("",) * 1000


def _signature(function: Callable[..., Any]) -> inspect.Signature:
    try:
        return inspect.signature(function)
    except ValueError:  # some builtins do not tell what they take
        return inspect.signature(lambda *args, **kwargs: (args, kwargs))


def _annotation(function: Callable[..., Any]) -> Any:
    try:
        return inspect.get_annotations(function, eval_str=True).get("return")
    except Exception:  # a name that is not there: the value comes back without its help
        return None
