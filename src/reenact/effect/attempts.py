"""Carrying an effect out, as often as its retry policy allows: one request, one result, any number of attempts."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from reenact.core.events import AttemptRecorded
from reenact.effect.places import PLACE, Inside

if TYPE_CHECKING:
    from reenact.effect.live_run import LiveRun
    from reenact.effect.tickets import Ticket


class Attempts:
    def __init__(self, run: LiveRun, ticket: Ticket) -> None:
        self._run = run
        self._ticket = ticket
        self._number = ticket.recorded.attempts + 1 if ticket.recorded is not None else 1
        self.place = Inside(run, ticket, self._number)

    async def carry_out(self, call: Callable[[], Awaitable[Any]]) -> Any:
        seconds = self._ticket.spec.timeout_seconds
        while True:
            try:
                if seconds is None:
                    value = await call()
                else:
                    async with asyncio.timeout(seconds):
                        value = await call()
            except Exception as error:
                delay = self._after(error)
                if delay is None:
                    raise
                await asyncio.sleep(delay)
            else:
                self._succeeded()
                return value

    def carry_out_blocking(self, call: Callable[[], Any]) -> Any:
        while True:
            try:
                value = call()
            except Exception as error:
                delay = self._after(error)
                if delay is None:
                    raise
                time.sleep(delay)
            else:
                self._succeeded()
                return value

    def _after(self, error: Exception) -> float | None:
        """Seconds until the next attempt; None when this was the last one."""
        retry = self._ticket.spec.retry
        if retry is None:
            return None
        delay: float | None = retry.delay_after(self._number, error, self.place.idempotency_key)
        self._record("failed" if delay is None else "retried", error)
        if delay is not None:
            self._number += 1
            self.place = self.place._replace(attempt=self._number)
            PLACE.set(self.place)
        return delay

    def _succeeded(self) -> None:
        if self._number > 1:
            self._record("succeeded", None)

    def _record(self, status: str, error: Exception | None) -> None:
        snapshots = {"error": error} if error is not None else None
        event = AttemptRecorded(self._ticket.key, self._number, status, snapshots)
        self._run.note_now(event, self._ticket.lane)
