"""Settling effects in doubt, in a browser."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from kit.browser import NARROW, Looking, assert_accessible, assert_fits, shot
from kit.lists_page import HOSTILE, in_doubt
from kit.soak import cases
from onrecord.journal.reader import JournalReader
from onrecord.store.factory import open_store

Look = Callable[..., Looking]


def contents(store: str, run: str) -> list[Any]:
    opened = open_store(store, read_only=True)
    try:
        reader = JournalReader(opened, run)
        rows = list(opened.scan("default", run, 2))
        return [(row.kind, reader.content_tree(row, reader.link(row))) for row in rows]
    finally:
        opened.close()


def settle(page: Page, choice: str, **fields: str) -> None:
    page.get_by_text(choice).click()
    for label, text in fields.items():
        page.get_by_label({"value": "The value that it returned", "message": "What went wrong"}[label]).fill(text)
    page.get_by_role("button", name="Settle …").click()
    page.get_by_role("button", name="Send it").click()


def test_it_says_what_each_choice_means_and_risks(look: Look, store: str) -> None:
    in_doubt(store, "mail-1")
    page = look().open("/waits")
    text = page.locator("[data-settle]").inner_text()
    for words in ("It happened.", "If it had happened, it happens twice", "The agent sees an error"):
        assert words in text
    page.get_by_text("What was asked for").click()
    assert "customer" in page.locator(".question").inner_text()
    page.get_by_text("It happened.").click()
    expect(page.get_by_label("The value that it returned")).to_be_visible()
    assert_accessible(page)
    shot(page, "settle")


def test_done_with_a_value(look: Look, store: str) -> None:
    in_doubt(store, "mail-1")
    page = look().open("/waits")
    settle(page, "It happened.", value='{"id": 7}')
    expect(page.locator("[data-outcome]")).to_contain_text("onrecord resume mail-1")
    (settled, answered) = contents(store, "mail-1")
    assert (settled[0], settled[1]["decision"]) == ("EffectSettled", "done")
    assert (answered[0], answered[1]["output"]) == ("ActionSucceeded", {"id": 7})
    page.reload()
    expect(page.get_by_role("heading", name="Nothing waits for anybody")).to_be_visible()


def test_again_and_failed(look: Look, store: str) -> None:
    in_doubt(store, "mail-1")
    seen = look()
    page = seen.open("/waits")
    settle(page, "Do it again.")
    expect(page.locator("[data-outcome]")).to_contain_text("It will be done again")
    assert [kind for kind, _ in contents(store, "mail-1")] == ["EffectSettled"]
    in_doubt(store, "mail-2")
    page = seen.open("/waits")
    page.get_by_text("It failed.").click()
    page.get_by_role("button", name="Settle …").click()
    expect(page.get_by_role("alert")).to_contain_text("a failure needs a message")
    page.get_by_label("What went wrong").fill("the server was down")
    page.get_by_role("button", name="Settle …").click()
    page.get_by_role("button", name="Send it").click()
    expect(page.locator("[data-outcome]")).to_contain_text("Settled as failed")
    assert [kind for kind, _ in contents(store, "mail-2")] == ["EffectSettled", "ActionFailed"]


def test_the_same_again_is_fine_and_another_is_refused(look: Look, store: str) -> None:
    in_doubt(store, "mail-1")
    seen = look()
    page = seen.open("/waits")
    same, other = (seen.watched(seen.context.new_page()) for _ in range(2))
    for one in (same, other):
        one.goto(seen.served.url + "/waits")
    settle(page, "It happened.", value="1")
    expect(page.locator("[data-outcome]")).to_contain_text("Settled as done")
    settle(same, "It happened.", value="1")
    expect(same.locator("[data-outcome]")).to_contain_text("Settled as done")
    settle(other, "It happened.", value="2")
    expect(other.get_by_role("alert")).to_contain_text("was settled before, in another way")
    seen.complaints[:] = [one for one in seen.complaints if "409" not in one]
    assert len(contents(store, "mail-1")) == 2


def test_hostile_names_and_arguments_are_shown_as_text(look: Look, store: str) -> None:
    for number, text in enumerate(HOSTILE):
        in_doubt(store, f"bad-{number}", name=text, payload={"text": text})
    page = look().open("/waits")
    assert page.locator("[data-settle]").count() == len(HOSTILE)
    for summary in page.locator("summary").all():
        summary.click()
    assert page.title() == "Waits · Onrecord"
    assert page.locator("main img, main script, main svg").count() == 0
    text = page.locator("main").inner_text()
    assert "<script>document.title='run'</script>" in text
    assert "\u202e" not in text
    assert_fits(page)


@pytest.mark.parametrize("colours", cases(["light"], ["dark"]))
def test_narrow_and_in_both_colours(look: Look, store: str, colours: str) -> None:
    in_doubt(store, "mail-1")
    page = look(viewport=NARROW, color_scheme=colours).open("/waits")
    page.get_by_text("It failed.").click()
    assert_fits(page)
    assert_accessible(page)
    shot(page, f"settle-narrow-{colours}")
