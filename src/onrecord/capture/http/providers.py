"""Requests to models, by what they ask for, whatever the host; and where their streams end."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from reenact.capture.http.addresses import parts_of
from reenact.core.lazy_patterns import Pattern

OPENAI, ANTHROPIC, GOOGLE = "openai", "anthropic", "google"
_GOOGLE = Pattern(r"/models/[^/]+:(generateContent|streamGenerateContent)$")
_TERMINATORS = {
    OPENAI: Pattern(rb'^data: ?\[DONE\]|"type": ?"response\.(?:completed|failed|incomplete)"', re.MULTILINE),
    ANTHROPIC: Pattern(rb'"type": ?"message_stop"|^event: ?message_stop', re.MULTILINE),
}
_KEPT = 64
"""Bytes of what came before that are looked at again: a terminator may come in two parts."""


def provider_of(method: str, url: str, body: Any) -> str | None:
    """Whose interface it is that a request speaks; `body` as it is recorded. None: it is no model call."""
    if method != "POST":
        return None
    asked = body.get("json") if isinstance(body, dict) else None
    if not isinstance(asked, dict):
        return None
    path = parts_of(url)[2].rstrip("/")
    if path.endswith("/chat/completions") and "messages" in asked:
        return OPENAI
    if path.endswith("/responses") and ("input" in asked or "model" in asked):
        return OPENAI
    if path.endswith("/messages") and "messages" in asked and "model" in asked:
        return ANTHROPIC
    if "contents" in asked and _GOOGLE.search(path) is not None:
        return GOOGLE
    return None


class Terminator:
    """Watches a stream for the end that its protocol gives it."""

    def __init__(self, provider: str | None, content_type: str) -> None:
        found = _TERMINATORS.get(provider or "") if content_type.startswith("text/event-stream") else None
        self._search: Callable[[bytes], Any] | None = found.search if found is not None else None
        self.is_expected = found is not None
        """A stream that ends without it was cut off, whatever the connection says."""
        self.was_seen = False
        self._before = b""

    def see(self, part: bytes) -> None:
        if self._search is not None and not self.was_seen:
            together = self._before + part
            self.was_seen = self._search(together) is not None
            self._before = together[-_KEPT:]
