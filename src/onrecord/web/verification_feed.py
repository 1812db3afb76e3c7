"""Verification as it goes on: server-sent events with how far it is, then the verdict.

    data: {"done": 20000, "total": 100000}

    event: end
    data: {"verified": 100000, …}        what `/verify` answers

Whoever leaves ends it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from onrecord.errors import OnrecordError
from onrecord.journal.verify import verify_run
from onrecord.reports.json_text import json_bytes
from onrecord.reports.verifications import verification_report
from onrecord.web.query import RequestQuery
from onrecord.web.responses import told
from onrecord.web.run_feed import EVENT_STREAM
from onrecord.web.run_streams import CountedStream
from onrecord.web.stores import Stores
from onrecord.web.threads import Threads

Said = tuple[str, Any]


class _Left(Exception):
    """Nobody listens any more."""


class Verifications:
    def __init__(self, stores: Stores, threads: Threads) -> None:
        self._stores = stores
        self._threads = threads

    async def watch(self, request: Request) -> Response:
        asked = RequestQuery(request, ("deep",))
        deep = asked.flag("deep")
        run = await self._threads.run(self._stores.run, asked.path["run"])
        if request.method == "HEAD":
            return Response(b"", media_type=EVENT_STREAM)
        watched = _Watched(self._stores, run, deep)
        return CountedStream(watched.texts(self._threads), {}, EVENT_STREAM, watched.leave)


class _Watched:
    def __init__(self, stores: Stores, run: str, deep: bool) -> None:
        self._stores, self._run, self._deep = stores, run, deep
        self._loop = asyncio.get_running_loop()
        self._said: asyncio.Queue[Said] = asyncio.Queue()
        self._left = False

    def leave(self) -> None:
        self._left = True

    async def texts(self, threads: Threads) -> AsyncIterator[bytes]:
        working = asyncio.ensure_future(threads.run(self._verify))
        try:
            while True:
                coming = asyncio.ensure_future(self._said.get())
                await asyncio.wait((coming, working), return_when=asyncio.FIRST_COMPLETED)
                if not coming.done() and working.done():
                    coming.cancel()
                    name, data = _outcome(working)
                else:
                    name, data = await coming
                yield b"event: %s\ndata: %s\n\n" % (name.encode(), json_bytes(data))
                if name != "message":
                    return
        finally:
            self.leave()
            working.add_done_callback(lambda done: done.cancelled() or done.exception())  # looked at, by whoever left

    def _verify(self) -> Said:
        report = verify_run(
            self._stores.reading, self._run, self._stores.namespace, deep=self._deep, progress=self._progress
        )
        return "end", verification_report(report)

    def _progress(self, done: int, total: int) -> None:
        if self._left:
            raise _Left
        self._loop.call_soon_threadsafe(self._said.put_nowait, ("message", {"done": done, "total": total}))


def _outcome(working: asyncio.Future[Said]) -> Said:
    """The verdict, or what went wrong: an answer that was begun has no other way to say so."""
    try:
        return working.result()
    except (OnrecordError, OSError) as error:
        said = told(error)
        return "problem", {"error": {"code": said.code, "message": said.message, "hint": said.hint}}
