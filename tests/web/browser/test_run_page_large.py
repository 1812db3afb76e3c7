"""A run of many events: what is transferred, drawn and computed does not grow with it."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from playwright.sync_api import Page, Route

from kit.browser import Looking
from kit.run_page import Look, chosen, opened, record_many, side
from kit.soak import SOAK

EVENTS = 100_000 if SOAK else 30_000
ASKED = EVENTS // 2 + 1
"""Position of a model call in the middle."""
WATCHED = """
window.longest = 0;
new PerformanceObserver((list) => {
  for (const one of list.getEntries()) window.longest = Math.max(window.longest, one.duration);
}).observe({ type: "longtask", buffered: true });
window.shifted = 0;
new PerformanceObserver((list) => {
  for (const one of list.getEntries()) if (!one.hadRecentInput) window.shifted += one.value;
}).observe({ type: "layout-shift", buffered: true });
"""


@pytest.fixture
def look(look: Look) -> Look:
    return partial(look, alone=True)


@pytest.fixture
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.getbasetemp() / "large.db"
    if not path.exists():
        record_many(str(path), "large", EVENTS)
        record_many(str(path), "small", 1_000)
    return str(path)


def received(look: Looking, page: Page) -> list[float]:
    counted: list[float] = []
    watching = look.context.new_cdp_session(page)
    watching.send("Network.enable")
    watching.on("Network.loadingFinished", lambda told: counted.append(told["encodedDataLength"]))
    return counted


def test_it_opens_and_scrolls_within_bounds(look: Look) -> None:
    seen = look()
    seen.context.add_init_script(WATCHED)
    sizes: dict[str, float] = {}
    for run in ("small", "large"):
        counted = received(seen, seen.page)
        page = opened(seen, f"/runs/{run}?seq=500")
        side(page, "Lane")
        page.wait_for_load_state("networkidle")
        sizes[run] = sum(counted)
    assert sizes["large"] < 1_000_000
    assert sizes["large"] < 1.5 * sizes["small"]
    assert page.evaluate("window.shifted") < 0.02, "nothing jumps when data arrives"
    most = 0
    for _ in range(40):
        page.evaluate("document.getElementById('fall').scrollTop += 7001")
        page.wait_for_timeout(20)
        most = max(most, page.evaluate("document.getElementsByTagName('*').length"))
    assert most < 1_500
    assert page.evaluate("window.longest") < 1_000, "200 ms on a machine that does nothing else: bench pages-run"


def test_all_of_it_can_be_reached(look: Look) -> None:
    page = opened(look(), "/runs/large")
    page.locator("#fall").evaluate("box => { box.scrollTop = box.scrollHeight; }")
    page.locator(f"#event-{EVENTS}").get_by_text("completed").wait_for()
    page.keyboard.press("End")
    assert chosen(page) == EVENTS
    page.locator("#at").fill(str(ASKED))
    page.keyboard.press("Enter")
    assert chosen(page) == ASKED
    side(page, f"{ASKED} · ActionRequested")
    assert page.locator(f"#event-{ASKED}").is_visible()
    page.get_by_role("tab", name="State").click()
    side(page, f"After event {ASKED}, set by event {ASKED - 1}")


def test_the_server_reads_little_of_it(look: Look) -> None:
    seen = look()
    asked: list[str] = []
    seen.page.on("request", lambda request: asked.append(request.url))
    page = opened(seen, "/runs/large")
    page.wait_for_load_state("networkidle")
    paths = {url.partition("/api/v1/runs/large/")[2].partition("?")[0] for url in asked if "/runs/large/" in url}
    assert paths <= {"spans", "overview"}, "what reads the whole run waits until somebody asks for it"
    page.get_by_role("button", name="add up").click()
    page.get_by_text("% read").wait_for()


def test_verification_is_asked_for_and_tells_how_far_it_is(look: Look) -> None:
    page = opened(look(), "/runs/large")
    said: list[Any] = []
    page.expose_function("said", lambda text: said.append(text))
    page.evaluate(
        "new MutationObserver(() => said(document.getElementById('verdict').textContent))"
        ".observe(document.getElementById('verdict'), { childList: true })"
    )
    page.keyboard.press("v")
    page.get_by_text(f"verified {EVENTS:,} of {EVENTS:,}").wait_for(timeout=120_000)
    assert any("verifying" in one and "%" in one for one in said)


def test_a_conversation_of_thousands_of_calls(look: Look) -> None:
    page = opened(look(), f"/runs/large?view=conversation&seq={ASKED - 1}")
    page.locator(".call").first.wait_for()
    assert page.locator(".call").first.get_attribute("aria-label") == f"Model call, event {ASKED - 10}"
    for _ in range(8):
        last = page.locator(".call").last.get_attribute("aria-label")
        page.get_by_role("button", name="Later calls").click()
        page.wait_for_function("last => [...document.querySelectorAll('.call')].at(-1).ariaLabel !== last", arg=last)
    assert page.locator(".call").count() <= 120
    for _ in range(8):
        first = page.locator(".call").first.get_attribute("aria-label")
        page.get_by_role("button", name="Earlier calls").click()
        page.wait_for_function("first => document.querySelector('.call').ariaLabel !== first", arg=first)
    assert page.locator(".call").count() <= 120
    assert page.locator(".call").first.get_attribute("aria-label") == f"Model call, event {ASKED - 1010}"


def test_a_list_that_is_higher_than_a_browser_can_make(look: Look) -> None:
    seen = look()

    def lower(route: Route) -> None:
        answer = route.fetch()
        route.fulfill(response=answer, body=answer.text().replace("8_000_000", "100_000"))

    seen.page.route("**/run-fall.js*", lower)
    page = opened(seen, f"/runs/large?seq={ASKED}")
    assert page.locator("#fall").evaluate("box => box.scrollHeight") == 100_000
    assert page.locator(f"#event-{ASKED}").is_visible()
    page.keyboard.press("j")
    assert chosen(page) == ASKED + 1
    assert page.locator(f"#event-{ASKED + 1}").is_visible()
    page.keyboard.press("End")
    page.locator(f"#event-{EVENTS}").get_by_text("completed").wait_for()
    page.keyboard.press("Home")
    page.locator("#event-1", has_text="ask").wait_for()
    boxes = [page.locator(f"#event-{seq}").bounding_box() for seq in (1, 2, 3)]
    assert [round(one["y"] - boxes[0]["y"]) for one in boxes if one and boxes[0]] == [0, 30, 60]
