"""Split URLs of requests, fast."""

from __future__ import annotations

from urllib.parse import urlsplit

from onrecord.core.lazy_regex import Pattern

_USUAL = Pattern(r"(https?)://([A-Za-z0-9.-]+(?::[0-9]+)?)(/[!-\"$->@-~]*)?(?=[?#]|\Z)")
"""URLs for which this gives what `urlsplit` gives, in a fraction of the time. (Each request may have another URL.)"""


def split_url(url: str) -> tuple[str, str, str]:
    """Return the scheme, the host with user and port, and the path."""
    usual = _USUAL.match(url)
    if usual is not None:
        return usual[1], usual[2], usual[3] or ""
    parts = urlsplit(url)
    return parts.scheme, parts.netloc, parts.path
