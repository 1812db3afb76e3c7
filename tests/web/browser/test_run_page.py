"""The page of a run, opened, walked and scrubbed by somebody with a keyboard."""

from __future__ import annotations

from pathlib import Path

import apsw
import pytest

from kit.browser import NARROW, assert_accessible, assert_fits, shot, torn_words
from kit.run_page import EVENTS, Look, chosen, opened, patient, record_support, side
from kit.soak import cases
from kit.web import flip_content, once, record, until
from onrecord.core.events import StateUpdated
from onrecord.journal.reader import JournalReader
from onrecord.runtime.forks.fork import begin_fork
from onrecord.runtime.waits.listed_waits import load_waits
from onrecord.store.factory import open_store


def remove_event(path: str, run: str, seq: int) -> None:
    """As somebody does it who owns the file."""
    connection = apsw.Connection(path)
    triggers = connection.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'").fetchall()
    for name, _ in triggers:
        connection.execute(f"DROP TRIGGER {name}")
    connection.execute(
        "DELETE FROM events WHERE seq = ? AND run_no = (SELECT run_no FROM runs WHERE run = ?)", (seq, run)
    )
    for _, sql in triggers:
        connection.execute(sql)
    connection.close()


@pytest.fixture(autouse=True)
def recorded(store: str) -> None:
    record_support(store)


def test_it_says_what_the_run_was(look: Look) -> None:
    page = opened(look(), "/runs/support-one")
    page.get_by_text(f"verified {EVENTS} of {EVENTS}").wait_for()
    page.locator("#cost", has_text="$").wait_for()
    figures = page.locator(".figures").inner_text()
    assert "support" in figures
    assert int(page.locator("#tokens").inner_text()) == 40 * (2 + 4 + 6) + 3 * 31
    assert page.locator("#status").inner_text() == "completed"
    assert page.locator("#fall [role=row]").count() >= 10
    first = page.locator("#event-1").inner_text()
    assert "ask" in first
    assert "model call" in first
    failed = page.locator("#fall .fall-row.bad").first.inner_text()
    assert "fetch" in failed
    assert_accessible(page)
    shot(page, "run")


def test_it_can_be_read_without_scripts(look: Look) -> None:
    page = look(java_script_enabled=False).open("/runs/support-one")
    text = page.locator("#fall").inner_text()
    assert "look_up" in text
    assert "no route to host" in text


def test_a_beginning_of_the_id_leads_to_the_address_of_the_run(look: Look) -> None:
    page = opened(look(), "/runs/supp?seq=3")
    assert page.url.endswith("/runs/support-one?seq=3")


def test_walked_by_keyboard(look: Look) -> None:
    page = opened(look(), "/runs/support-one")
    for _ in range(3):
        page.keyboard.press("j")
    assert chosen(page) == 3
    assert "look_up" in side(page, "durable step")
    page.keyboard.press("k")
    assert chosen(page) == 2
    side(page, "its request, 1")
    page.keyboard.press("[")
    assert chosen(page) == 1
    side(page, "its answer, 2")
    page.keyboard.press("]")
    assert chosen(page) == 2
    page.keyboard.press("End")
    assert chosen(page) == EVENTS
    assert page.url.endswith(f"?seq={EVENTS}")
    page.locator("#fall").focus()
    page.keyboard.press("ArrowUp")
    assert chosen(page) == EVENTS - 1
    assert page.locator("#fall").get_attribute("aria-activedescendant") == f"event-{EVENTS - 1}"
    page.keyboard.press("?")
    assert "next event" in page.locator("dialog").inner_text()


def test_a_link_leads_to_an_event_and_back_again(look: Look, store: str) -> None:
    page = opened(look(), "/runs/support-one?seq=3&show=raw")
    assert chosen(page) == 3
    text = side(page, "Link, as it is stored")
    reading = open_store(store, read_only=True)
    assert JournalReader(reading, "support-one").event(3).hash in text
    reading.close()
    assert "main/look_up/0" in text
    page.keyboard.press("2")
    page.locator(".call").first.wait_for()
    assert page.url.endswith("?seq=3&view=conversation&show=raw")
    page.go_back()
    page.locator("#view-timeline").wait_for()
    assert chosen(page) == 3


