"""Who may come in, decided from the head of a request alone, without input or output.

1. The target is a path, and there is exactly one Host, which names this machine or what was allowed: a page that had
   its own name resolved to 127.0.0.1 is refused.
2. A request with an Origin comes from a page; only pages of this very host are served, for reading and for writing.
3. Reading requests have no body, and no body has two lengths.
4. Programs send `Authorization: Bearer`, browsers a cookie. Both are compared in constant time. The address that is
   printed for a browser holds neither: its code is exchanged for the cookie once, and is worth nothing afterwards, in
   a history, a log or a Referer.
5. With a cookie alone nothing is changed unless the browser says that the page is ours.
"""

from __future__ import annotations

import hmac
import re
import secrets
from collections.abc import Collection, Sequence
from hashlib import sha256
from typing import NamedTuple

from onrecord.runtime.waits.http_endpoint import LOOPBACK_NAMES
from onrecord.web.responses import HttpProblem

LOGIN = "/login"
ASSETS = "/static/"
"""Our own scripts and styles: they hold nothing recorded."""
API = "/api/"
MAX_TARGET = 8_192
MAX_HEADERS = 32 * 1024

_HOST = re.compile(r"(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9.-]+)(?::[0-9]{1,5})?\Z")
_READING = ("GET", "HEAD")


class Asking(NamedTuple):
    """The head of a request. Names of headers are in lower case, the target is as it was sent."""

    method: str
    target: str
    headers: Sequence[tuple[str, str]]

    def values(self, name: str) -> list[str]:
        return [value for other, value in self.headers if other == name]


class Access:
    def __init__(self, *, cookie_name: str, allowed_hosts: Collection[str] = (), token: str | None) -> None:
        """`token` is what programs send; None lets everybody in who gets past 1 to 3."""
        self.cookie_name = cookie_name
        self._hosts = LOOPBACK_NAMES | {host.lower() for host in allowed_hosts}
        self._token = token
        self._cookie = secrets.token_urlsafe(32)
        self._code: str | None = secrets.token_urlsafe(32)

    @property
    def login_target(self) -> str:
        """Where a browser begins."""
        return "/" if self._token is None else f"{LOGIN}?code={self._code}"

    def check(self, asking: Asking) -> None:
        """Raises HttpProblem for whoever may not come in."""
        if not asking.target.startswith("/") or len(asking.target) > MAX_TARGET:
            raise HttpProblem(400, "bad_target", "the target of a request is a path")
        if sum(len(name) + len(value) + 4 for name, value in asking.headers) > MAX_HEADERS:
            raise HttpProblem(431, "too_large", f"the head of a request has at most {MAX_HEADERS} bytes")
        host = self._check_host(asking)
        self._check_origin(asking, host)
        _check_framing(asking)
        if asking.target.partition("?")[0] != LOGIN and not asking.target.startswith(ASSETS):
            self._check_token(asking)

    def knows(self, cookie: str) -> bool:
        """Whether it is that of a browser which was let in."""
        return self._token is not None and _same(cookie, self._cookie)

    def exchanged(self, code: str) -> str:
        """The cookie for the code of the printed address, once."""
        if self._code is None or not _same(code, self._code):
            raise HttpProblem(
                403,
                "bad_code",
                "this address is not valid, or was used before",
                hint="Each address opens one browser once: start `onrecord serve` again for a new one.",
            )
        self._code = None
        return f"{self.cookie_name}={self._cookie}; Path=/; HttpOnly; SameSite=Strict"

    def _check_host(self, asking: Asking) -> str:
        hosts = asking.values("host")
        if len(hosts) != 1:
            raise HttpProblem(400, "bad_host", "a request has exactly one Host")
        match = _HOST.match(hosts[0])
        if match is None or match[1].lower() not in self._hosts:
            raise HttpProblem(
                403,
                "bad_host",
                "this host name is not served here",
                hint="Allow it with `onrecord serve --allow-host`.",
            )
        return hosts[0].lower()

    def _check_origin(self, asking: Asking, host: str) -> None:
        own = (f"http://{host}", f"https://{host}")
        foreign = any(origin.lower() not in own for origin in asking.values("origin"))
        elsewhere = any(site in ("cross-site", "same-site") for site in asking.values("sec-fetch-site"))
        if foreign or (elsewhere and asking.target.startswith(API)):
            raise HttpProblem(403, "bad_origin", "pages of other origins are not served")

    def _check_token(self, asking: Asking) -> None:
        if self._token is None:
            return
        sent = asking.values("authorization")
        if sent:
            scheme, _, token = sent[0].partition(" ")
            if len(sent) == 1 and scheme.lower() == "bearer" and _same(token.strip(), self._token):
                return
        elif any(_same(cookie, self._cookie) for cookie in self._cookies(asking)):
            _check_page(asking)
            return
        raise HttpProblem(
            401,
            "not_authorised",
            "this request has no valid token",
            hint="Open the address that `onrecord serve` printed, or send its token as `Authorization: Bearer`.",
            headers={"www-authenticate": "Bearer"},
        )

    def _cookies(self, asking: Asking) -> list[str]:
        pairs = [part.strip().partition("=") for line in asking.values("cookie") for part in line.split(";")]
        return [value for name, _, value in pairs if name == self.cookie_name][:4]


def _check_page(asking: Asking) -> None:
    """That a page is our own was looked at before; here the browser has to say that there is one."""
    if asking.method not in _READING and not asking.values("origin"):
        raise HttpProblem(403, "no_origin", "a browser's request that changes something names its Origin")


def _check_framing(asking: Asking) -> None:
    lengths, codings = asking.values("content-length"), asking.values("transfer-encoding")
    if len(lengths) + len(codings) > 1:
        raise HttpProblem(400, "bad_length", "a body has one length")
    if asking.method in _READING and (codings or any(length != "0" for length in lengths)):
        raise HttpProblem(400, "unexpected_body", f"a {asking.method} has no body")


def _same(sent: str, known: str) -> bool:
    digests = (sha256(text.encode("utf-8", "surrogateescape")).digest() for text in (sent, known))
    return hmac.compare_digest(*digests)
