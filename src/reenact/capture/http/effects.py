"""An HTTP request as an effect: answered as a whole, or part by part.

A library's seam says what is asked for (`Request`) and how it is sent: a function that is given None, or the request as
a fork changed it, and gives the head and the body. What the program is handed is made of what was recorded, while
recording too.

Streams: the first chunk is the head, each further one `[microseconds since the request, part]`. The answer holds the
whole body and how the stream ended:

- `terminator`: the protocol's own last word came (`data: [DONE]`, `message_stop`), whether or not the reader read on
- `end of body`: everything came
- `server closed`: it ended before its terminator
- `consumer closed`: the reader had enough

A stream that failed has the error as its answer, which says in `reenact_ended` whether the server closed it or what
else (`error`) it was.
"""

from __future__ import annotations

import functools
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Mapping
from time import perf_counter_ns
from typing import Any

from reenact.capture.http import pacing
from reenact.capture.http.bodies import body_bytes, part_bytes, part_form, response_body
from reenact.capture.http.exchange import (
    Head,
    Request,
    completed,
    fitted,
    fitted_headers,
    head_of,
    name_of,
    recorded_head,
    recorded_request,
    recorded_response,
)
from reenact.capture.http.providers import Terminator, provider_of
from reenact.capture.usage import spent_by_answer
from reenact.core.events import ActionFailed, ActionRequested, ActionSucceeded, Event
from reenact.effect.blocking_streams import BlockingStream
from reenact.effect.boundary import perform, perform_blocking
from reenact.effect.lanes import Lane
from reenact.effect.settling import SettledAsFailed
from reenact.effect.streams import Stream
from reenact.effect.tickets import Answers, EffectSpec

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
"""Names of the errors by which libraries say that the other side has gone."""

Changed = Request | None
Answer = dict[str, Any]


def _nothing(_: Answer) -> Mapping[str, float]:
    """What a request spends that is not for a model."""
    return {}


class HttpCall:
    """One request: what it is recorded as."""

    def __init__(self, request: Request, failure: Callable[[str], Exception] = ConnectionError) -> None:
        """`failure` makes the error by which the client would say that the request has failed."""
        self.request = request
        self._failure = failure
        self.answer: Answer | None = None
        """What came of it, here and now."""
        self.payload = recorded_request(request)
        self.provider = provider_of(request.method, request.url, self.payload.get("body"))
        self.spec = EffectSpec(
            name_of(request),
            "http" if self.provider is None else "model_call",
            self.provider is None and request.method not in _REPEATABLE,
            usage=_nothing if self.provider is None else spent_by_answer,
            handed_as_is=True,
        )

    def make(self, key: str) -> ActionRequested:
        return ActionRequested(key, self.payload, self.spec.name, self.spec.kind, self._meta())

    def _meta(self) -> dict[str, Any] | None:
        """Tries of one call of an SDK are told apart, and found together, by what it says itself."""
        meta: dict[str, Any] = {"once": True} if self.spec.once else {}
        for name, value in self.request.headers:
            name = name.lower()
            if name == "x-stainless-retry-count" and value.isdigit():
                meta["retry"] = int(value)
            elif name == "idempotency-key" and value:
                meta["call"] = value
        return meta or None

    def served(self, answer: Any) -> Answer:
        """What came just now is whole and fits. What the record has may have been given by hand, or changed."""
        is_what_came = answer is self.answer and answer is not None  # nothing came, and nothing is what was given
        return answer if is_what_came else fitted(completed(answer), self.request.method)

    def failure(self, said: SettledAsFailed) -> Exception:
        """An operator's word that it failed is told as the client would, which a program knows how to handle."""
        return self._failure(said.message)

    def changed(self, given: Mapping[str, Any]) -> Changed:
        """The request as it is to be sent instead; None: as it is."""
        if given == self.payload:
            return None
        body, content_type = body_bytes(given.get("body")), given["headers"].get("content-type")
        headers = [pair for pair in self.request.headers if pair[0].lower() not in ("content-length", "content-type")]
        if content_type is not None:
            headers.append(("content-type", content_type))
        return Request(given["method"], given["url"], tuple(headers), body)


# As a whole


