"""HTTP request as an effect: answered as a whole, or as a stream of parts.

An interceptor passes the request (`RequestParts`) and a function that sends it. The function receives None, or the
request as a fork changed it, and returns the head and the body. The program receives a response built from the record,
also while recording.

Streams: the first chunk is the head, each further one `[microseconds since the request, part]`. The answer holds the
whole body and how the stream ended:

- `terminator`: the protocol's last message was received (`data: [DONE]`, `message_stop`)
- `end of body`: the whole body was received
- `server closed`: the stream ended before its terminator
- `consumer closed`: the reader stopped reading

The outcome of a stream that failed is the error. Its attribute `onrecord_ended` is `server closed` or `error`.
"""

from __future__ import annotations

import functools
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Mapping
from time import perf_counter_ns
from typing import Any

from onrecord.capture.http.bodies import body_bytes, part_bytes, part_form, response_body
from onrecord.capture.http.exchange import (
    RequestParts,
    ResponseHead,
    complete_answer,
    effect_name,
    fit_length,
    fit_length_header,
    read_head,
    recorded_head,
    recorded_request,
    recorded_response,
)
from onrecord.capture.http.pace import Pace
from onrecord.capture.http.providers import Terminator, find_provider
from onrecord.capture.usage import spent_by_answer
from onrecord.core.events import ActionFailed, ActionRequested, ActionSucceeded, Event
from onrecord.runtime.api.settle import SettledAsFailed
from onrecord.runtime.engine.blocking_streams import BlockingStream
from onrecord.runtime.engine.boundary import perform, perform_blocking
from onrecord.runtime.engine.context import Lane
from onrecord.runtime.engine.open_effect import Answers, EffectSpec
from onrecord.runtime.engine.stops import CUT
from onrecord.runtime.engine.streams import Stream

TERMINATOR, END_OF_BODY, SERVER_CLOSED, CONSUMER_CLOSED, ERROR = (
    "terminator",
    "end of body",
    "server closed",
    "consumer closed",
    "error",
)
_REPEATABLE = frozenset({"GET", "HEAD", "OPTIONS"})
_CLOSED_BY_SERVER = frozenset(
    {
        "ClientPayloadError",
        "ConnectionResetError",
        "IncompleteRead",
        "ProtocolError",
        "ReadError",
        "RemoteDisconnected",
        "RemoteProtocolError",
        "ServerDisconnectedError",
    }
)
"""Names of the errors that libraries raise when the server has closed the connection."""

ChangedRequest = RequestParts | None
Answer = dict[str, Any]


def _no_usage(_: Answer) -> Mapping[str, float]:
    """Return no usage: the request is not a model call."""
    return {}


class HttpCall:
    """HTTP request with its recorded form."""

    def __init__(self, request: RequestParts, make_failure: Callable[[str], Exception] = ConnectionError) -> None:
        """Hold the request. `make_failure` makes the error that the client library raises for a failed request."""
        self.request = request
        self._failure = make_failure
        self.answer: Answer | None = None
        """Answer received by this process; None if it comes from the record."""
        self.payload = recorded_request(request)
        self.provider = find_provider(request.method, request.url, self.payload.get("body"))
        self.spec = EffectSpec(
            effect_name(request),
            "http" if self.provider is None else "model_call",
            self.provider is None and request.method not in _REPEATABLE,
            usage=_no_usage if self.provider is None else spent_by_answer,
            handed_as_is=True,
        )

    def make_event(self, key: str) -> ActionRequested:
        return ActionRequested(key, self.payload, self.spec.name, self.spec.kind, meta=self._meta())

    def _meta(self) -> dict[str, Any] | None:
        """Return the retry count and the call id that SDKs send, by which the attempts of one call are grouped."""
        meta: dict[str, Any] = {"once": True} if self.spec.once else {}
        for name, value in self.request.headers:
            name = name.lower()
            if name == "x-stainless-retry-count" and value.isdigit():
                meta["retry"] = int(value)
            elif name == "idempotency-key" and value:
                meta["call"] = value
        return meta or None

    def serve(self, answer: Any) -> Answer:
        """Return the answer for the program. One from the record is completed: it may be edited or written by hand."""
        is_fresh = answer is self.answer and answer is not None  # a settled answer may be None
        return answer if is_fresh else fit_length(complete_answer(answer), self.request.method)

    def make_failure(self, error: SettledAsFailed | ConnectionError) -> Exception:
        """Return the client library's error for an effect that was settled as failed, or a stream that was cut off."""
        return self._failure(error.message if isinstance(error, SettledAsFailed) else str(error))

    def changed_request(self, payload: Mapping[str, Any]) -> ChangedRequest:
        """Return the request to send if a fork changed the payload, otherwise None."""
        if payload == self.payload:
            return None
        body, content_type = body_bytes(payload.get("body")), payload["headers"].get("content-type")
        headers = [pair for pair in self.request.headers if pair[0].lower() not in ("content-length", "content-type")]
        if content_type is not None:
            headers.append(("content-type", content_type))
        return RequestParts(payload["method"], payload["url"], tuple(headers), body)


