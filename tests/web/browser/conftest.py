from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from browser_support import WIDE, Looking, launched, serving
from playwright.sync_api import Browser, sync_playwright


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """One browser at a time."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.xdist_group("browser"))


@pytest.fixture(autouse=True)
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("REENACT_STORE", "REENACT_DURABILITY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("REENACT_KEY_FILE", str(tmp_path / "keys.json"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """No longer than its module: as long as Playwright is there a loop is running, and others have their own."""
    with sync_playwright() as playwright:
        made = launched(playwright)
        yield made
        made.close()


@pytest.fixture
def store(tmp_path: Path) -> str:
    return str(tmp_path / "store.db")


@pytest.fixture
def look(browser: Browser, store: str) -> Iterator[Callable[..., Looking]]:
    """Starts a server on the store, and somebody who looks at it: `look()`, or `look(viewport=NARROW)`."""
    with ExitStack() as stack:
        everybody: list[Looking] = []

        def begin(*options: str, **about: object) -> Looking:
            served = stack.enter_context(serving(store, *options))
            context = browser.new_context(**{"viewport": WIDE, **about})  # type: ignore[arg-type]
            stack.callback(context.close)
            everybody.append(Looking(context, served))
            return everybody[-1]

        yield begin
        for one in everybody:
            assert one.complaints == []
