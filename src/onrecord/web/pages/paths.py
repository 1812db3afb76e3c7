"""Which path leads to which page."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from onrecord.web.pages import compare, replays, run, runs, search, waits
from onrecord.web.query import RequestQuery
from onrecord.web.stores import Stores
from onrecord.web.threads import Threads

Page = Callable[[Stores, RequestQuery], Response]
REPEATABLE = ("status", "agent")


class Pages:
    """The pages with what they need. Each is rendered on a thread: reading a store takes its time."""

    def __init__(self, stores: Stores, looking: Threads, judging: Threads) -> None:
        self._stores = stores
        self._looking = looking
        self._judging = judging

    def routes(self) -> list[BaseRoute]:
        looking, judging = self._looking, self._judging
        table: tuple[tuple[str, Threads, Page, Collection[str]], ...] = (
            ("/runs/{run}", looking, run.run_page, run.PARAMETERS),
            ("/runs/{run}/compare", looking, compare.choose_page, ("other", "cursor")),
            ("/runs/{run}/compare/{other}", judging, compare.compare_page, compare.PARAMETERS),
            ("/runs/{run}/replay/{other}", judging, replays.replay_page, replays.PARAMETERS),
            ("/", looking, runs.list_page, runs.PARAMETERS),
            ("/search", looking, search.search_page, search.PARAMETERS),
            ("/waits", looking, waits.waits_page, waits.PARAMETERS),
        )
        return [Route(path, self._on(threads, made, known)) for path, threads, made, known in table]

    def _on(self, threads: Threads, made: Page, parameters: Collection[str]) -> Any:
        def work(request: Request) -> Response:
            return made(self._stores, RequestQuery(request, parameters, REPEATABLE))

        async def answer(request: Request) -> Response:
            return await threads.run(work, request)

        return answer