# Whole answers


def exchange_blocking(call: HttpCall, send: Callable[[ChangedRequest], tuple[ResponseHead, bytes]]) -> Answer:
    def execute(method: str, url: str, headers: Any, body: Any = None) -> Answer:
        call.answer = recorded_response(*send(call.changed_request(_build_payload(method, url, headers, body))), method)
        return call.answer

    try:
        return call.serve(perform_blocking(call.spec, call.make_event, functools.partial(execute, **call.payload)))
    except SettledAsFailed as settled:
        raise call.make_failure(settled) from None


async def exchange(call: HttpCall, send: Callable[[ChangedRequest], Awaitable[tuple[ResponseHead, bytes]]]) -> Answer:
    async def execute(method: str, url: str, headers: Any, body: Any = None) -> Answer:
        call.answer = recorded_response(
            *await send(call.changed_request(_build_payload(method, url, headers, body))), method
        )
        return call.answer

    try:
        return call.serve(await perform(call.spec, call.make_event, functools.partial(execute, **call.payload)))
    except SettledAsFailed as settled:
        raise call.make_failure(settled) from None


def _build_payload(method: str, url: str, headers: Any, body: Any) -> dict[str, Any]:
    payload = {"method": method, "url": url, "headers": headers}
    return payload if body is None else {**payload, "body": body}


# Streams


class _StreamAnswers(Answers):
    """Events for the end of a stream."""

    def __init__(self, body: _StreamedBody) -> None:
        self._body = body

    def done(self, key: str, value: Any) -> Event:
        return ActionSucceeded(key, _assemble_answer(value, self._body.call.provider))

    def failed(self, key: str, error: BaseException) -> Event:
        closed = any(cls.__name__ in _CLOSED_BY_SERVER for cls in type(error).__mro__)
        error.__dict__["onrecord_ended"] = SERVER_CLOSED if closed else ERROR
        return ActionFailed(key, error)

    def cancelled(self, key: str, error: BaseException) -> Event:
        if self._body.chunks:
            return ActionSucceeded(key, _assemble_answer(self._body.chunks, self._body.call.provider, CONSUMER_CLOSED))
        return ActionFailed(key, error)


def _assemble_answer(chunks: list[Any], provider: str | None, ended_early: str | None = None) -> Answer:
    """Return the answer of a stream from its chunks. `ended_early` says how it ended if the body is incomplete."""
    head, whole = chunks[0], b"".join(part_bytes(part) for _, part in chunks[1:])
    headers = {name.lower(): value for name, value in head["headers"]}
    terminator = Terminator(provider, headers.get("content-type", ""))
    terminator.feed(whole)
    ended = ended_early or (SERVER_CLOSED if terminator.is_expected else END_OF_BODY)
    if terminator.was_seen:
        ended = TERMINATOR
    elif ended_early and headers.get("content-length") == str(len(whole)):
        ended = END_OF_BODY
    return {**head, "body": response_body(whole), "ended": ended}


def split_answer(answer: Answer) -> list[Any]:
    """Return a whole answer as chunks of a stream: the head, and at most one part."""
    answer = complete_answer(answer)
    head = {name: value for name, value in answer.items() if name not in ("body", "ended")}
    whole = body_bytes(answer.get("body"))
    return [head, [0, part_form(whole)]] if whole else [head]