def exchange_blocking(call: HttpCall, send: Callable[[Changed], tuple[Head, bytes]]) -> Answer:
    def carry_out(method: str, url: str, headers: Any, body: Any = None) -> Answer:
        call.answer = recorded_response(*send(call.changed(_given(method, url, headers, body))), method)
        return call.answer

    try:
        return call.served(perform_blocking(call.spec, call.make, functools.partial(carry_out, **call.payload)))
    except SettledAsFailed as said:
        raise call.failure(said) from None


async def exchange(call: HttpCall, send: Callable[[Changed], Awaitable[tuple[Head, bytes]]]) -> Answer:
    async def carry_out(method: str, url: str, headers: Any, body: Any = None) -> Answer:
        call.answer = recorded_response(*await send(call.changed(_given(method, url, headers, body))), method)
        return call.answer

    try:
        return call.served(await perform(call.spec, call.make, functools.partial(carry_out, **call.payload)))
    except SettledAsFailed as said:
        raise call.failure(said) from None


def _given(method: str, url: str, headers: Any, body: Any) -> dict[str, Any]:
    given = {"method": method, "url": url, "headers": headers}
    return given if body is None else {**given, "body": body}


# Part by part


class _StreamAnswers(Answers):
    """The end of a stream, as an event."""

    def __init__(self, body: _Body) -> None:
        self._body = body

    def done(self, key: str, value: Any) -> Event:
        return ActionSucceeded(key, whole_answer(value, self._body.call.provider))

    def failed(self, key: str, error: BaseException) -> Event:
        closed = any(cls.__name__ in _CLOSED_BY_SERVER for cls in type(error).__mro__)
        error.__dict__["reenact_ended"] = SERVER_CLOSED if closed else ERROR
        return ActionFailed(key, error)

    def cancelled(self, key: str, error: BaseException) -> Event:
        if self._body.chunks:
            return ActionSucceeded(key, whole_answer(self._body.chunks, self._body.call.provider, CONSUMER_CLOSED))
        return ActionFailed(key, error)


def whole_answer(chunks: list[Any], provider: str | None, otherwise: str | None = None) -> Answer:
    """What came of a stream, from its chunks. `otherwise`: how it ended if it did not come to its end."""
    head, whole = chunks[0], b"".join(part_bytes(part) for _, part in chunks[1:])
    headers = {name.lower(): value for name, value in head["headers"]}
    terminator = Terminator(provider, headers.get("content-type", ""))
    terminator.see(whole)
    ended = otherwise or (SERVER_CLOSED if terminator.is_expected else END_OF_BODY)
    if terminator.was_seen:
        ended = TERMINATOR
    elif otherwise and headers.get("content-length") == str(len(whole)):
        ended = END_OF_BODY
    return {**head, "body": response_body(whole), "ended": ended}


def unfolded(answer: Answer) -> list[Any]:
    """The chunks that an answer could have come in."""
    answer = completed(answer)
    head = {name: value for name, value in answer.items() if name not in ("body", "ended")}
    whole = body_bytes(answer.get("body"))
    return [head, [0, part_form(whole)]] if whole else [head]


