"""The list of runs."""

from __future__ import annotations

from starlette.responses import Response

from reenact.reports.runs import STATUSES
from reenact.web.asked import Asked
from reenact.web.pages.rendering import page
from reenact.web.reading import list_runs
from reenact.web.stores import Stores


def list_page(stores: Stores, asked: Asked) -> Response:
    return page("runs.html", listed=list_runs(stores, asked), statuses=STATUSES, chosen=asked)
