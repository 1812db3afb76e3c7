"""What the lanes of a run wait for, and how the history finds it."""

from __future__ import annotations

from typing import Any

from onrecord.runtime.scheduler.items import Delivery, EffectOutcome, Token, Turn, TurnName, delivery_name


class WaitTable:
    def __init__(self) -> None:
        self.open: dict[Token, None] = {}
        """Tokens that were not delivered and are still waited for, in order of creation."""
        self.listening: dict[Token, None] = {}
        """Tokens that no request asks for and that no lane waits for."""
        self.named: dict[str | TurnName, Token] = {}
        """Tokens that the history may ask for by name."""
        self._apart: dict[Token, Any] = {}
        """Values of the history that were written by their effects and are delivered by a turn."""

    def find(self, item: Delivery) -> Token | None:
        """Return the token that a recorded delivery belongs to. It may be gone."""
        return self.named.get(delivery_name(item))

    def has_key(self, key: str) -> bool:
        return key in self.named

    @property
    def has_returning(self) -> bool:
        """True if a strand that was away waits for its return."""
        return any(token.call is None and token.turn_name[0] == "back" for token in self.open)

    def skip(self, item: Delivery) -> None:
        """Pass a recorded delivery that the program gave up."""
        self.named.pop(delivery_name(item), None)

    def forget(self, token: Token) -> None:
        """Note that no lane waits for the token any more."""
        token.gone = True
        self.open.pop(token, None)
        self._apart.pop(token, None)

    def take_given_up(self) -> list[Token]:
        """Return the requests that the program gave up and whose outcome the history does not have. Forget names."""
        given_up = [token for token in self.named.values() if token.gone and token.recorded]
        self.named.clear()
        return given_up

    # Outcomes that were written apart

    def keep_apart(self, token: Token, item: EffectOutcome) -> None:
        """Keep an outcome that the effect wrote by itself until the turn that delivers it.

        If the program gave the effect up, that turn is skipped.
        """
        token.is_written = True
        self.named[token.taken_name] = token
        if token.gone:
            self.skip(item)
        else:
            self._apart[token] = item.value

    def is_apart(self, token: Token) -> bool:
        return token in self._apart

    def take_apart(self, token: Token) -> Any:
        return self._apart.pop(token)

    def find_apart(self) -> Token | None:
        """Return the first open token whose outcome is kept."""
        return next((token for token in self.open if token in self._apart), None)

    def value_of(self, token: Token, item: Delivery) -> Any:
        """Return the value that a recorded delivery delivers."""
        if type(item) is not Turn:
            return item.value  # type: ignore[union-attr]
        if item.kind != "taken":
            return None
        self.named.pop(token.taken_name, None)
        return self._apart.pop(token, None)
