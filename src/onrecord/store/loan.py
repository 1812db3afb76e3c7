"""A connection that is lent to the work of a transaction, and taken back when the work is over.

Rules:

1. The work never holds the connection, nor a cursor of it: it holds objects that pass on what is named here while the
   work goes on. Whatever else the connection can do would change what is the store's.
2. What such an object gives is lent too, if it could be used to get at the connection.
3. When the work is over all of it is dead at once, whoever still has it, in whatever thread. A call that is under way
   in another thread is waited for: afterwards the connection is the store's alone.
"""

from __future__ import annotations

import threading
from types import GeneratorType, TracebackType
from typing import Any, ClassVar
from weakref import WeakSet

from reenact.errors import InvalidInput, Refused

Kinds = dict[type, "type[Lent]"]


class Loan:
    """One connection for the time of one piece of work: `with Loan(connection, kinds) as lent`."""

    def __init__(self, connection: Any, kinds: Kinds) -> None:
        self.lock = threading.RLock()
        self._kinds = kinds
        self._out: WeakSet[Lent] = WeakSet()
        self._connection: Any = connection
        self._lent: Lent | None = None

    def __enter__(self) -> Any:
        self._lent = self.lend(self._connection)
        return self._lent

    def __exit__(self, *_: object) -> None:
        with self.lock:
            for lent in list(self._out):
                object.__setattr__(lent, "_thing", None)
            self._connection = self._lent = None

    def lend(self, value: Any, by: Lent | None = None) -> Any:
        """The value as the work may have it."""
        if value is None:
            return None
        if by is not None and value is by._thing:
            return by
        if value is self._connection and self._lent is not None:
            return self._lent
        for kind, lent in self._kinds.items():
            if isinstance(value, kind):
                made = lent(self, value)
                self._out.add(made)
                return made
        return value


class Lent:
    """Stands for something of the store's while the work goes on."""

    __slots__ = ("__weakref__", "_loan", "_thing")
    _looks_like: ClassVar[Any]
    _methods: ClassVar[frozenset[str]] = frozenset()
    _values: ClassVar[frozenset[str]] = frozenset()
    _settable: ClassVar[frozenset[str]] = frozenset()
    _loan: Loan
    _thing: Any

    def __init__(self, loan: Loan, thing: Any) -> None:
        object.__setattr__(self, "_loan", loan)
        object.__setattr__(self, "_thing", thing)

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        """What `isinstance` goes by: what the thing is."""
        return type(self)._looks_like

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        with self._loan.lock:
            thing = self._open()
            if name in self._methods:
                return lambda *args, **kwargs: self._call(name, *args, **kwargs)
            if name in self._values:
                return self._loan.lend(getattr(thing, name), self)
            if not hasattr(thing, name):
                raise AttributeError(name)
        raise refusal(f"use `{name}` of the store's connection")

    def __setattr__(self, name: str, value: Any) -> None:
        with self._loan.lock:
            thing = self._open()
            if name not in self._settable:
                raise refusal(f"set `{name}` of the store's connection")
            self._set(thing, name, value)

    def _set(self, thing: Any, name: str, value: Any) -> None:
        setattr(thing, name, value)

    def _open(self) -> Any:
        if self._thing is None:
            raise over()
        return self._thing

    def _call(self, name: str, *args: Any, **kwargs: Any) -> Any:
        with self._loan.lock:
            return self._loan.lend(getattr(self._open(), name)(*args, **kwargs), self)


class LentContext(Lent):
    """Something for a `with`."""

    __slots__ = ()

    def __enter__(self) -> Any:
        return self._call("__enter__")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        found: bool | None = self._call("__exit__", kind, error, trace)
        return found


class LentIterator(Lent):
    """Something for a `for`."""

    __slots__ = ()
    _looks_like: ClassVar[Any] = GeneratorType
    _methods = frozenset({"close"})

    def __iter__(self) -> Any:
        return self

    def __next__(self) -> Any:
        return self._call("__next__")


def over() -> InvalidInput:
    return InvalidInput(
        "the connection was lent to a step that is over",
        hint="Use it, its cursors and what they have to read inside of the step only; hand rows out as a list.",
        code="transaction_over",
    )


def refusal(what: str) -> Refused:
    return Refused(
        f"a step in the store's transaction may not {what}",
        hint="Use tables of your own in it, and leave the transaction to the store.",
        code="not_in_transaction",
    )
