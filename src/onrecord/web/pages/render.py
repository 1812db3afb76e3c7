"""From a report to a page. Everything recorded is text there, and nothing but our own files is run or loaded."""

from __future__ import annotations

from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape
from markupsafe import Markup
from starlette.responses import Response

from onrecord.reports.json_text import json_bytes
from onrecord.web.pages import text as wording

TEMPLATES = Path(__file__).parent.parent / "templates"
PAGE_HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    )
}
_INERT = {ord("<"): "\\u003c", ord(">"): "\\u003e", ord("&"): "\\u0026", 0x2028: "\\u2028", 0x2029: "\\u2029"}


def page(template: str, status: int = 200, **values: Any) -> Response:
    text = _environment().get_template(template).render(**values)
    return Response(text, status, PAGE_HEADERS, media_type="text/html")


def json_block(value: Any) -> Markup:
    """For a `<script type="application/json">`, which no browser runs: nothing in it can end the element."""
    return Markup(json_bytes(value).decode().translate(_INERT))  # noqa: S704  # that is what it is for


@cache
def _environment() -> Environment:
    made = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=select_autoescape(default=True, default_for_string=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {name: getattr(wording, name) for name in wording.__all__}
    made.filters["json_block"] = json_block
    made.globals["asset"] = asset
    return made


@cache
def asset(name: str) -> str:
    """The address of one of our files; it changes with the file, which so may be kept for ever."""
    from onrecord.web.pages.assets import FOLDER

    digest = sha256((FOLDER / name).read_bytes()).hexdigest()[:12]
    return f"/static/{name}?v={digest}"
