"""Searching all runs."""

from __future__ import annotations

from urllib.parse import urlencode

from starlette.responses import Response

from onrecord.errors import InvalidInput
from onrecord.index.queries import LONGEST_QUERY, parse_query
from onrecord.index.searches import search_report
from onrecord.web.list_endpoints import HITS
from onrecord.web.pages.render import page
from onrecord.web.query import RequestQuery
from onrecord.web.stores import Stores

PARAMETERS = ("q", "cursor")


def search_page(stores: Stores, asked: RequestQuery) -> Response:
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