def test_the_slider_moves_rows_and_state_together(look: Look) -> None:
    page = opened(look(), f"/runs/support-one?seq={EVENTS}&show=state")
    side(page, f"After event {EVENTS}, set by event")
    assert page.locator("#side").evaluate("one => one.scrollWidth <= one.clientWidth"), "a hash does not stand out"
    assert "turn\n2" in page.locator("#part").inner_text()
    slider = page.locator("#scrubber")
    slider.fill("6")
    side(page, "After event 6, set by event 5")
    assert "turn\n0" in page.locator("#part").inner_text()
    assert chosen(page) == 6
    assert page.locator("#at").input_value() == "6"
    slider.focus()
    page.keyboard.press("ArrowRight")
    assert chosen(page) == 7
    page.keyboard.press("k")
    assert chosen(page) == 6, "letters mean what they mean, wherever the slider was left"
    slider.fill("1")
    side(page, "The agent has no state yet.")
    assert page.url.endswith("?seq=1&show=state")
    shot(page, "run-state")


def test_the_difference_to_the_call_before(look: Look) -> None:
    page = opened(look(), "/runs/support-one")
    page.locator("#fall .what b", has_text="ask").nth(2).click()
    side(page, "the call before, 1")
    page.get_by_role("tab", name="Difference").click()
    text = side(page, "differences to event 1")
    assert "/payload/messages/2" in text
    assert page.locator("#part .word-added").count() == 2
    assert_accessible(page)
    shot(page, "run-difference")


def test_what_the_model_saw(look: Look) -> None:
    page = opened(look(), "/runs/support-one?seq=10&show=context")
    text = side(page, "Against event 1:")
    assert "INJECTED" in text
    assert page.locator(".context li").count() == 4
    assert page.locator(".context li.same").count() == 2
    assert_accessible(page)
    shot(page, "run-context")
    page.keyboard.press("j")
    page.keyboard.press("j")
    side(page, "StateUpdated")
    assert not page.get_by_role("tab", name="Context").is_visible()


def test_artifacts_are_downloads(look: Look) -> None:
    page = opened(look(), "/runs/support-one")
    page.locator("#fall .answer .what b", has_text="fetch").first.click()
    side(page, "Artifacts")
    with page.expect_download() as coming:
        page.locator(".files a").first.click()
    assert Path(coming.value.path()).read_bytes() == b"x" * 100_000


def test_the_conversation(look: Look) -> None:
    page = opened(look(), "/runs/support-one?view=conversation")
    page.get_by_text("That is all.").wait_for()
    calls = page.locator(".call")
    assert calls.count() == 3
    assert "small bookshop" in calls.nth(0).inner_text()
    assert "calls look_up" in calls.nth(0).locator(".asks").inner_text()
    second = calls.nth(1).inner_text()
    assert "small bookshop" not in second, "what was said before is not said again"
    assert "4200" in second
    assert "I looked at 4 messages." in second
    assert "191 tokens" in second
    cut = "[...document.querySelectorAll('.message')].filter((one) => one.scrollHeight > one.clientHeight + 1).length"
    assert page.evaluate(cut) == 0, "what is said stands in its own box"
    assert_accessible(page)
    shot(page, "run-conversation")
    calls.nth(1).get_by_role("link").first.click()
    assert "seq=" in page.url
    assert page.locator("#view-timeline").is_visible()


