"""One connection of the server, bounded in every direction; uvicorn's own is bounded in hardly any.

- Beyond so many connections a new one is closed at once.
- The head of a request is there in so many seconds, however it drips in.
- A line of the head ends with CRLF: what two readers could split differently is refused.
- Whoever does not read its answer for so long is cut off, and what was written for it is let go.
- A request that was sent before the answer to the one before is not looked at: a client sends it again.
- What is answered before its body has been read ends the connection: nobody can say where the next request begins.
"""

from __future__ import annotations

import asyncio
import re

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from onrecord.reports.json_text import json_bytes
from onrecord.web.responses import SAFE_HEADERS

CONNECTIONS = 256
HEAD_BYTES = 32 * 1024
HEAD_SECONDS = 10.0
STALLED_SECONDS = 20.0
LINGER_SECONDS = 1.0

_BARE_LINE_FEED = re.compile(rb"(?<!\r)\n")


class BoundedProtocol(H11Protocol):
    _head_timer: asyncio.TimerHandle | None = None
    _stall_timer: asyncio.TimerHandle | None = None
    _last_of_head = b""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > CONNECTIONS:
            transport.abort()
            return
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel_timers()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._between_requests():
            self._await_head()
            head = self._last_of_head + data.partition(b"\r\n\r\n")[0]
            self._last_of_head = data[-1:]
            if _BARE_LINE_FEED.search(head):
                self.send_400_response("a line of the head does not end with CRLF")
                return
        super().data_received(data)
        if self.conn.their_state is h11.DONE and self.conn.trailing_data[0]:
            self.cycle.keep_alive = False

    def handle_events(self) -> None:
        super().handle_events()
        if not self._between_requests():
            self._last_of_head = b""
            self._cancel(self._head_timer)
            self._head_timer = None

    def send_400_response(self, msg: str) -> None:
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            self.transport.close()  # in the middle of another answer
            return
        error = {"code": "bad_request", "message": "the request is not well formed", "hint": ""}
        headers = {**SAFE_HEADERS, "content-type": "application/json", "connection": "close"}
        body = json_bytes({"error": error})
        started = h11.Response(status_code=400, headers=[*headers.items(), ("content-length", str(len(body)))])
        for event in (started, h11.Data(data=body), h11.EndOfMessage()):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.conn.their_state is h11.SEND_BODY:
            # Closed a little later: what arrives meanwhile would otherwise make the client lose the answer.
            self.loop.call_later(LINGER_SECONDS, self.transport.abort)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._cancel(self._stall_timer)
        self._stall_timer = self.loop.call_later(STALLED_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._cancel(self._stall_timer)
        self._stall_timer = None

    def _between_requests(self) -> bool:
        return self.conn.their_state is h11.IDLE

    def _await_head(self) -> None:
        if self._head_timer is None:
            self._head_timer = self.loop.call_later(HEAD_SECONDS, self.transport.abort)

    def _cancel_timers(self) -> None:
        self._cancel(self._head_timer)
        self._cancel(self._stall_timer)

    @staticmethod
    def _cancel(timer: asyncio.TimerHandle | None) -> None:
        if timer is not None:
            timer.cancel()
