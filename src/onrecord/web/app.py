"""The application: which path leads where, and the one place where errors become answers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from onrecord.errors import OnrecordError
from onrecord.reports.json_text import json_bytes
from onrecord.web import (
    check_endpoints,
    comparison_endpoints,
    list_endpoints,
    read_endpoints,
    run_view_endpoints,
    write_endpoints,
)
from onrecord.web.access import API, Access, Asking
from onrecord.web.list_feed import ListFollowers
from onrecord.web.pages.assets import serve_asset
from onrecord.web.pages.paths import Pages
from onrecord.web.pages.problems import problem_page
from onrecord.web.query import RequestQuery
from onrecord.web.responses import SAFE_HEADERS, HttpProblem, json_answer, problem_answer
from onrecord.web.run_feed import Followers
from onrecord.web.run_streams import Streams
from onrecord.web.stores import Stores
from onrecord.web.threads import Threads
from onrecord.web.verification_feed import Verifications

V1 = "/api/v1"
Endpoint = Callable[[Stores, RequestQuery], Any]

REPEATABLE = ("status", "agent")
PAGE_OF_EVENTS = ("from", "after", "limit")
Endpoints = tuple[tuple[str, Endpoint, Collection[str]], ...]
LOOKING: Endpoints = (
    ("/runs", read_endpoints.list_runs, ("status", "agent", "since", "until", "all_kinds", "cursor", "limit")),
    ("/overview", list_endpoints.overview, (*list_endpoints.FILTERS, "cursor", "limit")),
    ("/search", list_endpoints.search, ("q", "cursor", "limit")),
    ("/attention", list_endpoints.attention, ("cursor", "limit")),
    ("/runs/{run}", read_endpoints.show_run, ()),
    ("/runs/{run}/events", read_endpoints.show_events, PAGE_OF_EVENTS),
    ("/runs/{run}/events/{seq}", read_endpoints.show_event, ()),
    ("/runs/{run}/state", read_endpoints.show_state, ("at", "cut")),
    ("/runs/{run}/spans", run_view_endpoints.show_spans, PAGE_OF_EVENTS),
    ("/runs/{run}/standing", run_view_endpoints.show_standing, ()),
    ("/runs/{run}/overview", run_view_endpoints.show_overview, ("buckets",)),
    ("/runs/{run}/events/{seq}/details", run_view_endpoints.show_details, ()),
    ("/runs/{run}/events/{seq}/difference", run_view_endpoints.show_difference, ("to",)),
    ("/runs/{run}/context/{seq}", run_view_endpoints.show_context, ("cut",)),
    ("/runs/{run}/conversation", run_view_endpoints.show_conversation, (*PAGE_OF_EVENTS, "at", "before")),
    ("/runs/{run}/waits", read_endpoints.list_waits_of_run, ("all",)),
    ("/waits", read_endpoints.list_waits, ("cursor", "limit")),
)
JUDGING: Endpoints = (
    ("/runs/{run}/usage", run_view_endpoints.show_usage, ("after", "limit")),
    ("/runs/{run}/family", run_view_endpoints.show_family, ()),
    ("/runs/{run}/verify", check_endpoints.verify, ("deep",)),
    ("/runs/{run}/diff/{other}", check_endpoints.diff, ("first_only", "limit")),
    ("/runs/{run}/compare/{other}", comparison_endpoints.compare, ("limit",)),
    ("/runs/{run}/events/{seq}/diff/{other}/{other_seq}", comparison_endpoints.compare_events, ()),
    ("/runs/{run}/replay/{other}/measures", comparison_endpoints.measure_replay, ("after", "limit")),
    ("/runs/{run}/replay", check_endpoints.replay, PAGE_OF_EVENTS),
    ("/runs/{run}/replay/{other}", check_endpoints.replay_by, ("after", "limit")),
    ("/runs/{run}/receipts", check_endpoints.list_receipts, ("after", "limit")),
    ("/receipts/{receipt}", check_endpoints.show_receipt, ()),
)


class Api:
    """The endpoints with what they need."""

    def __init__(self, stores: Stores, access: Access, allowed_hosts: Collection[str] = ()) -> None:
        self.stores = stores
        self.access = access
        self.looking = Threads("looking", 6, 64)
        self.judging = Threads("judging", 2, 16)
        self.followers = Followers(stores, self.looking)
        self.list_followers = ListFollowers(stores, self.looking)
        self.streams = Streams(stores, self.judging)
        self.verifications = Verifications(stores, self.judging)
        self.pages = Pages(stores, self.looking, self.judging)
        self.resolving = write_endpoints.Resolving(stores, self.looking, frozenset(allowed_hosts), V1)

    def routes(self) -> list[BaseRoute]:
        found: list[BaseRoute] = [
            Route("/login", self._log_in),
            Route("/static/{name}", serve_asset),
            *self.pages.routes(),
        ]
        for threads, endpoints in ((self.looking, LOOKING), (self.judging, JUDGING)):
            for path, endpoint, parameters in endpoints:
                found.append(Route(V1 + path, _on_thread(self.stores, threads, endpoint, parameters)))
        found += [
            Route(V1 + "/runs/{run}/timeline", self.streams.timeline),
            Route(V1 + "/runs/{run}/recording", self.streams.recording),
            Route(V1 + "/runs/{run}/follow", self.followers.follow),
            Route(V1 + "/runs/{run}/verifying", self.verifications.watch),
            Route(V1 + "/overview/follow", self.list_followers.follow),
            Route(V1 + "/runs/{run}/settle", self._settle, methods=["POST"]),
            Route(V1 + "/runs/{run}/waits/{wait}", self._resolve, methods=["POST"]),
            Route(V1 + "/artifacts/{digest}", self._artifact),
            Route(V1 + "/waits/{key:path}", self.resolving, methods=["POST"]),
        ]
        return found

    async def _log_in(self, request: Request) -> Response:
        code = RequestQuery(request, ("code",)).text("code") or ""
        if self.access.knows(request.cookies.get(self.access.cookie_name, "")):  # the printed address, clicked again
            return Response(status_code=303, headers={"location": "/"})
        return Response(status_code=303, headers={"location": "/", "set-cookie": self.access.exchanged(code)})

    async def _settle(self, request: Request) -> Response:
        asked = RequestQuery(request)
        body = await write_endpoints.body_of(request)
        settled = await self.looking.run(write_endpoints.settle_effect, self.stores, asked.path["run"], body)
        return json_answer(json_bytes(settled))

    async def _resolve(self, request: Request) -> Response:
        asked = RequestQuery(request)
        body = await write_endpoints.body_of(request)
        path = asked.path
        resolved = await self.looking.run(write_endpoints.resolve_wait, self.stores, path["run"], path["wait"], body)
        return json_answer(json_bytes(resolved))

    async def _artifact(self, request: Request) -> Response:
        asked = RequestQuery(request)
        data = await self.judging.run(check_endpoints.artifact, self.stores, asked)
        name = asked.path["digest"].replace(":", "-")
        headers = {"content-disposition": f'attachment; filename="{name}.bin"'}
        return Response(data, headers=headers, media_type="application/octet-stream")

    def stop_following(self) -> None:
        self.followers.stop()
        self.list_followers.stop()

    def close(self) -> None:
        self.looking.close()
        self.judging.close()
        self.stores.close()


def _on_thread(stores: Stores, threads: Threads, endpoint: Endpoint, parameters: Collection[str]) -> Any:
    def work(request: Request) -> bytes:
        return json_bytes(endpoint(stores, RequestQuery(request, parameters, REPEATABLE)))

    async def answer(request: Request) -> Response:
        return json_answer(await threads.run(work, request))

    return answer


class Guarded:
    """Around everything: who may not come in stays outside, every answer is safe, and no error gets out as it is."""

    def __init__(self, app: ASGIApp, access: Access, on_stop: Callable[[], None]) -> None:
        self._app = app
        self._access = access
        self.stop = on_stop
        """Ends what would go on by itself for as long as somebody listens."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            await self._answer(scope, receive, send)
        else:
            await send({"type": "websocket.close", "code": 1008})

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        begun = False

        async def safely(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                message = {**message, "headers": _with_safe_headers(message.get("headers", []))}
            await send(message)

        try:
            self._access.check(_asking(scope))
            await self._app(scope, receive, safely)
        except Exception as error:
            # An answer that was begun is left unfinished: the server cuts it off, and nobody takes it for the whole.
            if not begun:
                await _told(error, scope)(scope, receive, safely)


def _told(error: BaseException, scope: Scope) -> Response:
    """A problem as JSON, or as a page for whoever looks at pages."""
    target = _asking(scope).target
    accepts = next((value for name, value in scope["headers"] if name.lower() == b"accept"), b"")
    if b"text/html" in accepts and not target.startswith(API):
        query = scope["query_string"].decode("latin-1")
        return problem_page(error, f"{target}?{query}" if query else target)
    return problem_answer(error)


def _asking(scope: Scope) -> Asking:
    headers = [(name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in scope["headers"]]
    # The raw path where the server gives it: `path` is decoded, and an escaped slash would look like a real one.
    raw: bytes | None = scope.get("raw_path")
    target = raw.decode("latin-1") if raw is not None else str(scope["path"])
    return Asking(scope["method"], target, headers)


def _with_safe_headers(headers: Any) -> list[tuple[bytes, bytes]]:
    given = list(headers)
    names = {name.lower() for name, _ in given}
    return given + [(n.encode(), v.encode()) for n, v in SAFE_HEADERS.items() if n.encode() not in names]


async def _not_found(request: Request, _: Exception) -> Response:
    return _told(HttpProblem(404, "no_such_resource", "there is nothing under this path"), request.scope)


async def _other_method(request: Request, refused: Exception) -> Response:
    headers = getattr(refused, "headers", None) or {}
    allowed = {name.lower(): value for name, value in headers.items() if name.lower() == "allow"}
    return _told(HttpProblem(405, "bad_method", "this method is not known here", headers=allowed), request.scope)


async def _problem(request: Request, error: Exception) -> Response:
    return _told(error, request.scope)


def make_app(stores: Stores, access: Access, *, allowed_hosts: Collection[str] = ()) -> Guarded:
    """An ASGI application. Its lifespan ends with the stores closed."""
    api = Api(stores, access, allowed_hosts)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        api.close()

    app = Starlette(
        routes=api.routes(),
        lifespan=lifespan,
        exception_handlers={404: _not_found, 405: _other_method, OnrecordError: _problem, Exception: _problem},
    )
    app.router.redirect_slashes = False
    return Guarded(app, access, api.stop_following)
