"""Following the list of runs: server-sent events, resumable by the place in the list.

    id: 5c0f….17
    data: {"place": …, "runs": [{…, "wanted": true}, …]}    runs that are new or have changed, as `/overview` has them

    event: again                                            the list has to be read again from its beginning
    data: {"place": …}

However many follow, one task looks whether anything has changed; then each reads what is new for it by itself, so
nothing piles up for whoever is slow.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import Response

from onrecord.errors import InvalidInput, OnrecordError
from onrecord.reports.json_text import json_bytes
from onrecord.web.list_endpoints import FILTERS, wanted_lines
from onrecord.web.query import RequestQuery
from onrecord.web.responses import busy
from onrecord.web.run_feed import EVENT_STREAM, FOLLOWERS, HEARTBEAT_SECONDS
from onrecord.web.run_streams import CountedStream
from onrecord.web.stores import Stores
from onrecord.web.threads import Threads

if TYPE_CHECKING:  # loaded with the first list
    from onrecord.index.lists import ListFilter

POLL_SECONDS = 0.7
LONGEST_PLACE = 64


class ListFollowers:
    def __init__(self, stores: Stores, threads: Threads) -> None:
        self._stores = stores
        self._threads = threads
        self._count = 0
        self._stopped = False
        self._place = ""
        self._news = asyncio.Event()
        self._looking: asyncio.Task[None] | None = None

    async def follow(self, request: Request) -> Response:
        asked = RequestQuery(request, (*FILTERS, "after"), ("status", "agent"))
        wanted, place = wanted_lines(asked), _position(request, asked)
        if place is not None:
            await self._threads.run(self._changes, place, wanted)  # a place that is none is refused at once
        if request.method == "HEAD":
            return Response(b"", media_type=EVENT_STREAM)
        if self._count >= FOLLOWERS or self._stopped:
            raise busy("too many follow the list already")
        self._count += 1
        return CountedStream(self._texts(wanted, place), {}, EVENT_STREAM, self._leave)

    async def _texts(self, wanted: ListFilter, place: str | None) -> AsyncIterator[bytes]:
        if self._looking is None:
            self._looking = asyncio.create_task(self._look())
        yield b"retry: 1000\n\n"
        if place is None:
            place = await self._threads.run(self._now)
            yield b"id: %s\n\n" % place.encode()
        while not self._stopped:
            news = self._news  # before the look: what comes meanwhile is news, too
            found = await self._threads.run(self._changes, place, wanted)
            if found is None:
                place = await self._threads.run(self._now)
                yield b"event: again\nid: %s\ndata: %s\n\n" % (place.encode(), json_bytes({"place": place}))
            elif found["runs"]:
                place = found["place"]
                yield b"id: %s\ndata: %s\n\n" % (place.encode(), json_bytes(found))
            elif not await _waited(news):
                yield b": still here\n\n"

    async def _look(self) -> None:
        while not self._stopped:
            try:
                place = await self._threads.run(self._now)
            except OnrecordError:
                place = self._place  # the store is away: those who come back are told
            if place != self._place:
                self._place = place
                self._tell()
            await asyncio.sleep(POLL_SECONDS)

    def _tell(self) -> None:
        self._news.set()
        self._news = asyncio.Event()

    def _now(self) -> str:
        from onrecord.index.lists import place_of

        return place_of(self._stores.indexed.current())

    def _changes(self, place: str, wanted: ListFilter) -> dict[str, Any] | None:
        from onrecord.index.lists import changes_since

        # `_look` brings it up to date, once for all.
        return changes_since(self._stores.indexed.as_it_is(), place, wanted)

    def _leave(self) -> None:
        self._count -= 1
        if self._count == 0 and self._looking is not None:
            self._looking.cancel()
            self._looking = None

    def stop(self) -> None:
        """Ends all streams: the server is about to end."""
        self._stopped = True
        self._tell()
        if self._looking is not None:
            self._looking.cancel()


async def _waited(news: asyncio.Event) -> bool:
    """True when something may be new; False after a while anyway."""
    try:
        async with asyncio.timeout(HEARTBEAT_SECONDS):
            await news.wait()
    except TimeoutError:
        return False
    return True


def _position(request: Request, asked: RequestQuery) -> str | None:
    """Where in the list somebody is. A browser that comes back says it in a header."""
    known = request.headers.getlist("last-event-id")
    place = asked.text("after") if not known or known == [""] else known[0]
    if len(known) > 1 or (place is not None and (len(place) > LONGEST_PLACE or not place.isascii())):
        raise InvalidInput("not a place of this list", code="bad_cursor")
    return place
