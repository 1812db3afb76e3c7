"""Searching all runs."""

from __future__ import annotations

from urllib.parse import urlencode

from starlette.responses import Response

from reenact.errors import InvalidInput
from reenact.index.queries import LONGEST_QUERY, parse_query
from reenact.index.searches import search_report
from reenact.web.asked import Asked
from reenact.web.lists import HITS
from reenact.web.pages.rendering import page
from reenact.web.stores import Stores

PARAMETERS = ("q", "cursor")


def search_page(stores: Stores, asked: Asked) -> Response:
    """What cannot be asked is told on the page, beside what was typed."""
    text = (asked.text("q") or "").strip()
    if not text:
        return page("search.html", query="", found=None, problem=None, older=None)
    try:
        parse_query(text)
        found = search_report(stores.indexed.current(words=True), text, cursor=asked.text("cursor"), limit=HITS)
    except InvalidInput as refused:
        return page("search.html", 400, query=text[:LONGEST_QUERY], found=None, problem=refused, older=None)
    older = None if found["next"] is None else "/search?" + urlencode({"q": text, "cursor": found["next"]})
    return page("search.html", query=text, found=found, problem=None, older=older)
