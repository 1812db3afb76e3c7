"""Searching all runs in a browser."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from kit.browser import NARROW, Looking, assert_accessible, assert_fits, shot
from kit.lists_page import HOSTILE, record
from kit.soak import cases

Look = Callable[..., Looking]


def test_a_word_is_found_from_any_page_and_leads_to_its_event(look: Look, store: str) -> None:
    record(store, "one", "the quick brown fox jumps")
    record(store, "two", "nothing of the kind")
    page = look(arrives=True).page
    page.keyboard.press("/")
    page.keyboard.type('"brown fox"')
    page.keyboard.press("Enter")
    page.wait_for_url("**/search?q=*")
    assert page.locator(".hit").count() == 1
    assert page.locator(".hit mark").all_inner_texts() == ["brown fox"]
    assert page.locator("#find").input_value() == '"brown fox"'
    assert_accessible(page)
    shot(page, "search")
    page.locator("main").click()
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_url("**/runs/one?seq=2")


def test_nothing_found_and_nothing_asked_say_what_can_be_asked(look: Look, store: str) -> None:
    record(store, "one")
    seen = look()
    page = seen.open("/search?q=zebra")
    expect(page.get_by_role("heading", name="Nothing was found")).to_be_visible()
    assert_accessible(page)
    page = seen.open("/search")
    expect(page.get_by_role("heading", name="What are you looking for?")).to_be_visible()
    shot(page, "search-empty")


def test_what_cannot_be_asked_is_told_beside_what_was_typed(look: Look, store: str) -> None:
    record(store, "one")
    seen = look()
    with seen.page.expect_response("**/search?q=*") as answer:
        page = seen.open("/search?q=%2B%2B%2B")
    assert answer.value.status == 400
    expect(page.get_by_role("alert")).to_contain_text("a search needs a word")
    assert page.locator("#find").input_value() == "+++"
    seen.complaints.clear()  # the browser says 400, as it should


def test_pages_of_hits(look: Look, store: str) -> None:
    for number in range(25):
        record(store, f"run-{number:02}", "common word")
    seen = look()
    page = seen.open("/search?q=common")
    first = page.locator(".hit-link").all_inner_texts()
    page.get_by_role("link", name="Older hits").click()
    page.wait_for_url("**cursor=*")
    rest = page.locator(".hit-link").all_inner_texts()
    assert (len(first), len(rest)) == (20, 5)
    assert len({*first, *rest}) == 25


def test_hostile_texts_are_shown_as_text(look: Look, store: str) -> None:
    for number, text in enumerate(HOSTILE):
        record(store, f"bad-{number}", f"needle {text} needle", agent=text)
    seen = look()
    page = seen.open("/search?q=needle")
    assert page.locator(".hit").count() == len(HOSTILE)
    assert page.title() == "needle · Search · Onrecord"
    assert page.locator("main img, main script, main svg").count() == 0
    text = page.locator("main").inner_text()
    assert "</script><svg onload=" in text
    assert "\u202e" not in text
    assert "\x1b" not in text
    assert len(page.content()) < 200_000
    assert_fits(page)
    for query in HOSTILE[:-1]:
        page.locator("#find").fill(query[:200])
        page.keyboard.press("Enter")
        page.wait_for_load_state()
        assert page.title() != "run"
    seen.complaints[:] = [one for one in seen.complaints if "400" not in one]


@pytest.mark.parametrize("colours", cases(["dark"], ["light"]))
def test_narrow_and_in_both_colours(look: Look, store: str, colours: str) -> None:
    record(store, "one-with-a-rather-long-name-of-its-own", "needle " + "word " * 200)
    page = look(viewport=NARROW, color_scheme=colours).open("/search?q=needle")
    assert_fits(page)
    assert_accessible(page)
    shot(page, f"search-narrow-{colours}")
