"""A shared file, opened from disk: it verifies itself, shows itself, and notices one byte."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

import onrecord
from kit.browser import NARROW, WIDE, assert_accessible, assert_fits, shot, torn_words
from kit.shared_runs import HOSTILE, record_hostile, record_two, support
from kit.soak import pairs
from onrecord.html_export.comparison import comparison_of
from onrecord.html_export.writer import shared_comparison, shared_run, write_share
from onrecord.journal.export import export_run
from onrecord.journal.import_file import import_file
from onrecord.journal.reader import JournalReader
from onrecord.reports.side_by_side import Side
from onrecord.store.contract import Store

CHECKED = 60_000


@pytest.fixture
def opened(store: str) -> Iterator[Store]:
    made = onrecord.open_store(store)
    yield made
    made.close()


class Files:
    """Opens files from disk, and notices whatever they complain of or ask for."""

    def __init__(self, browser: Browser, stack: ExitStack) -> None:
        self._browser, self._stack = browser, stack
        self.complaints: list[str] = []

    def __call__(self, path: Path, fragment: str = "", *, done: bool = True, **about: Any) -> Page:
        context = self._browser.new_context(**{"viewport": WIDE, **about})
        self._stack.callback(context.close)
        page = context.new_page()
        page.on("pageerror", lambda error: self.complaints.append(f"error: {error}"))
        page.on("console", self._heard)
        page.on("request", lambda asked: self._asked(asked.url, path.as_uri()))
        page.goto(path.as_uri() + fragment)
        if done:
            expect(page.locator("#verdict")).to_have_attribute("data-state", "valid", timeout=CHECKED)
        return page

    def _heard(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(message.text)

    def _asked(self, url: str, own: str) -> None:
        if not url.startswith(own):
            self.complaints.append(f"asked for {url}")


@pytest.fixture
def open_file(browser: Browser) -> Iterator[Files]:
    with ExitStack() as stack:
        files = Files(browser, stack)
        yield files
    assert files.complaints == []


def share(store: Store, run: str = "first") -> Path:
    path = Path(f"{run}.html").absolute()
    write_share(shared_run(JournalReader(store, run)), path)
    return path


def share_both(store: Store, one: str = "first", other: str = "second") -> Path:
    path = Path("both.html").absolute()
    comparison = comparison_of(Side(store, one, "default"), Side(store, other, "default"))
    pieces = shared_comparison(JournalReader(store, one), JournalReader(store, other), comparison)
    write_share(pieces, path)
    return path


def altered(path: Path, before: bytes, after: bytes) -> Path:
    page = path.read_bytes()
    assert len(before) == len(after)
    assert before in page
    made = path.with_name("altered.html")
    made.write_bytes(page.replace(before, after, 1))
    return made


def test_it_verifies_itself_and_shows_its_head(open_file: Files, opened: Store) -> None:
    record_two(opened)
    page = open_file(share(opened))
    head = JournalReader(opened, "first").head()
    said = page.locator("#verdict").inner_text()
    assert f"{head.seq} of {head.seq} events verified" in said
    assert "nothing differs" in said
    assert page.locator(".head-hash").inner_text() == f"{head.seq}:sha256:{head.hash.hex()}"
    given = page.get_by_label("Compare with")
    given.fill(f"sha256:{head.hash.hex()}")
    assert page.locator(".head-answer").inner_text() == "the same"
    given.fill("sha256:" + "0" * 64)
    assert "another one" in page.locator(".head-answer").inner_text()
    assert page.title() == "first · Onrecord"
    shot(page, "share")


REGIONS = {
    "content": (b'"order":"A-17-0"', b'"order":"A-17-9"', "event 1"),
    "shared value": (b"about orders. You", b"about Orders. You", ""),
    "link": (b'"lane":"main","parent":3', b'"lane":"mail","parent":3', "event 4"),
    "header": (b'"namespace":"default"', b'"namespace":"defaulT"', "header"),
    "head": (b'{"end":{"events":', b'{"End":{"events":', "line"),
}


@pytest.mark.parametrize("region", REGIONS)
def test_after_one_byte_it_is_broken_and_says_where(open_file: Files, opened: Store, region: str) -> None:
    record_two(opened)
    before, after, where = REGIONS[region]
    page = open_file(altered(share(opened), before, after), done=False)
    expect(page.locator("#verdict")).to_have_attribute("data-state", "broken", timeout=CHECKED)
    said = page.locator("#verdict").inner_text()
    assert "this is not what was recorded" in said
    assert where in page.locator(".problems").inner_text()
    if region == "content":
        assert_accessible(page)
        assert page.locator(".event[aria-selected=true]").get_attribute("data-seq") == "1", "it is in view"
        assert "does not match the link" in page.locator(".inspected").inner_text()
        shot(page, "share-broken")


def test_an_altered_script_does_not_run_and_nothing_is_called_verified(open_file: Files, opened: Store) -> None:
    record_two(opened)
    path = altered(share(opened), b"Verified in this browser", b"Verified in this Browser")
    page = open_file(path, done=False)
    page.wait_for_load_state()
    assert page.locator("#verdict").get_attribute("data-state") == "none"
    assert "nothing here is checked" in page.locator("#verdict").inner_text()
    assert len(open_file.complaints) == 1
    assert "Content Security Policy" in open_file.complaints.pop()


def test_events_are_walked_and_have_addresses(open_file: Files, opened: Store) -> None:
    record_two(opened)
    path = share(opened)
    page = open_file(path)
    page.locator(".event[data-seq='3']").click()
    assert "ask" in page.locator(".inspected h2").inner_text()
    page.keyboard.press("j")
    assert page.url.endswith("#events-4")
    page.get_by_role("button", name="event 3").click()
    assert page.url.endswith("#events-3")
    page.get_by_role("listbox").focus()
    page.keyboard.press("End")
    last = JournalReader(opened, "first").head().seq
    assert page.url.endswith(f"#events-{last}")
    again = open_file(path, "#events-5")
    assert again.locator(".event[aria-selected=true]").get_attribute("data-seq") == "5"


def test_the_conversation_has_each_message_once(open_file: Files, opened: Store) -> None:
    record_two(opened)
    page = open_file(share(opened))
    page.get_by_role("tab", name="Conversation").click()
    expect(page.locator(".said").first).to_be_visible()
    said = page.locator(".said").all_inner_texts()
    assert len(said) == 1 + 4 * 2
    assert sum("question 0" in one for one in said) == 1
    assert "quick brown fox" in said[-1]
    assert_accessible(page)
    shot(page, "share-conversation")
    page.get_by_role("tab", name="About").click()
    assert "support" in page.locator(".panel").inner_text()


@pytest.mark.parametrize(("colours", "kind"), pairs(["light", "dark"], ["run", "comparison"]))
def test_narrow_in_both_colours_and_for_everybody(open_file: Files, opened: Store, colours: str, kind: str) -> None:
    record_two(opened)
    path = share(opened) if kind == "run" else share_both(opened)
    page = open_file(path, viewport=NARROW, color_scheme=colours)
    assert_fits(page)
    assert_accessible(page)
    tops = page.locator(".brand, #theme").evaluate_all("all => all.map((one) => one.getBoundingClientRect())")
    assert tops[1]["top"] < tops[0]["bottom"], "the button stands beside the name"
    shot(page, f"share-{kind}-narrow-{colours}")
    wide = open_file(path, color_scheme=colours)
    assert_accessible(wide)
    if kind == "run":
        assert torn_words(wide, ".event-kind") == []
    shot(wide, f"share-{kind}-{colours}")


def test_what_was_recorded_is_text(open_file: Files, opened: Store) -> None:
    record_hostile(opened)
    page = open_file(share(opened, "hostile"))
    for number in range(len(HOSTILE)):
        page.locator(".events").evaluate("(list, top) => { list.scrollTop = top }", number * 60)
        page.locator(f".event[data-seq='{2 * number + 2}']").click()
        shown = page.locator("pre.value").inner_text()
        assert "\u202e" not in shown
        assert "\x1b" not in shown
        assert "__proto__" in shown
    page.get_by_role("tab", name="Conversation").click()
    expect(page.locator(".chat")).to_contain_text("</script><script>")
    assert page.title() == "hostile · Onrecord"
    assert page.evaluate("({}).polluted") is None
    assert page.locator("main img, main svg, main iframe, main script").count() == 0
    long = JournalReader(opened, "hostile").head().seq
    assert page.evaluate("document.querySelectorAll('*').length") < 1_500, long


def test_the_comparison_is_shown_and_checked(open_file: Files, opened: Store) -> None:
    record_two(opened)
    path = share_both(opened)
    page = open_file(path)
    assert "The comparison fits both recordings" in page.locator("#verdict").inner_text()
    first = page.locator(".change-row[data-first]")
    assert first.get_attribute("open") is not None
    assert first.locator("del").inner_text() == "quick brown"
    assert first.locator("ins").inner_text() == "slow green"
    page.keyboard.press("n")
    assert page.url.endswith("#comparison-2")
    assert page.locator(".change-row[data-current]").get_attribute("data-number") == "2"
    page.keyboard.press("p")
    first.get_by_role("button", name="of second").click()
    assert page.get_by_role("tab", name="Second run").get_attribute("aria-selected") == "true"
    shot(open_file(path), "share-comparison")


def test_a_fork_and_a_run_that_was_renamed_are_compared(open_file: Files, opened: Store) -> None:
    record_two(opened)
    answer = {"role": "assistant", "content": "no"}
    support.fork("first", change=onrecord.AnotherAnswer(4, answer), fork_id="forked", store=opened)
    page = open_file(share_both(opened, "first", "forked"))
    assert "was not checked" in page.locator("#verdict").inner_text()
    assert page.locator(".change-row[data-first] .change-body").inner_text() != ""
    other = onrecord.open_store("other.db")
    try:
        record_two(other)
        export_run(JournalReader(other, "second"), Path("second.jsonl"))
        renamed = import_file(opened, "second.jsonl").run
    finally:
        other.close()
    assert renamed != "second", "another run has its name"
    page = open_file(share_both(opened, "first", renamed))
    assert "The comparison fits both recordings" in page.locator("#verdict").inner_text()
    assert page.locator(".change-row[data-first]").get_by_role("button").count() == 2


def test_a_comparison_that_says_something_else_is_broken(open_file: Files, opened: Store) -> None:
    record_two(opened)
    path = altered(share_both(opened), b'"status":"changed","reason"', b'"status":"removed","reason"')
    page = open_file(path, done=False)
    expect(page.locator("#verdict")).to_have_attribute("data-state", "broken", timeout=CHECKED)
    assert "what the recordings do not" in page.locator("#verdict").inner_text()


def test_a_long_run_is_checked_in_slices_and_shown_in_a_bounded_page(open_file: Files, opened: Store) -> None:
    record_two(opened, turns=250)
    page = open_file(share(opened), done=False)
    page.evaluate(
        "window.longest = 0; new PerformanceObserver((list) => { for (const one of list.getEntries())"
        " window.longest = Math.max(window.longest, one.duration); }).observe({ type: 'longtask', buffered: true })"
    )
    expect(page.locator("#verdict")).to_have_attribute("data-state", "valid", timeout=CHECKED)
    page.get_by_role("listbox").focus()
    for key in ("End", "Home", "PageDown", "PageDown"):
        page.keyboard.press(key)
    assert page.locator(".event").count() < 100
    assert page.evaluate("document.querySelectorAll('*').length") < 1_000
    print("longest task:", page.evaluate("window.longest"))