def test_receipts_and_family(look: Look, store: str) -> None:
    opened_store = open_store(store)
    begin_fork(opened_store, "support-one", 5, run_id="another-way")
    opened_store.close()
    page = opened(look(), "/runs/support-one?view=receipts")
    page.locator("#view-receipts tbody tr").first.wait_for()
    assert page.locator("#view-receipts tbody tr").count() == 10
    assert_accessible(page)
    page.keyboard.press("4")
    page.get_by_role("link", name="another-way").wait_for()
    member = page.locator(".family li").nth(1).inner_text()
    assert "fork at 5" in member
    assert page.get_by_role("link", name="compare").get_attribute("href") == "/runs/support-one/compare/another-way"
    assert_accessible(page)
    shot(page, "run-family")
    page.get_by_role("link", name="another-way").click()
    page.get_by_text("fork of").wait_for()


def test_a_tampered_run_is_shown_as_broken(look: Look, store: str) -> None:
    flip_content(store, "support-one", 4)
    page = opened(look(), "/runs/support-one")
    page.get_by_text("broken at 4").wait_for()
    assert page.locator("#event-4").get_attribute("class") == "fall-row answer bad"
    assert "does not match" in page.locator("#event-4").inner_text()
    assert "look_up" in page.locator("#event-3").inner_text(), "the rest is shown as it is"
    page.locator("#verdict").click()
    assert "INVALID" in page.locator("#verification").inner_text()
    assert_accessible(page)
    page.locator("#verification").get_by_role("link", name="event 4").click()
    side(page, "does not match")
    shot(page, "run-broken")


def test_an_event_that_was_removed_is_missed(look: Look, store: str) -> None:
    remove_event(store, "support-one", 5)
    seen = look()
    page = opened(seen, "/runs/support-one?seq=4")
    page.locator("#event-5", has_text="missing in the store").wait_for()
    page.get_by_text("broken at").wait_for()
    page.keyboard.press("j")
    side(page, "has no event 5")
    page.keyboard.press("j")
    side(page, "fetch")
    seen.complaints.clear()  # a browser complains about a 404


def test_compare_leads_to_the_compare_page(look: Look, store: str) -> None:
    record_support(store, "support-two")
    page = opened(look(), "/runs/support-one")
    page.keyboard.press("c")
    page.keyboard.type("support-two")
    with page.expect_request(lambda asked: "/compare/" in asked.url) as coming:
        page.keyboard.press("Enter")
    assert coming.value.url.endswith("/runs/support-one/compare/support-two")


def test_an_effect_in_doubt_is_settled_on_the_page(look: Look, store: str) -> None:
    record(store, "doubtful", [StateUpdated(payload=1), once(2)])
    page = opened(look(), "/runs/doubtful")
    assert page.locator("#status").inner_text() == "in doubt"
    need = page.locator("[data-settle]")
    assert "mail" in need.inner_text()
    assert_accessible(page)
    shot(page, "run-in-doubt")
    need.get_by_text("Do it again.").click()
    need.get_by_role("button", name="Settle").click()
    page.locator("dialog[open] button.main").click()
    page.get_by_text("It will be done again").first.wait_for()
    page.locator("#status", has_text="interrupted").wait_for()


def test_what_it_waits_for_stands_at_the_top(look: Look, store: str) -> None:
    opened_store = open_store(store)
    handle = patient.start(run_id="patient", store=opened_store)
    until(lambda: load_waits(opened_store, "patient"))
    page = opened(look(), "/runs/patient")
    page.locator("#status", has_text="waiting").wait_for()
    notice = page.locator("#standing")
    assert "Waits for approval" in " ".join(notice.inner_text().split())
    assert_accessible(page)
    notice.get_by_role("link", name="Answer it").click()
    assert page.locator(".need:target h3").inner_text() == "Waits for an answer: approval", "the one that was meant"
    page.locator("[data-resolving] textarea").fill("42")
    page.get_by_role("button", name="Answer").click()
    page.locator("#sure-yes").click()
    assert handle.result(30) == 42
    opened_store.close()


def test_an_empty_run_has_a_page(look: Look, store: str) -> None:
    record(store, "empty", [])
    page = opened(look(), "/runs/empty")
    assert "Nothing has happened" in page.locator(".fall").inner_text()
    page.keyboard.press("j")
    page.keyboard.press("End")
    assert_accessible(page)


