"""Measure a run of a thousand events as one HTML file: its size beside its text export, and its verification."""

from __future__ import annotations

import importlib.util
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import onrecord
from bench.measurement import Row, Workplace, use_own_keys
from onrecord.html_export.writer import shared_run, write_share
from onrecord.journal.export import export_run
from onrecord.journal.reader import JournalReader

EVENTS = 1_000
ROOM = 200_000
LONGEST_MS = 200
TASKS = (
    "window.longest = 0; new PerformanceObserver((list) => { for (const one of list.getEntries())"
    " window.longest = Math.max(window.longest, one.duration); }).observe({ type: 'longtask', buffered: true })"
)


@onrecord.tool(kind="model_call", idempotent=True)
def ask(messages: list[dict[str, str]]) -> dict[str, Any]:
    return {"role": "assistant", "content": f"answer {len(messages)}: <b>all is well</b> " * 8}


@onrecord.step
def look_up(number: int) -> dict[str, Any]:
    return {"number": number, "page": "<html><body><p>some words</p></body></html>" * 4}


@onrecord.agent
def plain(turns: int) -> None:
    for turn in range(turns):
        look_up(turn)


@onrecord.agent
def conversation(turns: int) -> None:
    messages = [{"role": "system", "content": "You answer questions. " * 100}]
    for turn in range(turns):
        messages.append({"role": "user", "content": f"question {turn}"})
        messages.append({"role": "assistant", "content": ask(list(messages))["content"]})


def measure_share(workplace: Workplace) -> Iterator[Row]:
    use_own_keys(workplace)
    store = onrecord.open_store(f"sqlite:///{workplace.path('share.db')}", durability="relaxed")
    turns = workplace.count(EVENTS, least=100) // 2
    try:
        for agent in (plain, conversation):
            agent.run(turns, run_id=agent.name, store=store)
            reader = JournalReader(store, agent.name)
            text = export_run(reader, workplace.path(f"{agent.name}.jsonl"))
            path = workplace.path(f"{agent.name}.html")
            size = write_share(shared_run(reader), path)
            yield Row(
                f"HTML share of {reader.head().seq:,} events ({agent.name})",
                f"{size / 1000:,.0f} KB; text export {text / 1000:,.0f} KB: {(size - ROOM) / text:.2f} × + 200 KB",
                "≤ 1.5 × + 200 KB",
                size <= 1.5 * text + ROOM,
            )
            yield from _measure_browser(path, agent.name)
    finally:
        store.close()


def _measure_browser(path: Path, name: str) -> Iterator[Row]:
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None or importlib.util.find_spec("playwright") is None:
        yield Row(f"the same verified in a browser ({name})", "no Chromium or Playwright here", "", None)
        return
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page()
        page.add_init_script(TASKS)
        start = time.perf_counter()
        page.goto(path.as_uri())
        page.wait_for_selector("#verdict[data-state=valid]", timeout=120_000)
        seconds = time.perf_counter() - start
        longest = page.evaluate("window.longest")
        elements = page.evaluate("document.querySelectorAll('*').length")
        browser.close()
    yield Row(
        f"the same opened and verified in Chromium ({name})",
        f"{seconds:.2f} s, longest task {longest:.0f} ms, {elements} elements",
        f"no task over {LONGEST_MS} ms",
        longest <= LONGEST_MS,
    )
