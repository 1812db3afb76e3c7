"""What all pages have in common."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

import onrecord
from kit.browser import NARROW, Looking, assert_accessible, assert_fits, shot


@onrecord.step
def look_up(order: str) -> dict[str, int]:
    return {"cents": 4200}


@onrecord.agent
def support(order: str) -> int:
    return look_up(order)["cents"]


@pytest.fixture(autouse=True)
def recorded(store: str) -> None:
    opened = onrecord.open_store(store)
    try:
        support.run("A-17", run_id="first", store=opened)
    finally:
        opened.close()


Look = Callable[..., Looking]


@pytest.fixture
def look(look: Look) -> Look:
    """Begin at the list of runs."""
    return partial(look, arrives=True)


def test_the_printed_address_leads_to_the_list(look: Look) -> None:
    page = look().page
    assert page.url.endswith("/"), "the code is not in the address any more"
    assert page.locator("tbody tr").count() == 1
    assert "first" in page.locator("tbody").inner_text()
    assert_accessible(page)
    shot(page, "runs")


@pytest.mark.parametrize("colours", ["light", "dark"])
def test_narrow_and_in_both_colours(look: Look, colours: str) -> None:
    page = look(viewport=NARROW, color_scheme=colours).page
    assert_fits(page)
    assert_accessible(page)
    shot(page, f"runs-narrow-{colours}")


def test_colours_by_the_button_stay(look: Look) -> None:
    seen = look(color_scheme="light")
    page = seen.page
    before = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.keyboard.press("t")
    after = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert after != before
    page.reload()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == after


def test_the_keyboard_has_a_help(look: Look) -> None:
    page = look().page
    page.keyboard.press("?")
    assert "search all runs" in page.locator("dialog").inner_text()
    assert_accessible(page)
    page.keyboard.press("Escape")
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "find"


def test_whoever_was_not_let_in_is_told_so_on_a_page(look: Look) -> None:
    seen = look()
    stranger = seen.context.browser.new_context()
    page = stranger.new_page()
    answer = page.goto(seen.served.url + "/?status=failed")
    assert answer is not None
    assert answer.status == 401
    assert page.locator("h1").inner_text() == "Not let in"
    assert page.get_by_role("link", name="open it from here").get_attribute("href") == "/?status=failed"
    stranger.close()
