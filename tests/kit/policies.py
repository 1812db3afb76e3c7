"""What the tests of budgets and attempts share."""

from __future__ import annotations

import asyncio
from typing import Any

from kit.runtime import events


class RateLimited(Exception):
    pass


class Broken(Exception):
    pass


def kinds(store: Any, run: str) -> list[str]:
    return [event.kind for event in events(store, run)]


def attempts(store: Any, run: str) -> list[Any]:
    return [event for event in events(store, run) if event.kind == "AttemptRecorded"]


def awaited(made: Any) -> Any:
    async def wait() -> Any:
        return await made

    return asyncio.run(wait())
