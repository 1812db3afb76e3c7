"""Tools and steps: functions whose calls in an agent are recorded as effects."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from copy import copy
from math import isfinite
from types import MethodType
from typing import Any, Concatenate, Generic, Literal, ParamSpec, TypeVar, overload

from onrecord.core.events import ActionRequested
from onrecord.errors import InvalidInput
from onrecord.runtime.api.retry import Retry
from onrecord.runtime.engine import transactions
from onrecord.runtime.engine.attempts import note_call
from onrecord.runtime.engine.boundary import is_outside, perform, perform_blocking
from onrecord.runtime.engine.context import current_effect, current_lane
from onrecord.runtime.engine.open_effect import EffectSpec
from onrecord.runtime.engine.streams import Stream
from onrecord.runtime.forks.tail_policy import LIVE_KINDS

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
    """Make a function a tool, which may have side effects. After a crash it is not repeated unless `idempotent=True`.

    `kind="model_call"` makes it a model call, which may be repeated. `retry` names the errors to retry, and `timeout`
    limits one attempt in seconds. `probe` is reserved and not called yet: `onrecord settle` settles an effect in doubt.
    `usage` reads the spending from a result, for budgets. `name` is the recorded name.
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
    """Make a function a step, whose result is recorded. After a crash it is repeated if it has no recorded result.

    With `transactional=True` the function receives the store's database connection and runs exactly once: its writes
    and its result are committed together.
    """
    if function is None:
        return functools.partial(step, **options)
    options.setdefault("idempotent", True)
    return Effect(function, kind=options.pop("kind", "durable_step"), **options)


def run_step(name: str, function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
    """Call a function as a step: `await run_step("total", add, a, b)`, or without `await` for a plain function."""
    return Effect(function, kind="durable_step", name=name, idempotent=True)(*args, **kwargs)


def idempotency_key() -> str:
    """Return the idempotency key of the current effect: the same for every attempt, in every process."""
    current = current_effect()
    if current is None:
        raise InvalidInput("idempotency_key() was called outside an effect", code="outside_effect")
    return current.idempotency_key


class Effect(Generic[P, R]):
    """A function whose calls inside an agent are recorded."""

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
                f"{function.__qualname__} is a plain generator, which cannot be recorded",
                hint="Make it an async generator (`async def`), or return a list.",
                code="plain_generator",
            )
        _check_options(function, retry, timeout)
        functools.update_wrapper(self, function)
        self.function: Callable[..., Any] = function
        annotation = getattr(function, "__annotations__", {}).get("return")
        if isinstance(annotation, str):
            annotation = _resolve_annotation(function)
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
        self._names = _positional_names(self._signature)
        if transactional and (timeout is not None or self._yields):
            raise InvalidInput(
                f"{self.spec.name} runs in the store's transaction: it cannot have a timeout and cannot yield",
                hint="Set a statement timeout in the database instead.",
                code="bad_transactional_step",
            )

    def __get__(self, instance: Any, owner: type | None = None) -> Effect[..., R]:
        """Bind a method. The instance is not recorded: an effect may change it, but a replay does not."""
        if instance is None:
            return self
        bound = copy(self)
        bound.function = MethodType(self.function, instance)
        bound._signature = bound._recorded_signature()
        bound._names = _positional_names(bound._signature)
        return bound

    def _recorded_signature(self) -> inspect.Signature:
        """Return the signature of the recorded input, which excludes the connection of a transactional step."""
        signature = _inspect_signature(self.function)
        return transactions.without_connection(self.spec.name, signature) if self._transactional else signature

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        result: R = self._perform(None, args, kwargs)
        return result

    def keyed(self, key: str, /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call it with the caller's own replay key, which is used verbatim in every lane."""
        result: R = self._perform(key, args, kwargs)
        return result

    def _perform(self, key: str | None, args: Any, kwargs: Any) -> Any:
        lane = current_lane()
        if self._transactional:
            transactions.check_place(self.spec.name)
        elif lane is None:
            is_outside(self.spec.name, depth=4)
            current = current_effect()
            if current is not None and current.run.substitutes is not None and self.spec.kind not in LIVE_KINDS:
                current.run.substitutes.refuse_inside(self.spec.name)
            note_call(self.spec.name)
            return self.function(*args, **kwargs)
        if not kwargs and len(args) == len(self._names):
            payload = dict(zip(self._names, args, strict=True))
        else:
            payload = dict(self._signature.bind(*args, **kwargs).arguments)
        spec = self.spec

        def make(request_key: str) -> ActionRequested:
            return ActionRequested(
                request_key, payload, spec.name, spec.kind, meta={"once": True} if spec.once else None
            )

        call: Callable[[], Any] = functools.partial(self.function, *args, **kwargs)
        if self._transactional:
            call = transactions.in_transaction(self.function, args, kwargs, is_async=self._is_async)
        if self._yields:
            assert lane is not None
            return Stream(lane, spec, make, call)
        if self._is_async:
            return perform(spec, make, call, key=key)
        return perform_blocking(spec, make, call, key=key, lane=lane)


def _check_options(function: Any, retry: Any, timeout: Any) -> None:
    """Raise `InvalidInput` for invalid options at the definition, not at the first failed attempt."""
    name = getattr(function, "__qualname__", repr(type(function)))
    if retry is not None and not isinstance(retry, Retry):
        raise InvalidInput(
            f"`retry` of {name} must be a Retry, not {type(retry).__name__}",
            hint="Such as retry=onrecord.Retry(attempts=3, on=(ConnectionError,)).",
            code="bad_retry",
        )
    limit = timeout if isinstance(timeout, (int, float)) else 0
    if timeout is not None and not (isfinite(limit) and limit > 0):
        raise InvalidInput(
            f"`timeout` of {name} must be a number of seconds above 0", hint="Such as timeout=30.", code="bad_timeout"
        )


def _positional_names(signature: inspect.Signature) -> tuple[str, ...]:
    """Return the parameter names if all may be positional; else 1000 names, so that `inspect` binds every call."""
    usual = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    if all(parameter.kind in usual for parameter in signature.parameters.values()):
        return tuple(signature.parameters)
    return ("",) * 1000


def _inspect_signature(function: Callable[..., Any]) -> inspect.Signature:
    try:
        return inspect.signature(function)
    except ValueError:  # some builtins have no signature
        return inspect.signature(lambda *args, **kwargs: (args, kwargs))


def _resolve_annotation(function: Callable[..., Any]) -> Any:
    try:
        return inspect.get_annotations(function, eval_str=True).get("return")
    except Exception:  # an unknown name: the value is decoded without an annotation
        return None
