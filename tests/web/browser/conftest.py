from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, sync_playwright

from kit.browser import WIDE, Looking, launched, serving
from kit.guards import hang_guard_of

hang_guard = hang_guard_of(180.0)


@pytest.fixture(autouse=True)
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("ONRECORD_STORE", "ONRECORD_DURABILITY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ONRECORD_KEY_FILE", str(tmp_path / "keys.json"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


_BROWSER: pytest.StashKey[tuple[Browser, ExitStack]] = pytest.StashKey()


@pytest.fixture
def browser(request: pytest.FixtureRequest) -> Browser:
    """Return the browser of all tests in this folder. It starts with the first test that needs it."""
    stash = request.config.stash
    if _BROWSER not in stash:
        stack = ExitStack()
        playwright = stack.enter_context(sync_playwright())
        stash[_BROWSER] = launched(playwright), stack
        stack.callback(stash[_BROWSER][0].close)
    return stash[_BROWSER][0]


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Close the browser after the last test in this folder: Playwright runs an event loop, and others run their own."""
    if _BROWSER in item.config.stash and (nextitem is None or Path(__file__).parent not in nextitem.path.parents):
        browser, stack = item.config.stash[_BROWSER]
        del item.config.stash[_BROWSER]
        _CONTEXTS.pop(browser, None)
        stack.close()


@pytest.fixture
def store(tmp_path: Path) -> str:
    return str(tmp_path / "store.db")


_CONTEXTS: dict[Browser, dict[str, list[BrowserContext]]] = {}
"""Contexts that are free, by their options. Making one takes as long as loading half a page."""


@pytest.fixture
def look(browser: Browser, store: str) -> Iterator[Callable[..., Looking]]:
    """Starts a server on the store, and somebody who looks at it: `look()`, or `look(viewport=NARROW)`.

    With `alone` the browser keeps nothing for the next test. A test that changes what pages load or run asks for it.
    """
    with ExitStack() as stack:
        everybody: list[Looking] = []

        def begin(*, arrives: bool = False, alone: bool = False, **about: object) -> Looking:
            options: dict[str, Any] = {"viewport": WIDE, **about}
            served = stack.enter_context(serving(store))
            free = [] if alone else _CONTEXTS.setdefault(browser, {}).setdefault(repr(options), [])
            context = free.pop() if free else browser.new_context(**options)
            everybody.append(Looking(context, served, arrives=arrives))
            if alone:
                stack.callback(context.close)
            else:
                stack.callback(free.append, context)
                stack.callback(everybody[-1].leave)
            return everybody[-1]

        yield begin
        for one in everybody:
            assert one.complaints == []
