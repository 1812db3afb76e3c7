"""Take the picture of the README: `make pictures` records a small agent and opens the page of its run in Chromium."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, sync_playwright

import onrecord

PICTURES = Path(__file__).parents[1] / "docs" / "pictures"
ANSWERS = (
    "Look the order up and track its parcels.",
    "Two of your three parcels are on their way; the third one is lost.",
)


@onrecord.tool(kind="model_call")
async def ask_model(messages: list[dict[str, str]]) -> dict[str, Any]:
    await asyncio.sleep(0.18)
    said = {"role": "assistant", "content": ANSWERS[len(messages) // 2]}
    usage = {
        "prompt_tokens": 96 + 31 * len(messages),
        "completion_tokens": 24,
        "total_tokens": 120 + 31 * len(messages),
    }
    return {"model": "small", "choices": [{"index": 0, "message": said}], "usage": usage}


@onrecord.step
async def look_up(order: str) -> dict[str, Any]:
    await asyncio.sleep(0.09)
    return {"order": order, "cents": 4200, "carrier": "north post"}


@onrecord.step
async def track(parcel: str) -> str:
    await asyncio.sleep(0.05 * int(parcel[-1]))
    if parcel == "P-3":
        raise LookupError("no parcel P-3 on any tour")
    return f"{parcel} is on tour {parcel[-1]}7"


@onrecord.tool
async def send_mail(to: str, text: str) -> str:
    await asyncio.sleep(0.06)
    return "sent"


@onrecord.agent
async def support(question: str) -> str:
    messages = [{"role": "user", "content": question}]
    plan = (await ask_model(messages))["choices"][0]["message"]
    order = await look_up("A-17")
    found = await asyncio.gather(*(track(f"P-{number}") for number in (1, 2, 3)), return_exceptions=True)
    onrecord.set_state({"order": order["order"], "parcels": [str(one) for one in found]})
    messages += [plan, {"role": "user", "content": "; ".join(map(str, found))}]
    answer = (await ask_model(messages))["choices"][0]["message"]["content"]
    await send_mail("ann@example.com", answer)
    return answer


def record() -> None:
    opened = onrecord.open_store()
    try:
        asyncio.run(support.run("Where is my order A-17?", run_id="support-a17", store=opened))
    finally:
        opened.close()


def run_page(browser: Browser) -> None:
    command = [sys.executable, "-m", "onrecord.cli.main", "serve", "--port", "0", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        said = json.loads(server.stdout.readline())
        page = browser.new_page(viewport={"width": 1280, "height": 820}, color_scheme="light")
        page.goto(said["login_url"])
        page.goto(f"{said['url']}runs/support-a17?seq=12")
        page.get_by_text("verified").first.wait_for()
        page.wait_for_timeout(800)  # the panels load after the list
        page.screenshot(path=PICTURES / "run-page.png")
        server.terminate()


def main() -> None:
    PICTURES.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["ONRECORD_KEY_FILE"] = f"{folder}/keys.json"
        os.environ.pop("ONRECORD_STORE", None)
        os.chdir(folder)
        record()
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
            run_page(browser)
            browser.close()


if __name__ == "__main__":
    main()
