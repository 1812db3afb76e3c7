"""Measure the page of a run of 100,000 events beside one of 1,000, and what fifty followers cost a run."""

from __future__ import annotations

import http.client
import json
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from bench.measurement import Row, Workplace, use_own_keys
from onrecord.core.events import ActionRequested, ActionSucceeded, Completed, StateUpdated
from onrecord.journal.chain import Draft
from onrecord.journal.journal import Journal
from onrecord.store.factory import open_store

SHORT, LONG = 1_000, 100_000
FOLLOWERS = 50
ROUNDS = 7
OBSERVE_TASKS = """
window.longest = 0;
new PerformanceObserver((list) => {
  for (const one of list.getEntries()) window.longest = Math.max(window.longest, one.duration);
}).observe({ type: "longtask", buffered: true });
"""
DRAIN = """
import selectors, socket, sys
host, port, head, count = sys.argv[1], int(sys.argv[2]), sys.argv[3].encode().decode("unicode_escape"), int(sys.argv[4])
waiting = selectors.DefaultSelector()
for _ in range(count):
    one = socket.create_connection((host, port))
    one.sendall(head.encode())
    one.recv(65536)
    waiting.register(one, selectors.EVENT_READ)
print("ready", flush=True)
while True:
    for key, _ in waiting.select():
        if not key.fileobj.recv(1 << 20):
            sys.exit()
"""


def measure_run_page(workplace: Workplace) -> Iterator[Row]:
    use_own_keys(workplace)
    path = workplace.path("pages.db")
    lengths = {SHORT: "short", workplace.count(LONG, least=20_000): "long"}
    for events, run in lengths.items():
        _record_run(path, run, events)
    with _start_server(path) as served:
        yield _measure_serving(served, lengths)
        if _find_browser() is None:
            yield Row("the page in a browser", "no Chromium here", "", None)
        else:
            yield from _measure_browser(served, lengths)
    yield _measure_followers(workplace)


