"""Tolerant replays: a request that differs from the record is answered by another recorded one.

What lanes wait for is delivered out of order where the order of the record would be a divergence.
"""

from __future__ import annotations

from onrecord.runtime.scheduler.items import Act, Delivery, Loosen, Requested, SettledItem, Token, Turn, is_same_act
from onrecord.runtime.scheduler.wait_table import WaitTable
from onrecord.runtime.scheduler.window import Window


class Tolerance:
    def __init__(self, loosen: Loosen, history: Window, awaited: WaitTable) -> None:
        self._loosen = loosen
        self._history = history
        self._awaited = awaited

    def find_request(self, expected: Act | None, request: Requested) -> Requested | None:
        """Return the recorded request that answers one which differs from the next recorded act of its lane."""
        if expected is not None and is_same_act(expected, request):
            return None
        position = self._loosen(request, self._history.unmade_requests())
        if position is None:
            return None
        bound = self._history.mark_made_at(position)
        assert isinstance(bound, Requested)
        return bound

    def take_delivery(self) -> tuple[Token, Delivery] | None:
        """Take what some lane waits for, out of order."""
        apart = self._awaited.find_apart()
        if apart is not None:
            return apart, Turn(*apart.taken_name)
        found = self._history.take_delivery(self._is_awaited)
        if found is None:
            return None
        token = self._awaited.find(found)
        assert token is not None
        return token, found

    def is_given_away(self, item: Delivery) -> bool:
        """Return True for a turn `taken` whose outcome was given to another lane."""
        return type(item) is Turn and item.kind == "taken" and self._awaited.find(item) is None

    def _is_awaited(self, item: Delivery) -> bool:
        token = self._awaited.find(item)
        return token is not None and not token.gone and not (type(item) is SettledItem and item.how == "retry")