class _StreamedBody:
    """Body that is read in parts: what the blocking and the async reader share."""

    _recorded_answer: Callable[[], Any]
    """Return the recorded answer before the stream has ended, or None."""

    def __init__(self, call: HttpCall, lane: Lane) -> None:
        self.call = call
        self.spec = call.spec._replace(answers=_StreamAnswers(self))
        self.chunks: list[Any] = []
        """Chunks delivered to the reader."""
        self.is_leaving = False
        """True: the reader closes the stream after it has received everything."""
        self._pace = Pace(lane.run)
        self._terminator: Terminator | None = None
        self._bytes_left: int | None = None
        """Bytes still expected, if the head has a content length."""
        self._rest: Iterator[Any] | None = None
        """Chunks that the answer holds beyond those delivered."""
        self._bytes_read = 0

    def remaining_chunks(self, answer: Answer | None) -> Iterator[Any]:
        """Return the chunks of the answer that the ended stream did not deliver. That is everything if the stream was
        recorded as a whole, and a tail that was held back because a secret could have begun there."""
        if self._rest is None:
            self._rest = iter(self._missing_chunks(answer))
        return self._rest

    def _missing_chunks(self, answer: Any) -> list[Any]:
        if not self.chunks:
            return split_answer(answer)
        if not isinstance(answer, dict) or "ended" not in answer:  # an operator settled a stream that was cut off
            rest = body_bytes(complete_answer(answer)["body"])
            delivered = b"".join(part_bytes(part) for _, part in self.chunks[1:])
            rest = rest.removeprefix(delivered)  # the operator gave the whole body, or only the missing end
            return [[0, part_form(rest)]] if rest else []
        whole = body_bytes(answer.get("body"))
        if len(whole) <= self._bytes_read:
            return []
        delivered = b"".join(part_bytes(part) for _, part in self.chunks[1:])
        return [[0, part_form(whole[len(delivered) :])]] if whole.startswith(delivered) else []

    def accept_chunk(self, chunk: Any) -> Any:
        self.chunks.append(chunk)
        if self._terminator is None:
            headers = {name.lower(): value for name, value in chunk["headers"]}
            self._terminator = Terminator(self.call.provider, headers.get("content-type", ""))
            fitted = fit_length_header(
                chunk["headers"], self.call.request.method, chunk["status"], self._recorded_length
            )
            length = next((value for name, value in fitted if name.lower() == "content-length"), "")
            self._bytes_left = int(length) if length.isdigit() else None
            return read_head(chunk if fitted is chunk["headers"] else {**chunk, "headers": fitted})
        self._pace.wait_until(chunk[0])
        part = part_bytes(chunk[1])
        self._bytes_read += len(part)
        self._terminator.feed(part)
        if self._bytes_left is not None:
            self._bytes_left -= len(part)
        return part

    def _recorded_length(self) -> int | None:
        """Return the body's length if the record has the whole body, otherwise None."""
        answer = self._recorded_answer()
        if not isinstance(answer, dict) or answer.get("ended") not in (END_OF_BODY, TERMINATOR):
            return None
        return len(body_bytes(answer.get("body")))

    @property
    def is_complete(self) -> bool:
        return self._bytes_left == 0 or (self._terminator is not None and self._terminator.was_seen)


class BlockingBody(_StreamedBody):
    """Iterator over the head, then the parts."""

    def __init__(self, call: HttpCall, lane: Lane, open_stream: Callable[[ChangedRequest], Iterator[Any]]) -> None:
        super().__init__(call, lane)

        def generate(method: str, url: str, headers: Any, body: Any = None) -> Iterator[Any]:
            began = perf_counter_ns()
            source = open_stream(call.changed_request(_build_payload(method, url, headers, body)))
            try:
                yield recorded_head(next(source), method)
                for part in source:
                    yield [(perf_counter_ns() - began) // 1000, part_form(part)]
                    if self.is_leaving:
                        return
            finally:
                source.close()  # type: ignore[attr-defined]  # a generator, which closes the connection

        open_call = functools.partial(generate, **call.payload)
        self._stream = BlockingStream(lane, self.spec, call.make_event, open_call, split_answer)
        self._recorded_answer = self._stream.foretold

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        try:
            for chunk in self._stream:
                return self.accept_chunk(chunk)
        except SettledAsFailed as settled:
            raise self.call.make_failure(settled) from None
        except ConnectionError as error:
            if str(error) != CUT:
                raise
            raise self.call.make_failure(error) from None
        return self.accept_chunk(next(self.remaining_chunks(self._stream.result)))

    def close(self) -> None:
        if self.is_complete:
            self.is_leaving = True
            next(self._stream, None)
        self._stream.close()


class AsyncBody(_StreamedBody):
    def __init__(
        self, call: HttpCall, lane: Lane, open_stream: Callable[[ChangedRequest], AsyncGenerator[Any, None]]
    ) -> None:
        super().__init__(call, lane)

        async def generate(method: str, url: str, headers: Any, body: Any = None) -> AsyncIterator[Any]:
            began = perf_counter_ns()
            source = open_stream(call.changed_request(_build_payload(method, url, headers, body)))
            try:
                yield recorded_head(await anext(source), method)
                async for part in source:
                    yield [(perf_counter_ns() - began) // 1000, part_form(part)]
                    if self.is_leaving:
                        return
            finally:
                await source.aclose()

        open_call = functools.partial(generate, **call.payload)
        self._stream = Stream(lane, self.spec, call.make_event, open_call)
        self._recorded_answer = self._stream.foretold

    def __aiter__(self) -> AsyncIterator[Any]:
        return self

    async def __anext__(self) -> Any:
        try:
            async for chunk in self._stream:
                return self.accept_chunk(chunk)
        except SettledAsFailed as settled:
            raise self.call.make_failure(settled) from None
        except ConnectionError as error:
            if str(error) != CUT:
                raise
            raise self.call.make_failure(error) from None
        for chunk in self.remaining_chunks(self._stream.result):
            return self.accept_chunk(chunk)
        raise StopAsyncIteration

    async def aclose(self) -> None:
        if self.is_complete:
            self.is_leaving = True
            await anext(self._stream, None)
        self.leave()

    def leave(self) -> None:
        """Stop reading, without waiting for the end of the stream."""
        self._stream.left()
