"""A real browser in front of a real server.

Whatever a page complains about (errors, what its policy refused, requests that failed, anything that it wanted from
another host) fails the test that looked at it.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Error, Page, Playwright

from kit import web
from kit.paths import ROOT
from kit.soak import SOAK

SCREENSHOTS = ROOT / "build" / "screenshots"
WIDE, NARROW = {"width": 1280, "height": 800}, {"width": 360, "height": 740}
MIDDLE = {"width": 768, "height": 900}
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def chromium() -> str:
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if found is None:
        pytest.skip("NO BROWSER: Chromium is not installed, so no page was looked at (`make test` installs it as root)")
    return found


def launched(playwright: Playwright) -> Browser:
    return playwright.chromium.launch(executable_path=chromium(), args=ARGUMENTS)


class Served:
    def __init__(self, url: str, login_url: str, token: str | None) -> None:
        self.url, self.login_url, self.token = url.rstrip("/"), login_url, token


@contextmanager
def serving(store: str) -> Iterator[Served]:
    """Serve the store from a thread of this process. That the command starts a server is tested elsewhere."""
    with web.serving(store) as served:
        yield Served(*served.address)


class Looking:
    """Somebody who was let in, and who notices everything that goes wrong.

    With `arrives` the browser opens the printed address, which leads to the list of runs. Without it the cookie is
    fetched and no page is loaded: the list takes as long as the page that a test is about.
    """

    def __init__(self, context: BrowserContext, served: Served, *, arrives: bool = False) -> None:
        self.context, self.served = context, served
        self.complaints: list[str] = []
        self._handlers: dict[Any, Callable[..., None]] = {
            "pageerror": lambda error: self.complaints.append(f"error: {error}"),
            "console": self._heard,
            "requestfailed": self._failed,
            "request": self._asked,
        }
        self.page = self.watched(context.pages[0] if context.pages else context.new_page())
        if arrives:
            self.page.goto(served.login_url)
        else:
            context.request.get(served.login_url, max_redirects=0)

    def watched(self, page: Page) -> Page:
        for event, handler in self._handlers.items():
            page.on(event, handler)
        return page

    def leave(self) -> None:
        """Leave one empty page, for the next one to look."""
        for event, handler in self._handlers.items():
            self.page.remove_listener(event, handler)
        with suppress(Error):  # a page without an origin keeps nothing
            self.page.evaluate("localStorage.clear(), sessionStorage.clear()")
        used = self.context.pages
        self.context.new_page()  # an old one may be on its way to somewhere
        for page in used:
            page.close()
        self.context.clear_cookies()

    def _heard(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(f"{message.type}: {message.text}")

    def _failed(self, request: Any) -> None:
        if request.failure != "net::ERR_ABORTED":  # the page was left meanwhile
            self.complaints.append(f"failed: {request.url} ({request.failure})")

    def _asked(self, request: Any) -> None:
        if not request.url.startswith((self.served.url, "data:", "blob:", "file:")):
            self.complaints.append(f"asked for something elsewhere: {request.url}")

    def open(self, path: str) -> Page:
        self.page.goto(self.served.url + path)
        return self.page


def shot(page: Page, name: str) -> None:
    """Write a picture for people to look at. Only `make soak` does: painting takes longer than most tests."""
    if SOAK:
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        page.screenshot(path=SCREENSHOTS / f"{name}.png", full_page=True)


def assert_accessible(page: Page) -> None:
    """No serious finding of axe."""
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(page).response["violations"]
    serious = [
        f"{one['id']}: {one['help']} ({one['nodes'][0]['html'][:200]})"
        for one in found
        if one["impact"] in ("serious", "critical")
    ]
    assert not serious, "\n".join(serious)


def torn_words(page: Page, places: str) -> list[str]:
    """What stands there on two lines, or is cut off, though it is one word."""
    found = page.locator(places).evaluate_all(
        """(places) => places.filter((one) => {
          const range = document.createRange();
          range.selectNodeContents(one);
          return new Set([...range.getClientRects()].map((box) => Math.round(box.top))).size > 1
            || one.scrollWidth > one.clientWidth + 1 && getComputedStyle(one).display !== "inline";
        }).map((one) => one.textContent.trim())"""
    )
    return [str(text) for text in found]


def assert_fits(page: Page) -> None:
    """Nothing is wider than the window."""
    wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    assert wide <= 0, f"the page is {wide} pixels too wide"
