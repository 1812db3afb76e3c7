"""The report on a live replay: its verdict, its plots, and the steps behind them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import expect

import onrecord
from kit.browser import MIDDLE, NARROW, Looking, assert_accessible, assert_fits, shot, torn_words
from kit.shared_runs import HOSTILE, damage
from kit.soak import cases

Look = Callable[..., Looking]


class Models:
    factor = 1.0


@onrecord.tool(kind="model_call", idempotent=True)
def ask(question: str) -> dict[str, Any]:
    tokens = int(100 * len(question) * Models.factor)
    return {
        "text": "Yes.",
        "model": "gpt-4o-mini",
        "usage": {"prompt_tokens": tokens, "completion_tokens": 5, "total_tokens": tokens + 5},
    }


@onrecord.tool
def mail(text: str) -> str:
    return "sent"


@onrecord.agent
def support(turns: int) -> str:
    for turn in range(turns):
        mail(ask("?" * (turn + 1))["text"])
    return "done"


@onrecord.tool(kind="model_call", idempotent=True, name=HOSTILE[2])
def strange(text: str) -> str:
    return text + str(Models.factor)


@onrecord.agent
def strange_agent(name: str) -> str:
    for text in HOSTILE:
        strange(text)
    return name


@pytest.fixture(autouse=True)
def recorded(store: str) -> None:
    opened = onrecord.open_store(store)
    try:
        Models.factor = 1.0
        support.run(8, run_id="recorded", store=opened)
        support.run(100, run_id="long", store=opened)
        strange_agent.run("x", run_id="strange", store=opened)
        Models.factor = 1.25
        support.replay_live("recorded", live_run_id="again", store=opened)
        support.replay_live("long", live_run_id="long-again", store=opened)
        strange_agent.replay_live("strange", live_run_id="strange-again", store=opened)
    finally:
        opened.close()


def test_the_verdict_the_drift_and_the_steps(look: Look) -> None:
    page = look().open("/runs/recorded/replay/again")
    assert page.locator(".badge").first.inner_text() == "broken", "nothing is tolerated unless somebody says so"
    tokens = page.locator(".plot[data-measure=tokens]")
    assert "3,640 → 4,540 +25 %" in tokens.inner_text()
    picture = tokens.get_by_role("img")
    assert picture.get_attribute("aria-label") == "tokens of 8 steps, 8 differ; most at step 15: 805 to 1,005"
    assert picture.locator("circle").count() == 16
    tokens.get_by_text("As a table").click()
    assert tokens.locator("tbody tr").first.inner_text().split() == ["1", "ask", "105", "130"]
    steps = page.locator("table.steps tbody tr")
    assert steps.count() == 17
    assert "replay_token_drift" in steps.first.inner_text()
    assert "served" in steps.nth(1).inner_text()
    assert_accessible(page)
    shot(page, "replay")
    page.get_by_role("link", name="event 3", exact=True).click()
    assert page.url.endswith("/runs/recorded?seq=3")


def test_a_dot_leads_to_its_step_and_the_report_to_the_comparison(look: Look) -> None:
    page = look().open("/runs/recorded/replay/again")
    page.locator(".plot[data-measure=tokens] circle").nth(15).click()
    assert page.url.endswith("#step-15")
    expect(page.locator("#step-15")).to_be_in_viewport()
    page.locator("#step-15 a.why").click()
    expect(page.locator(".change-row[data-current]")).to_be_in_viewport()
    assert "805" in page.locator(".change-row[data-current] .differences").inner_text(), "the answer of that step"
    page.go_back()
    page.get_by_role("link", name="Compare event by event").click()
    assert "/runs/recorded/compare/again" in page.url


def test_many_steps_are_drawn_as_lines(look: Look) -> None:
    page = look().open("/runs/long/replay/long-again")
    tokens = page.locator(".plot[data-measure=tokens]")
    expect(tokens.locator("path")).to_have_count(2)
    assert tokens.locator("circle").count() == 0
    assert page.locator("table.steps tbody tr").count() == 201
    page = look().open("/runs/long/replay/long-again?limit=50&after=50")
    assert page.locator("table.steps tbody tr").first.get_attribute("id") == "step-51"
    page.get_by_role("link", name="Later steps").click()
    assert "after=100" in page.url


@pytest.mark.parametrize("colours", cases(["light"], ["dark"]))
def test_narrow_and_in_both_colours(look: Look, colours: str) -> None:
    page = look(viewport=NARROW, color_scheme=colours).open("/runs/recorded/replay/again")
    expect(page.locator(".plot svg").first).to_be_visible()
    assert_fits(page)
    assert_accessible(page)
    shot(page, f"replay-narrow-{colours}")


def test_between_narrow_and_wide_it_fits_and_no_word_is_torn(look: Look) -> None:
    page = look(viewport=MIDDLE).open("/runs/recorded/replay/again")
    expect(page.locator(".plot svg").first).to_be_visible()
    assert_fits(page)
    assert torn_words(page, "table.steps strong, table.steps td:first-child, table.steps .whole") == []
    shot(page, "replay-middle")


def test_what_did_not_change_is_seen_of_both_runs(look: Look, store: str) -> None:
    Models.factor = 1.0
    opened = onrecord.open_store(store)
    support.replay_live("recorded", live_run_id="same", store=opened)
    opened.close()
    plot = look().open("/runs/recorded/replay/same").locator(".plot[data-measure=tokens]")
    was, came = plot.locator("circle.was").first, plot.locator("circle.came").first
    assert was.get_attribute("cy") == came.get_attribute("cy")
    assert float(was.get_attribute("r") or 0) > float(came.get_attribute("r") or 0), "the one does not hide the other"
    assert was.evaluate("one => getComputedStyle(one).fill") == "none"


def test_what_was_recorded_is_text(look: Look) -> None:
    page = look().open("/runs/strange/replay/strange-again")
    assert HOSTILE[2] in page.locator("table.steps tbody").inner_text()
    assert page.locator("main img, main iframe").count() == 0
    assert page.title() == "Replay of strange · Onrecord"
    said = page.locator("main").inner_text()
    assert "\u202e" not in said


def test_a_damaged_replay_is_told(look: Look, store: str) -> None:
    damage(store, "again", 2)
    seen = look()
    page = seen.open("/runs/recorded/replay/again")
    assert "cannot be judged" in page.locator(".notice.bad").inner_text()
    assert_accessible(page)
