"""Runs to look at, and what the tests of the run page share."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from playwright.sync_api import Page

import onrecord
from kit.browser import Looking
from onrecord.core.events import ActionRequested, ActionSucceeded, Completed, StateUpdated
from onrecord.journal.chain import Draft
from onrecord.journal.journal import Journal
from onrecord.store.factory import open_store

Look = Callable[..., Looking]
EVENTS = 24
"""Of the run that `record_support` makes."""


@onrecord.tool(kind="model_call", idempotent=True)
async def ask(messages: list[dict[str, Any]], model: str = "gpt-4o") -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": f"I looked at {len(messages)} messages."}
    if len(messages) == 2:
        call = {"id": "c1", "type": "function", "function": {"name": "look_up", "arguments": '{"order": "A-17"}'}}
        message = {"role": "assistant", "content": None, "tool_calls": [call]}
    usage = {"prompt_tokens": 40 * len(messages), "completion_tokens": 31}
    return {"choices": [{"message": message}], "usage": usage, "model": model}


@onrecord.step
async def look_up(order: str) -> dict[str, Any]:
    await asyncio.sleep(0.03)  # a bar that is more than a line
    return {"order": order, "cents": 4200}


@onrecord.tool(idempotent=True)
async def fetch(url: str) -> dict[str, Any]:
    if "bad" in url:
        raise ConnectionError("no route to host")
    return {"url": url, "bytes": b"x" * 100_000}


@onrecord.agent
async def support(order: str) -> str:
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "You are the support agent of a small bookshop."},
        {"role": "user", "content": f"Where is {order}?"},
    ]
    for turn in range(3):
        message = (await ask(messages=list(messages)))["choices"][0]["message"]
        messages.append(message)
        if message.get("tool_calls"):
            found = await look_up(order)
            messages.append({"role": "tool", "tool_call_id": "c1", "content": json.dumps(found)})
        else:
            messages.append({"role": "user", "content": f"And then, after turn {turn}?"})
        onrecord.set_state({"turn": turn, "order": order})
        await asyncio.gather(*(_fetched(name) for name in ("one", "bad")))
    return "done"


async def _fetched(name: str) -> Any:
    try:
        return await fetch(f"https://example.com/{name}")
    except ConnectionError:
        return None


@onrecord.agent
def patient() -> Any:
    return onrecord.wait_for("approval")


def record_support(store: str, run: str = "support-one") -> None:
    opened = open_store(store)
    try:
        with ThreadPoolExecutor(1) as elsewhere:  # a loop runs in this thread: that of the browser
            elsewhere.submit(lambda: asyncio.run(support.run("A-17", run_id=run, store=opened))).result()
    finally:
        opened.close()


def record_many(store: str, run: str, events: int) -> None:
    """A run of exactly so many events: model calls in seven lanes, and states between them."""
    opened = open_store(store, durability="relaxed")
    try:
        with Journal.create(opened, run, facts={"agent": "long haul"}) as journal:
            batch: list[Any] = []
            for number in range((events - 1) // 10):
                batch += turn(number)
                if len(batch) >= 1_000:
                    journal.append(batch)
                    batch = []
            journal.append(
                [*batch, *(StateUpdated(payload={}) for _ in range((events - 1) % 10)), Completed(output="")]
            )
    finally:
        opened.close()


def turn(number: int) -> list[Any]:
    """Ten events."""
    lane, action = f"main>a#{number % 7 + 1}", f"a{number}"
    asked = {"messages": [{"role": "user", "content": f"question {number}"}], "model": "gpt-4o"}
    answer = {
        "choices": [{"message": {"role": "assistant", "content": f"answer {number}"}}],
        "usage": {"total_tokens": 15},
    }
    request = ActionRequested(action_id=action, payload=asked, name="ask", effect="model_call")
    return [
        Draft(request, lane=lane, key=f"{lane}/ask/{number // 7}"),
        Draft(ActionSucceeded(action_id=action, output=answer), parent=number * 10 + 1, lane=lane),
        *(StateUpdated(payload={"turn": number, "part": part}) for part in range(8)),
    ]


def opened(look: Looking, path: str) -> Page:
    """The page, once its script has begun."""
    page = look.open(path)
    page.wait_for_selector("html[data-ready]")
    return page


def side(page: Page, text: str) -> str:
    """What the event that is looked at says, once it says that."""
    page.locator("#side").get_by_text(text).first.wait_for()
    return page.locator("#side").inner_text()


def chosen(page: Page) -> int:
    return int(page.locator("#fall .chosen").get_attribute("aria-rowindex") or 0)
