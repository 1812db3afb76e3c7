"""The pictures of the README, made from a real run: `make pictures`.

A small agent is recorded twice, with one answer of its model changed. The page of the first run is opened in Chromium;
`reenact diff` is run in a terminal, and what it wrote is shown in its colours.
"""

from __future__ import annotations

import asyncio
import html
import json
import os
import pty
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
from fcntl import ioctl
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, sync_playwright

import reenact

PICTURES = Path(__file__).parents[1] / "docs" / "pictures"
COLUMNS, LINES = 118, 30
_SGR = re.compile(r"\x1b\[([0-9;]*)m")
_OTHER = re.compile(r"\x1b\[[0-9;?]*[A-Za-ln-z]")
_COLOURS = {31: "#ff9b93", 32: "#7fdba4", 33: "#f0bd6e", 34: "#8fb7ff", 35: "#d9a4f5", 36: "#7fd8e0", 90: "#8a93a5"}
_STYLES = {1: "font-weight:600", 2: "opacity:.65", 4: "text-decoration:underline", 7: "background:#39415a"}
_PAGE = """<!doctype html><meta charset="utf-8"><body style="margin:0;background:#0f1218">
<pre id="shot" style="margin:0;padding:18px 22px;display:inline-block;background:#12151b;color:#e7eaf0;
width:119.5ch;white-space:pre-wrap;word-break:break-all;box-sizing:content-box;
font:13.5px/1.5 'DejaVu Sans Mono',monospace">{}</pre>"""

answers: list[str] = []


@reenact.tool(kind="model_call")
async def ask_model(messages: list[dict[str, str]]) -> dict[str, Any]:
    await asyncio.sleep(0.18)
    said = {"role": "assistant", "content": answers[len(messages) // 2]}
    usage = {
        "prompt_tokens": 96 + 31 * len(messages),
        "completion_tokens": 24,
        "total_tokens": 120 + 31 * len(messages),
    }
    return {"model": "small", "choices": [{"index": 0, "message": said}], "usage": usage}


@reenact.step
async def look_up(order: str) -> dict[str, Any]:
    await asyncio.sleep(0.09)
    return {"order": order, "cents": 4200, "carrier": "north post"}


@reenact.step
async def track(parcel: str) -> str:
    await asyncio.sleep(0.05 * int(parcel[-1]))
    if parcel == "P-3":
        raise LookupError("no parcel P-3 on any tour")
    return f"{parcel} is on tour {parcel[-1]}7"


@reenact.tool
async def send_mail(to: str, text: str) -> str:
    await asyncio.sleep(0.06)
    return "sent"


@reenact.agent
async def support(question: str) -> str:
    messages = [{"role": "user", "content": question}]
    plan = (await ask_model(messages))["choices"][0]["message"]
    order = await look_up("A-17")
    found = await asyncio.gather(*(track(f"P-{number}") for number in (1, 2, 3)), return_exceptions=True)
    reenact.set_state({"order": order["order"], "parcels": [str(one) for one in found]})
    messages += [plan, {"role": "user", "content": "; ".join(map(str, found))}]
    answer = (await ask_model(messages))["choices"][0]["message"]["content"]
    await send_mail("ann@example.com", answer)
    return answer


def record() -> None:
    opened = reenact.open_store()
    try:
        for run, last in (
            ("support-a17", "Two of your three parcels are on their way; the third one is lost."),
            ("support-a17-again", "Two of your three parcels are on their way; the third one arrives on Monday."),
        ):
            answers[:] = ["Look the order up and track its parcels.", last]
            asyncio.run(support.run("Where is my order A-17?", run_id=run, store=opened))
    finally:
        opened.close()


def run_page(browser: Browser) -> None:
    command = [sys.executable, "-m", "reenact.cli.main", "serve", "--port", "0", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        said = json.loads(server.stdout.readline())
        page = browser.new_page(viewport={"width": 1280, "height": 820}, color_scheme="light")
        page.goto(said["login_url"])
        page.goto(f"{said['url']}runs/support-a17?seq=12")
        page.get_by_text("verified").first.wait_for()
        page.wait_for_timeout(800)  # for what comes in behind it
        page.screenshot(path=PICTURES / "run-page.png")
        server.terminate()


def in_a_terminal(*command: str) -> str:
    """What it writes there."""
    master, slave = pty.openpty()
    ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
    with subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave) as process:
        os.close(slave)
        written = b""
        while True:
            try:
                part = os.read(master, 65536)
            except OSError:  # nobody has the other end any more
                break
            written += part
        process.wait()
    os.close(master)
    return written.decode()


def coloured(text: str) -> str:
    """As HTML: colours and weights, and nothing else that a terminal does."""
    made, active = [], set[int]()
    for part in re.split(r"(\x1b\[[0-9;]*m)", _OTHER.sub("", text.replace("\r", ""))):
        sgr = _SGR.fullmatch(part)
        if sgr is None:
            styles = [f"color:{_COLOURS[code]}" for code in active if code in _COLOURS]
            styles += [_STYLES[code] for code in active if code in _STYLES]
            made.append(f'<span style="{";".join(styles)}">{html.escape(part)}</span>' if styles else html.escape(part))
            continue
        for code in map(int, filter(None, (sgr[1] or "0").split(";"))):
            active = set() if code == 0 else {one for one in active if code not in (22, 24, 27, 39)} | {code}
    return "".join(made)


def terminal(browser: Browser) -> None:
    runs = ("support-a17", "support-a17-again")
    written = in_a_terminal(sys.executable, "-m", "reenact.cli.main", "diff", *runs)
    text = f"\x1b[2m$\x1b[0m reenact diff {runs[0]} {runs[1]}\n{written.rstrip()}"
    page = browser.new_page(device_scale_factor=1.25)
    page.set_content(_PAGE.format(coloured(text)))
    page.locator("#shot").screenshot(path=PICTURES / "diff-terminal.png")


def main() -> None:
    PICTURES.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["REENACT_KEY_FILE"] = f"{folder}/keys.json"
        os.environ.pop("REENACT_STORE", None)
        os.chdir(folder)
        record()
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
            run_page(browser)
            terminal(browser)
            browser.close()


if __name__ == "__main__":
    main()
