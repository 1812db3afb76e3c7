"""Effects that somebody else carries out: whoever decides asks for a call, and is handed what came of it.

Deciding is a generator; the two drivers, for invokers that block and for those that are awaited, only make the call.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Generator
from typing import Any, NamedTuple, Protocol, TypeVar

from onrecord.errors import InvalidInput

R = TypeVar("R")


class EffectInvoker(Protocol):
    """Carries effects out. Blocking, or awaited with the functions that end in `_async`.

    Raise `onrecord.NotReplayable` for an effect that cannot give the same again (a provider without seeds, a mail).
    Whatever else is raised is what came of the effect.
    """

    def invoke(self, effect_name: str, inputs: Any, model_version: str, sampling: Any) -> Any | Awaitable[Any]: ...


class InvokerCall(Protocol):
    """One call, as it is to be made."""

    @property
    def name(self) -> str: ...

    @property
    def inputs(self) -> Any: ...

    @property
    def model(self) -> str: ...

    @property
    def sampling(self) -> Any: ...


class CameOfIt(NamedTuple):
    value: Any
    error: Exception | None


def drive(deciding: Generator[InvokerCall, CameOfIt, R], invoker: EffectInvoker) -> R:
    came: CameOfIt | None = None
    while True:
        try:
            call = next(deciding) if came is None else deciding.send(came)
        except StopIteration as done:
            result: R = done.value
            return result
        came = _called(invoker, call)
        if inspect.isawaitable(came.value):
            if inspect.iscoroutine(came.value):
                came.value.close()
            raise InvalidInput(
                "the invoker has to be awaited", hint="Use the function that ends in _async.", code="async_invoker"
            )


async def drive_async(deciding: Generator[InvokerCall, CameOfIt, R], invoker: EffectInvoker) -> R:
    came: CameOfIt | None = None
    while True:
        try:
            call = next(deciding) if came is None else deciding.send(came)
        except StopIteration as done:
            result: R = done.value
            return result
        came = _called(invoker, call)
        if inspect.isawaitable(came.value):
            try:
                came = CameOfIt(await came.value, None)
            except Exception as error:
                came = CameOfIt(None, error)


def _called(invoker: EffectInvoker, call: InvokerCall) -> CameOfIt:
    try:
        return CameOfIt(invoker.invoke(call.name, call.inputs, call.model, call.sampling), None)
    except Exception as error:
        return CameOfIt(None, error)
