"""Recognize model calls by their path and body, on any host, and the end of their streams."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from onrecord.capture.http.addresses import split_url
from onrecord.core.lazy_regex import Pattern

OPENAI, ANTHROPIC, GOOGLE, BEDROCK = "openai", "anthropic", "google", "bedrock"
_GOOGLE = Pattern(r"/models/[^/]+:(generateContent|streamGenerateContent)$")
_BEDROCK = Pattern(r"/model/[^/]+/(converse(-stream)?|invoke(-with-response-stream)?)$")
_PROMPTS = frozenset(("messages", "prompt", "inputText"))
"""Members of a body in which models of Bedrock get their prompt."""
_TERMINATORS = {
    OPENAI: Pattern(rb'^data: ?\[DONE\]|"type": ?"response\.(?:completed|failed|incomplete)"', re.MULTILINE),
    ANTHROPIC: Pattern(rb'"type": ?"message_stop"|^event: ?message_stop', re.MULTILINE),
}
_OVERLAP_BYTES = 64
"""Bytes of the previous part that are searched again: a terminator may be split over two parts."""


def find_provider(method: str, url: str, body: Any) -> str | None:
    """Return the provider whose API the request uses, or None if it is no model call. `body` is the recorded form."""
    if method != "POST":
        return None
    request = body.get("json") if isinstance(body, dict) else None
    if not isinstance(request, dict):
        return None
    path = split_url(url)[2].rstrip("/")
    if path.endswith("/chat/completions") and "messages" in request:
        return OPENAI
    if path.endswith("/responses") and ("input" in request or "model" in request):
        return OPENAI
    if path.endswith("/messages") and "messages" in request and "model" in request:
        return ANTHROPIC
    if "contents" in request and _GOOGLE.search(path) is not None:
        return GOOGLE
    if not _PROMPTS.isdisjoint(request) and _BEDROCK.search(path) is not None:
        return BEDROCK
    return None


class Terminator:
    """Search of a stream for the last message of its protocol."""

    def __init__(self, provider: str | None, content_type: str) -> None:
        found = _TERMINATORS.get(provider or "") if content_type.startswith("text/event-stream") else None
        self._search: Callable[[bytes], Any] | None = found.search if found is not None else None
        self.is_expected = found is not None
        """True: a stream that ends without the terminator was cut off, even if the connection ended normally."""
        self.was_seen = False
        self._overlap = b""

    def feed(self, part: bytes) -> None:
        if self._search is not None and not self.was_seen:
            searched = self._overlap + part
            self.was_seen = self._search(searched) is not None
            self._overlap = searched[-_OVERLAP_BYTES:]
