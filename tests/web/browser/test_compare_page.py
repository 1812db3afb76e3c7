"""Two runs side by side: the way to the first divergence, and from one difference to the next."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import expect

import onrecord
from kit.browser import NARROW, Looking, assert_accessible, assert_fits, shot
from kit.shared_runs import HOSTILE, World, damage, record_hostile, record_two, say, support
from kit.soak import cases
from onrecord.store.contract import Store

Look = Callable[..., Looking]


def recorded(store: str, record: Callable[[Store], None]) -> None:
    opened = onrecord.open_store(store)
    try:
        record(opened)
    finally:
        opened.close()


def record_far_apart(store: Store) -> None:
    """They part after 120 turns; before that there is nothing to look at."""

    @onrecord.agent
    def long(word: str) -> str:
        for number in range(120):
            say(number)
        return str(say(f"the {word} end"))

    long.run("good", run_id="one", store=store)
    long.run("bad", run_id="two", store=store)


def test_the_first_divergence_is_in_view_and_marked(look: Look, store: str) -> None:
    recorded(store, record_two)
    page = look().open("/runs/first/compare/second")
    first = page.locator(".change-row[data-first]")
    expect(first).to_be_in_viewport()
    assert "here they part" in first.inner_text()
    assert first.locator("del").inner_text() == "quick brown"
    assert first.locator("ins").inner_text() == "slow green"
    assert "they part" in page.locator(".badge").first.inner_text()
    assert page.locator("#where").inner_text() == "difference 1 of 10, where they part first"
    assert page.url.endswith("?at=1")
    assert_accessible(page)
    shot(page, "compare")


def test_nothing_jumps_and_it_can_be_read_without_scripts(look: Look, store: str) -> None:
    recorded(store, record_two)
    seen = look()
    page = seen.open("/runs/first/compare/second")
    expect(page.locator("#where")).not_to_be_empty()
    moved = page.evaluate(
        "new Promise((done) => { let sum = 0; new PerformanceObserver((list) => { for (const one of list.getEntries())"
        " sum += one.value; }).observe({ type: 'layout-shift', buffered: true }); setTimeout(() => done(sum), 200) })"
    )
    assert moved < 0.02
    quiet = seen.context.browser.new_context(java_script_enabled=False, storage_state=seen.context.storage_state())
    plain = quiet.new_page()
    plain.goto(page.url)
    first = plain.locator(".change-row[data-first]")
    expect(first.locator("del")).to_be_visible()
    assert first.locator("del").inner_text() == "quick brown"
    assert first.locator("ins").inner_text() == "slow green"
    quiet.close()


def test_far_behind_what_is_the_same(look: Look, store: str) -> None:
    recorded(store, record_far_apart)
    seen = look()
    page = seen.open("/runs/one/compare/two")
    first = page.locator(".change-row[data-first]")
    expect(first).to_be_in_viewport()
    folded = page.locator(".same-row button").first
    assert folded.inner_text() == "240 events the same"
    folded.click()
    listed = page.locator(".same-events ol")
    expect(listed.first.locator("li")).to_have_count(51)
    assert listed.count() == 2
    assert listed.first.locator("li a").first.get_attribute("href") == "/runs/one?seq=1"
    assert folded.get_attribute("aria-expanded") == "true"
    assert_accessible(page)
    folded.click()
    assert page.locator(".same-events").count() == 0


def test_the_diff_is_followed_from_one_difference_to_the_next(look: Look, store: str) -> None:
    recorded(store, record_two)
    seen = look()
    page = seen.open("/runs/first/compare/second")
    page.keyboard.press("n")
    second = page.locator("#change-2")
    expect(second).to_have_attribute("data-current", "")
    expect(second.locator("ins").first).to_be_visible()
    assert page.url.endswith("?at=2")
    expect(second).to_be_in_viewport()
    second.get_by_text("JSON patch").click()
    assert '"op": "replace"' in second.locator(".patch pre").inner_text()
    page.keyboard.press("n")
    page.keyboard.press("n")
    added = page.locator("#change-4")
    assert added.get_attribute("data-status") == "added"
    expect(added.locator("pre")).to_contain_text("a detour")
    page.keyboard.press("p")
    assert page.url.endswith("?at=3")
    page.reload()
    expect(page.locator("#change-3")).to_be_in_viewport()
    assert page.locator("#change-3").get_attribute("open") is not None
    page.locator("#change-3 .change-links a").first.click()
    assert page.url.endswith("/runs/first?seq=8")


def test_another_run_is_chosen(look: Look, store: str) -> None:
    recorded(store, record_two)
    page = look().open("/runs/first/compare")
    assert "second" in page.locator("tbody").inner_text()
    assert_accessible(page)
    other = page.get_by_label("Another run")
    other.fill(other.get_attribute("placeholder") or "")
    assert not other.evaluate("one => one.scrollWidth > one.clientWidth"), "what may be typed is read to its end"
    page.get_by_label("Another run").fill("seco")
    page.get_by_role("button", name="Compare").click()
    assert "/runs/first/compare/second" in page.url
    page.get_by_role("link", name="The other way round").click()
    assert "/runs/second/compare/first" in page.url
    assert page.locator(".change-row[data-first] del").inner_text() == "slow green"


def test_runs_that_did_the_same_say_so(look: Look, store: str) -> None:
    def record(opened: Store) -> None:
        World.words, World.detour = "same", False
        support.run("A", 2, run_id="one", store=opened)
        support.run("A", 2, run_id="two", store=opened)

    recorded(store, record)
    page = look().open("/runs/one/compare/two")
    assert "did the same" in page.locator(".compare-message").inner_text()
    assert page.locator(".change-row").count() == 0
    assert page.locator(".same-row").inner_text().startswith("10 events the same")


@pytest.mark.parametrize("colours", cases(["dark"], ["light"]))
def test_narrow_and_in_both_colours(look: Look, store: str, colours: str) -> None:
    recorded(store, record_two)
    page = look(viewport=NARROW, color_scheme=colours).open("/runs/first/compare/second")
    expect(page.locator(".change-row[data-first] ins")).to_be_visible()
    assert_fits(page)
    assert_accessible(page)
    halves = page.locator(".change-row[data-first] .half")
    above, below = halves.nth(0).bounding_box(), halves.nth(1).bounding_box()
    assert above is not None
    assert below is not None
    assert below["y"] >= above["y"] + above["height"], "one above the other"
    shot(page, f"compare-narrow-{colours}")


def test_what_was_recorded_is_text(look: Look, store: str) -> None:
    def record(opened: Store) -> None:
        record_hostile(opened)

        @onrecord.agent
        def other(name: str) -> str:
            for text in reversed(HOSTILE):
                say({text: text + "!", "__proto__": {"polluted": text}})
            return HOSTILE[1]

        other.run("x", run_id="other", store=opened)

    recorded(store, record)
    page = look().open("/runs/hostile/compare/other")
    for _ in range(6):
        page.keyboard.press("n")
    expect(page.locator(".change-row[data-current] .change-body pre").first).to_be_visible()
    assert page.locator("main img, main svg, main iframe, main script:not([type])").count() == 0
    assert page.title() == "hostile and other · Onrecord"
    said = page.locator("main").inner_text()
    assert "\u202e" not in said
    assert "\x1b" not in said
    assert page.evaluate("({}).polluted") is None


def test_a_damaged_run_is_told_and_no_dead_end(look: Look, store: str) -> None:
    recorded(store, record_two)
    damage(store, "second", 4)
    seen = look()
    page = seen.open("/runs/first/compare/second")
    assert "cannot be compared" in page.locator(".notice.bad").inner_text()
    assert page.get_by_role("link", name="second").count() == 1
    assert_accessible(page)


def test_a_run_that_is_not_there(look: Look, store: str) -> None:
    recorded(store, record_two)
    seen = look()
    page = seen.open("/runs/first/compare/none")
    assert page.locator("h1").inner_text() == "Not there"
    seen.complaints.clear()  # the browser says that it was a 404
