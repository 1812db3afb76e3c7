"""The list of runs in a browser."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
from playwright.sync_api import expect

from kit.browser import MIDDLE, NARROW, Looking, assert_accessible, assert_fits, shot, torn_words
from kit.lists_page import HOSTILE, failed, in_doubt, record, recorded
from kit.soak import cases
from onrecord.core.events import Completed, StateUpdated
from onrecord.journal.journal import Journal
from onrecord.runtime.forks.fork import begin_fork
from onrecord.store.factory import open_store

Look = Callable[..., Looking]


@pytest.fixture
def look(look: Look) -> Look:
    """Begin at the list of runs."""
    return partial(look, arrives=True)


@pytest.fixture
def some(store: str) -> None:
    for number in range(6):
        usage = {"input_tokens": 900 + number, "output_tokens": 100, "cost": 0.25 * number}
        record(store, f"order-{number}", agent=("support", "till")[number % 2], usage=usage)
    failed(store, "broken-1")
    in_doubt(store, "doubt-1")


def shown(look: Looking) -> list[str]:
    return look.page.locator("tbody tr").evaluate_all("rows => rows.map(row => row.dataset.run)")


@pytest.mark.usefixtures("some")
def test_runs_are_listed_with_what_they_used(look: Look) -> None:
    seen = look()
    seen.page.wait_for_selector("#live:not([hidden])")
    expect(seen.page.locator("tr[data-run=order-5]")).to_contain_text("$1.25")
    row = seen.page.locator("tr[data-run=order-5]").inner_text()
    assert "1,005" in row
    assert "till" in row
    assert seen.page.locator("tr[data-run=doubt-1] .badge").inner_text() == "in doubt"
    assert "send_mail" in seen.page.locator("tr[data-run=doubt-1]").inner_text()
    assert_accessible(seen.page)
    shot(seen.page, "runs-list")


def test_between_narrow_and_wide_no_word_is_torn(look: Look, store: str) -> None:
    record(store, "a-name-as-given", usage={"input_tokens": 1, "output_tokens": 1, "cost": 0.00004})
    page = look(viewport=MIDDLE).page
    expect(page.locator("tbody tr")).to_contain_text("<$0.0001")
    expect(page.locator("tbody tr")).to_contain_text("a-name-as-given")
    assert torn_words(page, "#runs td:first-child a, #runs td:nth-child(3)") == []
    assert_fits(page)


def test_a_fork_is_marked_as_one(look: Look, store: str) -> None:
    record(store, "first")
    opened = open_store(store)
    begin_fork(opened, "first", 2, run_id="other-way")
    opened.close()
    seen = look()
    mark = seen.page.locator("tr[data-run=other-way] .chip")
    expect(mark).to_have_text("fork")
    assert mark.get_attribute("title") == "of first, at 2"
    assert seen.page.locator("tr[data-run=first] .chip").count() == 0
    seen.page.wait_for_selector("#live:not([hidden])")
    opened = open_store(store)
    begin_fork(opened, "first", 1, run_id="third-way")
    opened.close()
    expect(seen.page.locator("tr[data-run=third-way] .chip")).to_have_text("fork")


@pytest.mark.usefixtures("some")
def test_filters_are_the_address(look: Look) -> None:
    seen = look()
    page = seen.page
    page.get_by_label("failed", exact=True).check()
    page.wait_for_url("**/?status=failed")
    assert shown(seen) == ["broken-1"]
    page.get_by_label("Agent").select_option("support")
    page.wait_for_url("**/?status=failed&agent=support")
    page.go_back()
    page.go_back()
    assert len(shown(seen)) == 8
    seen.open("/?min_cost=0.5&max_cost=1")
    assert sorted(shown(seen)) == ["order-2", "order-3", "order-4"]
    page.get_by_role("link", name="Clear").click()
    assert len(shown(seen)) == 8
    seen.open("/?within=1h&agent=till")
    assert sorted(shown(seen)) == ["doubt-1", "order-1", "order-3", "order-5"]
    seen.open("/?status=cancelled")
    expect(page.get_by_role("heading", name="No run is like that")).to_be_visible()


@pytest.mark.usefixtures("some")
def test_the_keyboard_walks_and_opens(look: Look) -> None:
    page = look().page
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("k")
    assert page.evaluate("document.activeElement.closest('tr').dataset.run") == "doubt-1"
    page.keyboard.press("Enter")
    page.wait_for_url("**/runs/doubt-1")


def test_pages_go_on_by_cursor(look: Look, store: str) -> None:
    opened = open_store(store, durability="relaxed")
    for number in range(130):
        with Journal.create(opened, f"run-{number:03}", facts={"agent": "a"}) as journal:
            journal.append([Completed(output=number)])
    opened.close()
    seen = look()
    first = shown(seen)
    assert len(first) == 100
    seen.page.get_by_role("link", name="Older runs").click()
    seen.page.wait_for_url("**/?cursor=*")
    rest = shown(seen)
    assert sorted(first + rest) == [f"run-{number:03}" for number in range(130)]
    seen.page.get_by_role("link", name="Newest").click()
    assert shown(seen) == first


def test_runs_appear_and_change_while_somebody_looks(look: Look, store: str) -> None:
    record(store, "before")
    seen = look()
    page = seen.page
    page.wait_for_selector("#live:not([hidden])")
    page.evaluate("window.kept = true")
    opened = open_store(store)
    with Journal.create(opened, "live-1", facts={"agent": "newcomer"}) as journal:
        journal.append([StateUpdated(payload=1)])
        expect(page.locator("tr[data-run=live-1] .badge")).to_have_text("running")
        assert shown(seen) == ["live-1", "before"]
        journal.append([StateUpdated(payload=2), Completed(output=None)])
    opened.close()
    expect(page.locator("tr[data-run=live-1] .badge")).to_have_text("completed")
    expect(page.locator("tr[data-run=live-1] td").nth(3)).to_have_text("3")
    assert page.evaluate("window.kept") is True, "without loading the page again"


def test_new_runs_do_not_move_what_somebody_reads(look: Look, store: str) -> None:
    for number in range(60):
        recorded(store, f"run-{number:02}", [Completed(output=1)], "a")
    seen = look()
    page = seen.page
    page.wait_for_selector("#live:not([hidden])")
    page.evaluate("scrollTo(0, 600)")
    before = page.evaluate("document.querySelector('tr[data-run=run-30]').getBoundingClientRect().top")
    record(store, "newcomer")
    page.wait_for_selector("#fresh:not([hidden])")
    assert page.locator("#fresh").inner_text() == "1 new run"
    assert page.evaluate("document.querySelector('tr[data-run=run-30]').getBoundingClientRect().top") == before
    page.locator("#fresh").click()
    assert shown(seen)[0] == "newcomer"


def test_a_page_that_nobody_looks_at_catches_up(look: Look, store: str) -> None:
    record(store, "before")
    seen = look()
    page = seen.page
    page.wait_for_selector("#live:not([hidden])")
    hide = "hidden => { Object.defineProperty(document, 'hidden', {value: hidden, configurable: true});"
    hide += " document.dispatchEvent(new Event('visibilitychange')); }"
    page.evaluate(hide, True)
    record(store, "meanwhile")
    page.wait_for_timeout(1_500)
    assert shown(seen) == ["before"], "it follows nothing"
    page.evaluate(hide, False)
    expect(page.locator("tr[data-run=meanwhile]")).to_be_visible()


def test_a_filtered_list_shows_only_what_is_wanted(look: Look, store: str) -> None:
    failed(store, "old")
    seen = look()
    page = seen.open("/?status=failed")
    page.wait_for_selector("#live:not([hidden])")
    record(store, "fine-1")
    failed(store, "new")
    expect(page.locator("tr[data-run=new]")).to_be_visible()
    assert shown(seen) == ["new", "old"]


def test_an_empty_store_says_how_to_begin(look: Look, store: str) -> None:
    open_store(store).close()
    seen = look()
    expect(seen.page.get_by_role("heading", name="Nothing has been recorded yet")).to_be_visible()
    assert_accessible(seen.page)
    shot(seen.page, "runs-empty")
    seen.page.wait_for_selector("#live:not([hidden])")
    record(store, "first")
    expect(seen.page.locator("tr[data-run=first]")).to_be_visible()
    expect(seen.page.locator("#none")).to_be_hidden()


def test_hostile_names_are_shown_as_text(look: Look, store: str) -> None:
    for number, text in enumerate(HOSTILE):
        record(store, f"bad-{number}", text, agent=text)
        in_doubt(store, f"doubt-{number}", name=text)
    seen = look()
    page = seen.page
    page.wait_for_selector("#live:not([hidden])")
    for number, text in enumerate(HOSTILE[:-1]):
        record(store, f"live-{number}", text, agent=text)
    expect(page.locator("tr[data-run=live-8]")).to_be_visible()
    assert page.title() == "Runs · Onrecord"
    assert page.locator("main img, main script, main svg").count() == 0
    text = page.locator("main").inner_text()
    assert "<script>document.title='run'</script>" in text
    assert "\u202e" not in text
    assert "\\u202etxt.exe" in text
    assert "\x1b" not in text
    assert len(page.content()) < 500_000
    assert_fits(page)


@pytest.mark.usefixtures("some")
@pytest.mark.parametrize("colours", cases(["light"], ["dark"]))
def test_narrow_and_in_both_colours(look: Look, colours: str) -> None:
    page = look(viewport=NARROW, color_scheme=colours).page
    assert_fits(page)
    assert_accessible(page)
    shot(page, f"runs-list-narrow-{colours}")


@pytest.mark.usefixtures("some")
def test_it_can_be_read_without_scripts(look: Look) -> None:
    seen = look(java_script_enabled=False)
    assert seen.page.locator("tbody tr").count() == 8
    seen.page.get_by_label("Agent").select_option("support")
    seen.page.get_by_role("button", name="Filter").click()
    assert seen.page.locator("tbody tr").count() == 4


@pytest.mark.usefixtures("some")
def test_nothing_jumps_when_the_page_comes_to_life(look: Look) -> None:
    page = look().page
    page.wait_for_selector("#live:not([hidden])")
    shifts = page.evaluate(
        "new Promise(done => { let sum = 0;"
        " new PerformanceObserver(list => list.getEntries().forEach(one => sum += one.value))"
        ".observe({type: 'layout-shift', buffered: true}); setTimeout(() => done(sum), 300); })"
    )
    assert shifts < 0.01
