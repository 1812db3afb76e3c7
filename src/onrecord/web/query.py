"""What a request asks for, read strictly: a parameter that is not known, or given twice, is an error and no guess."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from starlette.requests import Request

from onrecord.errors import BadPosition, InvalidInput, NotFound
from onrecord.store.contract import RunRow
from onrecord.web.stores import Stores

_NUMBER = re.compile(r"[0-9]{1,15}\Z")
_YES_OR_NO = {"true": True, "false": False}


class RequestQuery:
    def __init__(self, request: Request, parameters: Collection[str] = (), repeatable: Collection[str] = ()) -> None:
        self.path: Mapping[str, Any] = request.path_params
        self._given: dict[str, str] = {}
        self._several: dict[str, list[str]] = {}
        for name, value in request.query_params.multi_items():
            if name not in parameters:
                known = f"It takes {', '.join(parameters)}." if parameters else "It takes none."
                raise InvalidInput(f"no parameter is called {name[:80]!r} here", hint=known, code="unknown_parameter")
            if name in self._given and name not in repeatable:
                raise InvalidInput(f"{name} is given twice", code="repeated_parameter")
            self._given[name] = value
            self._several.setdefault(name, []).append(value)

    def drop_blanks(self) -> None:
        """A form sends what nobody has filled in as well."""
        self._given = {name: value for name, value in self._given.items() if value.strip()}
        self._several = {name: [one for one in values if one.strip()] for name, values in self._several.items()}

    def text(self, name: str) -> str | None:
        return self._given.get(name)

    def several(self, name: str) -> frozenset[str]:
        return frozenset(self._several.get(name, ()))

    def number(self, name: str, default: int, *, least: int = 0, most: int = 10**15) -> int:
        text = self._given.get(name)
        return default if text is None else _number(name, text, least, most)

    def seq(self, name: str = "seq") -> int:
        """The event in the path."""
        text = self.path[name]
        if not _NUMBER.match(text) or int(text) < 1:
            raise BadPosition(f"not the number of an event: {text[:80]!r}", hint="Events are numbered from 1.")
        return int(text)

    def flag(self, name: str) -> bool:
        text = self._given.get(name, "false")
        if text not in _YES_OR_NO:
            raise InvalidInput(f"{name} is true or false, not {text[:80]!r}", code="bad_parameter")
        return _YES_OR_NO[text]

    def start(self) -> int:
        """The first event that is wanted: `from` names it, `after` the one before it."""
        if "from" in self._given and "after" in self._given:
            raise InvalidInput("`from` and `after` exclude each other", code="bad_parameter")
        return self.number("from", self.number("after", 0) + 1, least=1)


def _number(name: str, text: str, least: int, most: int) -> int:
    if not _NUMBER.match(text) or not least <= int(text) <= most:
        raise InvalidInput(f"{name} is a number from {least} to {most}, not {text[:80]!r}", code="bad_parameter")
    return int(text)


def row_of(stores: Stores, run: str) -> RunRow:
    row = stores.reading.run_row(stores.namespace, run)
    if row is None:
        raise NotFound(f"run {run} was removed meanwhile", code="unknown_run")
    return row


@contextmanager
def event_in_path() -> Iterator[None]:
    """Answer 404 for a missing event: in a path, its number is a name."""
    try:
        yield
    except BadPosition as missing:
        raise NotFound(missing.message, hint=missing.hint, code=missing.code) from None
