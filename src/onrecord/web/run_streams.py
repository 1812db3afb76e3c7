"""Whole runs as lines of JSON, made piece by piece on a thread: however long the run is, memory stays bounded.

A timeline has one event a line, as `/events` shows them, and ends with `{"end": {"run", "events", "head", "damaged"}}`.
A recording is what `onrecord export` writes. What breaks on the way cuts the answer off, so that a part is never taken
for the whole.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from onrecord.core.hashing import render
from onrecord.journal.export import export_lines
from onrecord.journal.reader import JournalReader
from onrecord.reports.json_text import json_bytes
from onrecord.reports.timelines import seen
from onrecord.web.query import RequestQuery
from onrecord.web.responses import busy
from onrecord.web.stores import Stores
from onrecord.web.threads import Threads

PIECE_BYTES = 256 * 1024
STREAMS = 16
JSON_LINES = "application/x-ndjson"


class Streams:
    """At most so many at once."""

    def __init__(self, stores: Stores, threads: Threads) -> None:
        self._stores = stores
        self._threads = threads
        self._open = 0

    async def timeline(self, request: Request) -> Response:
        asked = RequestQuery(request, ("from", "after"))
        start = asked.start()
        reader = await self._threads.run(self._stores.reader, asked.path["run"])
        await self._threads.run(reader.check_start, start)
        return await self._streamed(request, _timeline_lines(reader, start), f"{reader.run}.timeline.jsonl")

    async def recording(self, request: Request) -> Response:
        asked = RequestQuery(request)
        reader = await self._threads.run(self._stores.reader, asked.path["run"])
        return await self._streamed(request, export_lines(reader), f"{reader.run}.jsonl")

    async def _streamed(self, request: Request, lines: Iterator[bytes], name: str) -> Response:
        # A run id is made of characters that need no quoting but for the colon, which not every file system takes.
        headers = {"content-disposition": f'attachment; filename="{name.replace(":", "_")}"'}
        if request.method == "HEAD":
            return Response(b"", headers=headers, media_type=JSON_LINES)
        if self._open >= STREAMS:
            raise busy("too many exports at once")
        self._open += 1
        try:
            first = await self._threads.run(_piece, lines)  # a damaged run is refused before anything is sent
        except BaseException:
            self._open -= 1
            raise
        return CountedStream(self._pieces(first, lines), headers, JSON_LINES, self._end)

    async def _pieces(self, piece: bytes, lines: Iterator[bytes]) -> AsyncIterator[bytes]:
        while piece:
            yield piece
            piece = await self._threads.run(_piece, lines)

    def _end(self) -> None:
        self._open -= 1


class CountedStream(StreamingResponse):
    """Gives its place back whatever becomes of it."""

    def __init__(self, content: Any, headers: dict[str, str], media_type: str, end: Any) -> None:
        super().__init__(content, headers=headers, media_type=media_type)
        self._end = end

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._end()


def _piece(lines: Iterator[bytes]) -> bytes:
    found: list[bytes] = []
    size = 0
    for line in lines:
        found += (line, b"\n")
        size += len(line) + 1
        if size >= PIECE_BYTES:
            break
    return b"".join(found)


def _timeline_lines(reader: JournalReader, start: int) -> Iterator[bytes]:
    head, events, damaged = reader.head(), 0, 0
    for row in reader.store.scan(reader.namespace, reader.run, start, head.seq + 1):
        event = seen(reader, row)
        events += 1
        damaged += event.damage is not None
        yield json_bytes(event.to_json())
    end = {"run": reader.run, "events": events, "head": f"{head.seq}:{render(head.hash)}", "damaged": damaged}
    yield json_bytes({"end": end})
