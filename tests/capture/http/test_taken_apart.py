"""What is taken apart in a quick way, addresses and JSON, is what the slow way makes of it."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from hypothesis import example, given
from hypothesis import strategies as st

from onrecord.capture.http.addresses import split_url
from onrecord.capture.http.bodies import body_bytes, response_body
from onrecord.core.codec.json_text import write_json_text

_STYLES = ("compact", "python", "indent2", "compact-ascii", "python-utf8")
_PIECES = ("http", "https", "HTTP", "://", "/", "//", "example.com", "127.0.0.1", "me:word@", ":80", ":", "a", "?", "#")
_MORE = ("a=b", "&", ";", "%20", " ", "\t", "\n", "ä", "[::1]", '"', "@", "\\", "..")
_TEXTS = st.sampled_from(["", "a", 'a": b', 'a":b', "ä", "\n", ": ", ", ", "\\"])
_VALUES = st.recursive(
    _TEXTS | st.sampled_from([None, True, 0, -1, 1.0, 1e16, 1e-7, 2**63, 10**20]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXTS, inner, max_size=3),
    max_leaves=6,
)


@given(st.lists(st.sampled_from(_PIECES + _MORE), max_size=8).map("".join))
@example("http://example.com")
@example("https://example.com:8080/a/b?c=d#e")
@example("https://example.com#/a?b")
@example("http://example.com:/a")
@example("http://example.com/ä")
def test_an_address(url: str) -> None:
    try:
        parts = urlsplit(url)
    except ValueError:
        return
    assert split_url(url) == (parts.scheme, parts.netloc, parts.path)


@given(_VALUES, st.sampled_from(_STYLES))
@example({"a": 1}, "python")
@example({"a": 1}, "indent2")
@example(['a": b'], "compact")
@example({'a": b': {}}, "compact")
@example({}, "python")
def test_the_style_of_a_body_is_the_first_that_writes_it(value: Any, style: str) -> None:
    written = write_json_text(value, style)
    form = response_body(written.encode())
    assert body_bytes(form) == written.encode()
    if "json" in form:
        others = ({"json": form["json"], "style": one} for one in _STYLES)
        assert form == next(one for one in others if body_bytes(one) == written.encode())