class _Body:
    """A body that is read part by part: what both kinds of readers know of it."""

    _foretold: Callable[[], Any]
    """The answer, where the record has it before it has come to its end."""

    def __init__(self, call: HttpCall, lane: Lane) -> None:
        self.call = call
        self.spec = call.spec._replace(answers=_StreamAnswers(self))
        self.chunks: list[Any] = []
        """What the reader was handed."""
        self.is_leaving = False
        """The reader reads no further, and has had everything."""
        self._pace = pacing.Pace(lane.run)
        self._terminator: Terminator | None = None
        self._left: int | None = None
        """Bytes that are still to come, where the head says how many there are."""
        self._rest: Iterator[Any] | None = None
        """What the answer has beyond the parts."""
        self._length = 0

    def rest_of(self, answer: Answer | None) -> Iterator[Any]:
        """The stream is over. Where nothing came of it but its answer, it was recorded by code that read it whole; and
        what was held back of its last part, since a secret might have begun there, is in the answer."""
        if self._rest is None:
            self._rest = iter(self._beyond(answer))
        return self._rest

    def _beyond(self, answer: Any) -> list[Any]:
        if not self.chunks:
            return unfolded(answer)
        if not isinstance(answer, dict) or "ended" not in answer:  # somebody's word on a stream that was cut off
            rest = body_bytes(completed(answer)["body"])
            had = b"".join(part_bytes(part) for _, part in self.chunks[1:])
            rest = rest.removeprefix(had)  # all of it, or what is missing
            return [[0, part_form(rest)]] if rest else []
        whole = body_bytes(answer.get("body"))
        if len(whole) <= self._length:
            return []
        had = b"".join(part_bytes(part) for _, part in self.chunks[1:])
        return [[0, part_form(whole[len(had) :])]] if whole.startswith(had) else []

    def took(self, chunk: Any) -> Any:
        self.chunks.append(chunk)
        if self._terminator is None:
            headers = {name.lower(): value for name, value in chunk["headers"]}
            self._terminator = Terminator(self.call.provider, headers.get("content-type", ""))
            fit = fitted_headers(chunk["headers"], self.call.request.method, chunk["status"], self._length_foretold)
            length = next((value for name, value in fit if name.lower() == "content-length"), "")
            self._left = int(length) if length.isdigit() else None
            return head_of(chunk if fit is chunk["headers"] else {**chunk, "headers": fit})
        self._pace.keep(chunk[0])
        part = part_bytes(chunk[1])
        self._length += len(part)
        self._terminator.see(part)
        if self._left is not None:
            self._left -= len(part)
        return part

    def _length_foretold(self) -> int | None:
        """By the record, where this comes from it and is known to have come to its end."""
        answer = self._foretold()
        if not isinstance(answer, dict) or answer.get("ended") not in (END_OF_BODY, TERMINATOR):
            return None
        return len(body_bytes(answer.get("body")))

    @property
    def has_had_everything(self) -> bool:
        return self._left == 0 or (self._terminator is not None and self._terminator.was_seen)


class BlockingBody(_Body):
    """The head, then the parts."""

    def __init__(self, call: HttpCall, lane: Lane, open_: Callable[[Changed], Iterator[Any]]) -> None:
        super().__init__(call, lane)

        def generate(method: str, url: str, headers: Any, body: Any = None) -> Iterator[Any]:
            began = perf_counter_ns()
            source = open_(call.changed(_given(method, url, headers, body)))
            try:
                yield recorded_head(next(source), method)
                for part in source:
                    yield [(perf_counter_ns() - began) // 1000, part_form(part)]
                    if self.is_leaving:
                        return
            finally:
                source.close()  # type: ignore[attr-defined]  # a generator, which closes the connection

        made = functools.partial(generate, **call.payload)
        self._stream = BlockingStream(lane, self.spec, call.make, made, unfolded)
        self._foretold = self._stream.foretold

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        try:
            for chunk in self._stream:
                return self.took(chunk)
        except SettledAsFailed as said:
            raise self.call.failure(said) from None
        return self.took(next(self.rest_of(self._stream.result)))

    def close(self) -> None:
        if self.has_had_everything:
            self.is_leaving = True
            next(self._stream, None)
        self._stream.close()


class AsyncBody(_Body):
    def __init__(self, call: HttpCall, lane: Lane, open_: Callable[[Changed], AsyncGenerator[Any, None]]) -> None:
        super().__init__(call, lane)

        async def generate(method: str, url: str, headers: Any, body: Any = None) -> AsyncIterator[Any]:
            began = perf_counter_ns()
            source = open_(call.changed(_given(method, url, headers, body)))
            try:
                yield recorded_head(await anext(source), method)
                async for part in source:
                    yield [(perf_counter_ns() - began) // 1000, part_form(part)]
                    if self.is_leaving:
                        return
            finally:
                await source.aclose()

        made = functools.partial(generate, **call.payload)
        self._stream = Stream(lane, self.spec, call.make, made)
        self._foretold = self._stream.foretold

    def __aiter__(self) -> AsyncIterator[Any]:
        return self

    async def __anext__(self) -> Any:
        try:
            async for chunk in self._stream:
                return self.took(chunk)
        except SettledAsFailed as said:
            raise self.call.failure(said) from None
        for chunk in self.rest_of(self._stream.result):
            return self.took(chunk)
        raise StopAsyncIteration

    async def aclose(self) -> None:
        if self.has_had_everything:
            self.is_leaving = True
            await anext(self._stream, None)
        self.leave()

    def leave(self) -> None:
        """Where nothing can be waited for."""
        self._stream.left()


__all__ = [
    "AsyncBody",
    "BlockingBody",
    "HttpCall",
    "exchange",
    "exchange_blocking",
    "unfolded",
    "whole_answer",
]
