"""Answering what runs wait for, in a browser."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from kit.browser import NARROW, Looking, assert_accessible, assert_fits, shot
from kit.lists_page import HOSTILE, recorded, waiting
from kit.soak import cases
from onrecord.core.events import Interrupted, WaitCreated
from onrecord.core.wait_keys import WaitIdentity
from onrecord.runtime.secrets.keys import KeyRing
from onrecord.runtime.waits.registry import WaitRegistry
from onrecord.store.factory import open_store

Look = Callable[..., Looking]


def open_with_waits(seen: Looking, count: int = 1) -> Page:
    page = seen.open("/waits")
    for _ in range(50):
        if page.locator("[data-wait]").count() >= count:
            return page
        page.wait_for_timeout(200)
        page.reload()
    raise AssertionError("nothing waits")


def answer(page: Page, text: str, *, sure: str = "Send it") -> None:
    page.get_by_label("The value").fill(text)
    page.get_by_role("button", name="Answer …").click()
    page.get_by_role("button", name=sure).click()


def test_a_wait_is_answered_and_its_run_goes_on(look: Look, store: str) -> None:
    with waiting(store, "order-17") as process:
        seen = look()
        page = open_with_waits(seen)
        card = page.locator("[data-wait]")
        assert "approval" in card.inner_text()
        assert card.locator("time").count() == 2
        assert_accessible(page)
        shot(page, "waits")
        page.get_by_label("The value").fill('{"approved": true}')
        page.get_by_role("button", name="Answer …").click()
        expect(page.locator("#sure-what")).to_contain_text("approval of run order-17")
        assert '"approved": true' in page.locator("#sure-body").inner_text()
        assert_accessible(page)
        shot(page, "waits-sure")
        page.get_by_role("button", name="Send it").click()
        expect(card.locator("[data-outcome]")).to_contain_text("Answered.")
        assert process.stdout is not None
        process.stdout.readline()
        assert "'decision': {'approved': True}" in process.stdout.readline()
        expect(card.locator("[data-outcome]")).to_contain_text("The run has completed.")
        expect(page.locator("[data-standing]")).to_have_text("completed")
        assert "rwk1" not in page.content()
        shot(page, "waits-answered")


def test_a_question_is_shown_and_a_button_answers_it(look: Look, store: str) -> None:
    with waiting(store, "refund-1", "asking") as process:
        page = open_with_waits(look())
        assert "Refund 42 EUR?" in page.locator(".question").inner_text()
        assert "Asks for a decision" in page.locator("h3").inner_text()
        page.get_by_role("button", name="true", exact=True).click()
        page.get_by_role("button", name="Answer …").click()
        page.get_by_role("button", name="Send it").click()
        expect(page.locator("[data-outcome]")).to_contain_text("Answered.")
        assert process.stdout is not None
        process.stdout.readline()
        assert process.stdout.readline() == "True\n"


@pytest.mark.parametrize(
    ("way", "sent"),
    [
        ("text", {"status": "ok", "value": "no quotes"}),
        ("error", {"status": "error", "value": "not today"}),
        ("cancel", {"status": "cancelled", "value": None}),
    ],
)
def test_other_answers(look: Look, store: str, way: str, sent: dict[str, Any]) -> None:
    key = a_wait(store)
    page = open_with_waits(look())
    if way == "text":
        page.get_by_label("it is plain text").check()
        page.get_by_label("The value").fill("no quotes")
    elif way == "error":
        page.get_by_text("An error.").click()
        page.get_by_label("What is wrong").fill("not today")
    else:
        page.get_by_text("Cancelled.").click()
    page.get_by_role("button", name="Answer …").click()
    page.get_by_role("button", name="Send it").click()
    expect(page.locator("[data-outcome]")).to_contain_text("Answered.")
    opened = open_store(store)
    ended = WaitRegistry(opened).peek(key)
    opened.close()
    assert ended is not None
    assert {"status": ended.status, "value": ended.value} == sent


def a_wait(store: str, run: str = "held", name: str = "approval", question: Any = None) -> str:
    events = [WaitCreated(wait_id="w1", name=name, deadline=None)] if question is None else [Interrupted(question)]
    recorded(store, run, events, "keeper")
    opened = open_store(store)
    try:
        identity = WaitIdentity.named(name if question is None else "interrupt@main")
        return WaitRegistry(opened).key(run, identity).text
    finally:
        opened.close()


def test_what_is_no_json_is_refused_before_anything_is_sent(look: Look, store: str) -> None:
    a_wait(store)
    page = open_with_waits(look())
    page.get_by_label("The value").fill("{broken")
    page.get_by_role("button", name="Answer …").click()
    expect(page.get_by_role("alert")).to_contain_text("the value is not JSON")
    assert page.locator("#sure").count() == 0
    page.get_by_label("The value").fill("1")
    page.get_by_role("button", name="Answer …").click()
    page.get_by_role("button", name="Not yet").click()
    expect(page.get_by_role("button", name="Answer …")).to_be_enabled()
    assert page.locator("[data-outcome]").inner_text() == ""


@pytest.mark.parametrize("number", ["12345678901234567890", "1e400", '{"deep": [9007199254740993]}'])
def test_a_number_that_a_browser_would_round_is_not_sent(look: Look, store: str, number: str) -> None:
    a_wait(store)
    page = open_with_waits(look())
    page.get_by_label("The value").fill(number)
    page.get_by_role("button", name="Answer …").click()
    expect(page.get_by_role("alert")).to_contain_text("a number that is too large")


def test_what_this_machine_cannot_answer_has_no_form(look: Look, store: str, tmp_path: Path) -> None:
    recorded(store, "held", [WaitCreated(wait_id="w1", name="approval", deadline=None)], "keeper")
    opened = open_store(store)
    WaitRegistry(opened, keyring=KeyRing(tmp_path / "elsewhere.json")).key("held", WaitIdentity.named("approval"))
    opened.close()
    page = open_with_waits(look())
    assert "cannot be answered from here" in page.locator("[data-wait]").inner_text()
    assert page.locator("form[data-resolving]").count() == 0


def test_two_pages_give_one_answer(look: Look, store: str) -> None:
    a_wait(store)
    seen = look()
    page = open_with_waits(seen)
    other = seen.watched(seen.context.new_page())
    other.goto(seen.served.url + "/waits")
    answer(page, "1")
    expect(page.locator("[data-outcome]")).to_contain_text("Answered.")
    answer(other, "1")
    expect(other.locator("[data-outcome]")).to_contain_text("Answered before, in the same way.")


def test_another_answer_later_is_told_so(look: Look, store: str) -> None:
    a_wait(store)
    seen = look()
    page = open_with_waits(seen)
    other = seen.watched(seen.context.new_page())
    other.goto(seen.served.url + "/waits")
    answer(page, "1")
    expect(page.locator("[data-outcome]")).to_contain_text("Answered.")
    answer(other, "2")
    expect(other.get_by_role("alert")).to_contain_text("the wait was resolved before, as ok")
    seen.complaints[:] = [one for one in seen.complaints if "409" not in one]


def test_a_wait_that_comes_up_is_offered(look: Look, store: str) -> None:
    open_store(store).close()
    seen = look()
    page = seen.open("/waits")
    expect(page.get_by_role("heading", name="Nothing waits for anybody")).to_be_visible()
    assert_accessible(page)
    shot(page, "waits-none")
    with page.expect_response("**/overview/follow**"):
        page.reload()
    a_wait(store)
    page.locator("#fresh").click()
    expect(page.locator("[data-wait]")).to_be_visible()


def test_hostile_questions_are_shown_as_text(look: Look, store: str) -> None:
    for number, text in enumerate(HOSTILE):
        a_wait(store, f"asks-{number}", question={"text": text, text[:50]: [text]})
    seen = look()
    page = open_with_waits(seen, len(HOSTILE))
    assert page.title() == "Waits · Onrecord"
    assert page.locator("main img, main script, main svg").count() == 0
    text = page.locator("main").inner_text()
    assert "<script>document.title='run'</script>" in text
    assert "\u202e" not in text
    assert len(page.content()) < 300_000
    assert_fits(page)


@pytest.mark.parametrize("colours", cases(["dark"], ["light"]))
def test_narrow_and_in_both_colours(look: Look, store: str, colours: str) -> None:
    a_wait(store, "with-a-rather-long-name-for-a-run-of-its-own", question="May I?")
    page = open_with_waits(look(viewport=NARROW, color_scheme=colours))
    assert_fits(page)
    assert_accessible(page)
    shot(page, f"waits-narrow-{colours}")