def _record_run(path: Path, run: str, events: int) -> None:
    store = open_store(str(path), durability="relaxed")
    with Journal.create(store, run, facts={"agent": "bench"}) as journal:
        for start in range(0, events - 10, 1_000):
            batch: list[Any] = []
            for number in range(start // 10, min(start + 1_000, events - 10) // 10):
                batch += _make_turn(number)
            journal.append(batch)
        journal.append([Completed(output="")])
    store.close()


def _make_turn(number: int) -> list[Any]:
    lane, action = f"0.{number % 7}", f"a{number}"
    request = {"messages": [{"role": "user", "content": f"question {number}"}], "model": "gpt-4o"}
    answer = {"choices": [{"message": {"content": "x" * 300}}], "usage": {"total_tokens": 15}}
    return [
        Draft(ActionRequested(action_id=action, payload=request, name="ask", effect="model_call"), lane=lane),
        Draft(ActionSucceeded(action_id=action, output=answer), parent=number * 10 + 1, lane=lane),
        *(StateUpdated(payload={"turn": number, "part": part}) for part in range(8)),
    ]


class _ServerProcess:
    def __init__(self, started: dict[str, Any], process: subprocess.Popen[str]) -> None:
        self.url, self.login_url, self.token = started["url"].rstrip("/"), started["login_url"], started["token"]
        self.address = urlsplit(self.url)
        self.process = process

    def get(self, path: str) -> int:
        connection = http.client.HTTPConnection(self.address.hostname or "", self.address.port)
        connection.request("GET", path, headers={"Authorization": f"Bearer {self.token}"})
        answer = connection.getresponse()
        body = answer.read()
        connection.close()
        if answer.status != 200:
            raise SystemExit(f"{path}: {answer.status}")
        return len(body)

    def processor_seconds(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / 100


@contextmanager
def _start_server(path: Path) -> Iterator[_ServerProcess]:
    command = [sys.executable, "-m", "onrecord.cli.main", "--store", str(path), "serve", "--port", "0", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield _ServerProcess(json.loads(process.stdout.readline()), process)
        finally:
            process.terminate()


def _measure_serving(served: _ServerProcess, lengths: dict[int, str]) -> Row:
    """Measure the requests that a browser makes before the first scroll."""
    times: dict[str, list[float]] = {run: [] for run in lengths.values()}
    for _ in range(ROUNDS):
        for run in lengths.values():
            api = f"/api/v1/runs/{run}"
            before = served.processor_seconds()
            for _ in range(20):
                for path in (f"/runs/{run}", f"{api}/spans?from=1", f"{api}/overview", f"{api}/standing"):
                    served.get(path)
            times[run].append(served.processor_seconds() - before)
    short, long = (statistics.median(found) / 20 * 1e3 for found in times.values())
    events = list(lengths)
    return Row(
        f"serving the page of a run of {events[1]:,} events, against one of {events[0]:,}",
        f"{long / short:.2f} × ({long:.1f} ms of processor time; {short:.1f} ms)",
        "≤ 1.5 ×",
        long / short <= 1.5,
    )


def _find_browser() -> str | None:
    from shutil import which

    return which("chromium") or which("chromium-browser") if find_spec("playwright") is not None else None


def _measure_browser(served: _ServerProcess, lengths: dict[int, str]) -> Iterator[Row]:
    from playwright.sync_api import sync_playwright

    times: dict[str, list[float]] = {run: [] for run in lengths.values()}
    longest: list[float] = []
    elements = received = 0
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=_find_browser(), args=["--no-sandbox", "--disable-gpu"])
        context = browser.new_context(viewport={"width": 1280, "height": 800})
        context.add_init_script(OBSERVE_TASKS)
        context.new_page().goto(served.login_url)
        for _ in range(ROUNDS):
            for run in times:
                page = context.new_page()
                sizes: list[float] = []
                session = context.new_cdp_session(page)
                session.send("Network.enable")
                session.on(
                    "Network.loadingFinished", lambda event, sizes=sizes: sizes.append(event["encodedDataLength"])
                )
                start = time.perf_counter()
                page.goto(f"{served.url}/runs/{run}?seq=500")
                page.locator("#side h2").wait_for()
                times[run].append(time.perf_counter() - start)
                page.wait_for_load_state("networkidle")
                received = max(received, int(sum(sizes)))
                for _ in range(30):
                    page.evaluate("document.getElementById('fall').scrollTop += 7001")
                    page.wait_for_timeout(20)
                    elements = max(elements, page.evaluate("document.getElementsByTagName('*').length"))
                longest.append(page.evaluate("window.longest"))
                page.close()
        browser.close()
    short, long = times.values()
    ratio = statistics.median(long) / statistics.median(short)
    yield Row(
        "opening it in Chromium until an event can be read, against the short one",
        f"{ratio:.2f} × ({statistics.median(long) * 1e3:.0f} ms; {statistics.median(short) * 1e3:.0f} ms)",
        "≤ 1.5 ×",
        ratio <= 1.5,
    )
    yield Row("transferred before the first scroll", f"{received / 1e3:.0f} KB", "≤ 1,000 KB", received <= 1_000_000)
    yield Row(
        "elements of the page while it is scrolled through, at most", f"{elements:,}", "bounded", elements < 1_500
    )
    worst = statistics.median(longest)
    yield Row(
        "longest task, median over visits", f"{worst:.0f} ms (worst {max(longest):.0f} ms)", "≤ 200 ms", worst <= 200
    )


def _measure_followers(workplace: Workplace) -> Row:
    """Measure one writer in rounds with and without fifty followers."""
    path = workplace.path("followed.db")
    store = open_store(str(path))
    count = workplace.count(1_000, least=200)
    walls: list[list[float]] = [[], []]
    spent: list[list[float]] = [[], []]
    serving = [0.0, 0.0]
    with Journal.create(store, "live", facts={"agent": "bench"}) as journal, _start_server(path) as served:
        number = 0
        for turn in range(ROUNDS):
            for followed in (False, True) if turn % 2 else (True, False):
                with ExitStack() as stack:
                    if followed:
                        stack.enter_context(_start_followers(served, number * 10))
                    before = served.processor_seconds()
                    wall, cpu = time.perf_counter(), time.thread_time()
                    for _ in range(count // 10):
                        for draft in _make_turn(number):
                            journal.append(draft)
                        number += 1
                    spent[followed].append(time.thread_time() - cpu)
                    walls[followed].append(time.perf_counter() - wall)
                    serving[followed] += served.processor_seconds() - before
    store.close()
    ratio = statistics.median(a / b for a, b in zip(*walls, strict=True))
    own = statistics.median(a / b for a, b in zip(*spent, strict=True))
    rate = count / statistics.median(walls[1])
    return Row(
        f"recording while {FOLLOWERS} follow the run, against no followers, events a second",
        f"{ratio:.2f} × ({rate:,.0f} a second; by the writer's own processor time {own:.2f} ×; the server spends "
        f"{serving[1] / ROUNDS / count * 1e6:.0f} µs an event on all of them)",
        "≥ 0.9 ×",
        ratio >= 0.9,
    )


@contextmanager
def _start_followers(served: _ServerProcess, after: int) -> Iterator[None]:
    """Start followers in one process. They read and discard everything."""
    host, port = served.address.hostname or "", served.address.port or 0
    head = (
        f"GET /api/v1/runs/live/follow?after={after}&brief=true HTTP/1.1\\r\\nHost: {host}:{port}\\r\\n"
        f"Authorization: Bearer {served.token}\\r\\n\\r\\n"
    )
    socket.create_connection((host, port)).close()
    command = [sys.executable, "-c", DRAIN, host, str(port), head, str(FOLLOWERS)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield
        finally:
            process.terminate()
