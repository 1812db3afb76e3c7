"""Following a run as it grows: server-sent events, resumable by seq.

    id: 12
    data: {"seq": 12, …}          an event, as `/events` shows it

    event: end
    data: {"status": "completed"} the run has ended; nothing follows

With `brief` the contents are left out: seq, kind, lane and time, for whoever only wants to know that there is more. Now
and then it is told how the run stands, which is not only a matter of its events:

    event: standing
    data: {"status": "waiting", …}    as `/standing` answers

However many follow a run, one task looks at the store for all of them, and each event is read and written out once.
What came since the last look is sent in one piece: a run that writes quickly does not wake its followers every time.
Whoever lags behind reads what it has missed from the store by itself, at its own pace: nothing piles up for it. A
client that was cut off comes back with `Last-Event-ID`; one that has seen the end is told 204, and stops asking.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterator
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from onrecord.core.events import TERMINAL_KINDS
from onrecord.errors import BadPosition, InvalidInput, OnrecordError
from onrecord.journal.reader import JournalReader
from onrecord.reports.json_text import json_bytes
from onrecord.reports.spans import standing_report
from onrecord.reports.timelines import SeenEvent, events_between
from onrecord.web.query import RequestQuery
from onrecord.web.responses import HttpProblem, busy
from onrecord.web.run_streams import CountedStream
from onrecord.web.stores import Stores
from onrecord.web.threads import Threads

FOLLOWERS = 64
POLL_SECONDS = 0.2
HEARTBEAT_SECONDS = 10.0
STANDING_SECONDS = 2.0
READ_EVENTS = 500
READ_BYTES = 512 * 1024
KEPT_BYTES = 1024 * 1024
EVENT_STREAM = "text/event-stream"
BRIEF = ("seq", "kind", "lane", "time")


class Written(NamedTuple):
    seq: int
    text: bytes
    ended: str | None
    """The status that the run ended with, if this event is its end."""


class Feed:
    """What is new in one run, for everybody who follows it."""

    def __init__(self, reader: JournalReader, threads: Threads, *, brief: bool) -> None:
        self.reader = reader
        self.brief = brief
        self.followers = 0
        self.over = False
        self.ended: str | None = None
        self.head = 0
        self.standing = b""
        """What was said last of how the run stands."""
        self._standing_due = 0.0
        self._threads = threads
        self._kept: deque[Written] = deque()
        self._kept_bytes = 0
        self._news = asyncio.Event()
        self._looking: asyncio.Task[None] | None = None

    def start(self) -> None:
        if self._looking is None:
            self._looking = asyncio.create_task(self._look())

    def stop(self) -> None:
        self.over = True
        self._tell()
        if self._looking is not None:
            self._looking.cancel()

    async def _look(self) -> None:
        try:
            self.head, self.ended = await self._threads.run(_head, self.reader)
            self._tell()
            while self.ended is None:
                if self.brief:
                    await self._look_at_standing()
                if not await self._read_on() and self.ended is None:
                    await asyncio.sleep(POLL_SECONDS)
        except (OnrecordError, OSError):
            self.over = True  # those who come back are told why
            self._tell()

    async def _read_on(self) -> bool:
        """True if there may be more at once."""
        found = await self._threads.run(_read, self.reader, self.head, self.brief)
        if not found:
            return False
        size = sum(len(one.text) for one in found)
        self._kept.extend(found)
        self._kept_bytes += size
        while self._kept_bytes > KEPT_BYTES and len(self._kept) > 1:
            self._kept_bytes -= len(self._kept.popleft().text)
        self.head, self.ended = found[-1].seq, found[-1].ended
        self._tell()
        return len(found) == READ_EVENTS or size >= READ_BYTES

    async def _look_at_standing(self) -> None:
        now = asyncio.get_running_loop().time()
        if now < self._standing_due:
            return
        told = b"event: standing\ndata: " + await self._threads.run(_standing, self.reader) + b"\n\n"
        self._standing_due = asyncio.get_running_loop().time() + STANDING_SECONDS
        if told != self.standing:
            self.standing = told
            self._tell()

    def _tell(self) -> None:
        self._news.set()
        self._news = asyncio.Event()

    async def behind(self, seq: int) -> list[Written]:
        """Some of what follows `seq`, which is before the head."""
        if self._kept and self._kept[0].seq <= seq + 1:
            return [one for one in self._kept if one.seq > seq]
        return await self._threads.run(_read, self.reader, seq, self.brief)

    async def news(self) -> None:
        """Returns when there may be something new, or after a while anyway."""
        try:
            async with asyncio.timeout(HEARTBEAT_SECONDS):
                await self._news.wait()
        except TimeoutError:
            pass


class Followers:
    def __init__(self, stores: Stores, threads: Threads) -> None:
        self._stores = stores
        self._threads = threads
        self._feeds: dict[tuple[str, bool], Feed] = {}
        self._count = 0
        self._stopped = False

    async def follow(self, request: Request) -> Response:
        asked = RequestQuery(request, ("after", "brief"))
        after, brief = _position(request, asked), asked.flag("brief")
        reader = await self._threads.run(self._stores.reader, asked.path["run"])
        head, ended = await self._threads.run(_head, reader)
        if after > head:
            raise BadPosition(f"run {reader.run} has {head} events, there is no event {after}")
        if ended is not None and after == head and after > 0:
            return Response(status_code=204)
        if request.method == "HEAD":
            return Response(b"", media_type=EVENT_STREAM)
        if self._count >= FOLLOWERS or self._stopped:
            raise busy("too many follow runs already")
        self._count += 1
        feed = self._feeds.setdefault((reader.run, brief), Feed(reader, self._threads, brief=brief))
        feed.followers += 1
        return CountedStream(self._texts(feed, after), {}, EVENT_STREAM, lambda: self._leave(feed))

    async def _texts(self, feed: Feed, seq: int) -> AsyncIterator[bytes]:
        feed.start()
        yield b"retry: 1000\n\n"
        standing = b""
        while not feed.over:
            if standing != feed.standing:
                standing = feed.standing
                yield standing
            elif seq < feed.head:
                found = await feed.behind(seq)
                yield b"".join([one.text for one in found])
                seq = found[-1].seq if found else seq
            elif feed.ended is not None:
                yield b"event: end\ndata: " + json_bytes({"run": feed.reader.run, "status": feed.ended}) + b"\n\n"
                return
            else:
                known = feed.head
                await feed.news()
                if feed.head == known and feed.standing == standing and not feed.over:
                    yield b": still here\n\n"

    def _leave(self, feed: Feed) -> None:
        self._count -= 1
        feed.followers -= 1
        if feed.followers == 0:
            feed.stop()
            if self._feeds.get((feed.reader.run, feed.brief)) is feed:
                del self._feeds[feed.reader.run, feed.brief]

    def stop(self) -> None:
        """Ends all streams: the server is about to end."""
        self._stopped = True
        for feed in self._feeds.values():
            feed.stop()


def _position(request: Request, asked: RequestQuery) -> int:
    """The last event that was seen. A browser that comes back says it in a header."""
    known = request.headers.getlist("last-event-id")
    if not known or known == [""]:
        return asked.number("after", 0)
    if len(known) > 1 or not (known[0].isascii() and known[0].isdecimal() and len(known[0]) <= 15):
        raise InvalidInput("Last-Event-ID is the number of an event", code="bad_parameter")
    return int(known[0])


def _head(reader: JournalReader) -> tuple[int, str | None]:
    last = reader.store.last_event(reader.namespace, reader.run)
    if last is None:
        return 0, None
    return last.seq, last.kind.lower() if last.kind in TERMINAL_KINDS else None


def _standing(reader: JournalReader) -> bytes:
    return json_bytes(standing_report(reader))


def _read(reader: JournalReader, seq: int, brief: bool) -> list[Written]:
    """Some events behind `seq`, as they are sent."""
    if reader.store.run_row(reader.namespace, reader.run) is None:
        raise HttpProblem(404, "unknown_run", f"run {reader.run} was removed meanwhile")
    found: list[Written] = []
    size = 0
    for event in _briefly(reader, seq + 1) if brief else events_between(reader, seq + 1, seq + 1 + READ_EVENTS):
        told = event.to_json()
        text = b"id: %d\ndata: %s\n\n" % (
            event.seq,
            json_bytes({name: told[name] for name in BRIEF} if brief else told),
        )
        found.append(Written(event.seq, text, event.kind.lower() if event.kind in TERMINAL_KINDS else None))
        size += len(text)
        if size >= READ_BYTES:
            break
    return found


def _briefly(reader: JournalReader, start: int) -> Iterator[SeenEvent]:
    """Events without their contents, which are not even read."""
    for row in reader.store.scan(reader.namespace, reader.run, start, start + READ_EVENTS, contents=False):
        try:
            time: int | None = reader.link(row).time
        except OnrecordError:
            time = None
        yield SeenEvent(row.seq, row.kind, row.lane, time)