def test_a_run_that_is_not_there(look: Look) -> None:
    seen = look()
    answer = seen.page.goto(seen.served.url + "/runs/nobody")
    assert answer is not None
    assert answer.status == 404
    assert "no run 'nobody'" in seen.page.locator("main").inner_text()
    seen.page.get_by_role("link", name="All runs").click()
    seen.page.locator("tr[data-run=support-one]").wait_for()
    seen.complaints.clear()  # a browser complains about a 404


@pytest.mark.parametrize("colours", cases(["dark"], ["light"]))
def test_narrow_and_in_both_colours(look: Look, colours: str) -> None:
    page = opened(look(viewport=NARROW, color_scheme=colours), "/runs/support-one?seq=3")
    side(page, "durable step")
    page.get_by_text(f"verified {EVENTS} of {EVENTS}").wait_for()
    assert_fits(page)
    assert_accessible(page)
    shot(page, f"run-narrow-{colours}")
    for number, view in ((2, "conversation"), (3, "receipts"), (4, "family"), (5, "about")):
        page.keyboard.press(str(number))
        page.locator(f"#view-{view} >> visible=true").first.wait_for()
        page.wait_for_load_state("networkidle")
        assert_fits(page)
        assert_accessible(page)


def test_narrow_rows_tell_what_was_called(look: Look) -> None:
    page = opened(look(viewport=NARROW), "/runs/support-one")
    page.locator("#event-3").wait_for()
    assert "look_up" in page.locator("#event-3 .what").inner_text()
    assert torn_words(page, ".fall-row .what") == []
    buttons = page.locator("#to-first, #to-last").evaluate_all("all => all.map((one) => one.offsetTop)")
    assert buttons[0] == buttons[1], "one row of buttons"


def test_an_answer_is_read_without_opening_anything(look: Look) -> None:
    page = opened(look(), "/runs/support-one?seq=2")
    side(page, "answered")
    assert page.locator("#side .branch:not([open])").count() == 0
    assert "look_up" in page.locator("#side .tree").first.inner_text()
    assert "1 item\n" in page.locator("#side .tree").first.inner_text()


def test_dark(look: Look) -> None:
    page = opened(look(color_scheme="dark"), "/runs/support-one?seq=3")
    side(page, "durable step")
    assert_accessible(page)
    shot(page, "run-dark")


def test_zoom(look: Look) -> None:
    page = opened(look(), "/runs/support-one?seq=3")
    width = "document.querySelector('#event-3 rect').getAttribute('width')"
    page.locator("#zoom-run").click()
    whole = float(page.evaluate(width))
    page.keyboard.press("+")
    assert float(page.evaluate(width)) > whole
    page.keyboard.press("0")
    assert float(page.evaluate(width)) == whole
    page.keyboard.press("f")
    assert page.locator("#zoom-rows").get_attribute("aria-pressed") == "true"


def test_one_lane_alone(look: Look) -> None:
    page = opened(look(), "/runs/support-one?seq=6")
    assert page.locator("#fall .aside").count() == 0
    page.keyboard.press("l")
    shown = page.locator("#fall .fall-row:not(.aside) .lane")
    assert set(shown.all_inner_texts()) == {page.locator("#event-6 .lane").inner_text()}
    page.locator("#event-6 .lane").click()
    assert page.locator("#fall .aside").count() == 0


def test_keys_leave_links_and_other_views_alone(look: Look) -> None:
    page = opened(look(), "/runs/support-one?seq=2")
    side(page, "its request, 1")
    page.get_by_role("link", name="its request, 1").focus()
    page.keyboard.press("Enter")
    assert chosen(page) == 1
    page.locator("#fall").focus()
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "part"
    page.keyboard.press("3")
    page.locator("#view-receipts tbody tr").first.wait_for()
    page.keyboard.press("j")
    page.keyboard.press("j")
    assert page.locator("#view-receipts tbody tr:focus-within").inner_text().startswith("look_up")
    assert page.locator("#view-receipts").is_visible()
