"""Outcomes of requests that changed code did not make again. An effect that it asks for later is not executed again."""

from __future__ import annotations

from typing import Any

from onrecord.runtime.scheduler.items import (
    Chunk,
    Cut,
    EffectCancelled,
    EffectFailed,
    EffectOutcome,
    Item,
    Requested,
    SettledItem,
    Token,
)


class Spares:
    def __init__(self) -> None:
        self._requests: dict[str, Requested] = {}
        self._values: dict[str, list[tuple[Any, bool]]] = {}

    @property
    def has_any(self) -> bool:
        return bool(self._requests)

    def add(self, item: Item) -> None:
        """Keep a dropped request, or what was delivered for it."""
        if type(item) is Requested:
            self._requests[item.key] = item
        elif type(item) is EffectOutcome and type(item.value) is not EffectCancelled:
            self._add_value(item.key, item.value, last=True)
        elif type(item) is Chunk:
            self._add_value(item.key, item.value, last=False)
        elif type(item) is SettledItem and item.how != "retry":
            self._add_value(item.key, EffectFailed(item.value) if item.how == "fail" else item.value, last=True)

    def _add_value(self, key: str, value: Any, *, last: bool) -> None:
        self._values.setdefault(key, []).append((value, last))

    def take(self, token: Token) -> list[tuple[Any, bool]] | None:
        """Return the values for a request that is made again, each with True for the last; None if it is another."""
        recorded, call = self._requests.get(token.key), token.call
        if recorded is None or call is None:
            if not token.recorded or token.key not in self._values:
                return None
        elif recorded.digest == call.digest:
            del self._requests[token.key]
        else:
            return None
        values = self._values.pop(token.key, [])
        if values and not values[-1][1]:
            values.append((Cut(), True))
        return values
