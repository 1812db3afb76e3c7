"""Lend a connection to the work of a transaction, and revoke it when the work ends.

Rules:

1. The work never holds the connection or one of its cursors. It holds proxies that pass on the methods and values
   listed here while the work runs. Anything else could change the store's own data or state.
2. What a proxy returns is lent too, if it could lead to the connection.
3. When the work ends, all proxies become invalid at once, in every thread. A call in progress in another thread is
   waited for: afterwards only the store uses the connection.
"""

from __future__ import annotations

import threading
from types import GeneratorType, TracebackType
from typing import Any, ClassVar
from weakref import WeakSet

from onrecord.errors import InvalidInput, Refused

Kinds = dict[type, "type[Lent]"]


class Loan:
    """The loan of one connection for one piece of work: `with Loan(connection, kinds) as lent`."""

    def __init__(self, connection: Any, kinds: Kinds) -> None:
        self.lock = threading.RLock()
        self._kinds = kinds
        self._proxies: WeakSet[Lent] = WeakSet()
        self._connection: Any = connection
        self._lent: Lent | None = None

    def __enter__(self) -> Any:
        self._lent = self.lend(self._connection)
        return self._lent

    def __exit__(self, *_: object) -> None:
        with self.lock:
            for lent in list(self._proxies):
                object.__setattr__(lent, "_target", None)
            self._connection = self._lent = None

    def lend(self, value: Any, by: Lent | None = None) -> Any:
        """Return the value, wrapped in a proxy if it must be lent."""
        if value is None:
            return None
        if by is not None and value is by._target:
            return by
        if value is self._connection and self._lent is not None:
            return self._lent
        for kind, lent in self._kinds.items():
            if isinstance(value, kind):
                made = lent(self, value)
                self._proxies.add(made)
                return made
        return value


class Lent:
    """A proxy for one of the store's objects while the work runs."""

    __slots__ = ("__weakref__", "_loan", "_target")
    _looks_like: ClassVar[Any]
    _methods: ClassVar[frozenset[str]] = frozenset()
    _values: ClassVar[frozenset[str]] = frozenset()
    _settable: ClassVar[frozenset[str]] = frozenset()
    _loan: Loan
    _target: Any

    def __init__(self, loan: Loan, target: Any) -> None:
        object.__setattr__(self, "_loan", loan)
        object.__setattr__(self, "_target", target)

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        """Return the class of the real object, for `isinstance`."""
        return type(self)._looks_like

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        with self._loan.lock:
            target = self._require_target()
            if name in self._methods:
                return lambda *args, **kwargs: self._call(name, *args, **kwargs)
            if name in self._values:
                return self._loan.lend(getattr(target, name), self)
            if not hasattr(target, name):
                raise AttributeError(name)
        raise make_refusal(f"use `{name}` of the store's connection")

    def __setattr__(self, name: str, value: Any) -> None:
        with self._loan.lock:
            target = self._require_target()
            if name not in self._settable:
                raise make_refusal(f"set `{name}` of the store's connection")
            self._set(target, name, value)

    def _set(self, target: Any, name: str, value: Any) -> None:
        setattr(target, name, value)

    def _require_target(self) -> Any:
        if self._target is None:
            raise make_ended_error()
        return self._target

    def _call(self, name: str, *args: Any, **kwargs: Any) -> Any:
        with self._loan.lock:
            return self._loan.lend(getattr(self._require_target(), name)(*args, **kwargs), self)


class LentContext(Lent):
    """A proxy for a context manager."""

    __slots__ = ()

    def __enter__(self) -> Any:
        return self._call("__enter__")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        found: bool | None = self._call("__exit__", kind, error, trace)
        return found


class LentIterator(Lent):
    """A proxy for an iterator."""

    __slots__ = ()
    _looks_like: ClassVar[Any] = GeneratorType
    _methods = frozenset({"close"})

    def __iter__(self) -> Any:
        return self

    def __next__(self) -> Any:
        return self._call("__next__")


def make_ended_error() -> InvalidInput:
    return InvalidInput(
        "the connection was lent to a step that has ended",
        hint="Use it, its cursors and their results only inside the step; return rows as a list.",
        code="transaction_over",
    )


def make_refusal(what: str) -> Refused:
    return Refused(
        f"a step in the store's transaction may not {what}",
        hint="Use your own tables in it, and leave the transaction to the store.",
        code="not_in_transaction",
    )
