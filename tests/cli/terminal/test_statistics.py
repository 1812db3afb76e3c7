"""`onrecord stats`: the numbers are right, and fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kit.cli import assert_two_lines, flip_content, onrecord, onrecord_json, onrecord_process, opened, record
from kit.numbered_server import Server
from kit.terminal import shown
from onrecord.cli.commands.stats import sparkline
from onrecord.core.events import (
    ActionDenied,
    ActionFailed,
    ActionRequested,
    ActionSucceeded,
    Completed,
    WaitCreated,
    WaitResolved,
)
from onrecord.journal.chain import Draft
from onrecord.journal.journal import Journal
from onrecord.journal.sources import SystemSources


class Ticking(SystemSources):
    """A clock that goes on by what the test says."""

    at = 1_800_000_000_000_000

    def now_us(self) -> int:
        return self.at


def asked(at: int, name: str, kind: str, payload: Any = None) -> ActionRequested:
    return ActionRequested(action_id=f"a{at}", payload=payload, name=name, effect=kind)


def timed_run(run: str, latencies_ms: list[int], *, model: str = "m-1") -> None:
    clock = Ticking()
    with opened() as store, Journal.create(store, run, facts={"agent": "tester"}, sources=clock) as journal:
        at = 1
        for latency in latencies_ms:
            journal.append(asked(at, "ask", "model_call", {"model": model, "messages": []}))
            clock.at += latency * 1000
            usage = {"input_tokens": 100, "output_tokens": latency, "cost": 0.5}
            answer = {"model": model, "usage": usage}
            journal.append(Draft(ActionSucceeded(action_id=f"a{at}", output=answer), parent=at))
            at += 2
        journal.append(Completed())


def test_tokens_cost_and_latency_of_a_run() -> None:
    timed_run("one", list(range(1, 101)))
    found = onrecord_json("stats", "one")
    (model,) = found["models"]
    assert (model["model"], model["calls"]) == ("m-1", 100)
    assert (model["latency_us"]["p50"], model["latency_us"]["p95"], model["latency_us"]["most"]) == (
        50_000,
        95_000,
        100_000,
    )
    assert (model["input_tokens"], model["output_tokens"], model["tokens"]) == (10_000, 5_050, 15_050)
    assert model["cost"] == 50.0
    assert found["total"]["tokens"] == 15_050
    assert len(model["latency_us"]["series"]) == 60
    assert sum(model["latency_us"]["slots"]) == 100
    assert found["run"] == "one"


def test_many_runs_by_model_and_filter() -> None:
    timed_run("one", [10, 20])
    timed_run("two", [40], model="m-2")
    found = onrecord_json("stats")
    assert [(one["model"], one["calls"]) for one in found["models"]] == [("m-2", 1), ("m-1", 2)]
    assert found["runs"] == 2
    assert onrecord_json("stats", "--agent", "nobody")["runs"] == 0
    assert "no failed runs" in onrecord("stats", "--status", "failed").stderr
    result = onrecord("stats", "one", "--status", "failed")
    assert result.exit_code == 2
    assert_two_lines(result.stderr, "usage")


def test_tools_failures_and_what_rests() -> None:
    record(
        "one",
        [
            asked(1, "mail", "tool_call"),
            Draft(ActionFailed(action_id="a1", error="x"), parent=1),
            asked(3, "mail", "tool_call"),
            Draft(ActionDenied(action_id="a3", reason="no"), parent=3),
            asked(5, "sleep", "sleep"),
            Draft(ActionSucceeded(action_id="a5", output=None), parent=5),
            WaitCreated(wait_id="w", name="approval"),
            Draft(WaitResolved(wait_id="w", resolution={"status": "resolved"}), parent=7),
            asked(9, "mail", "tool_call"),
        ],
    )
    found = onrecord_json("stats", "one")
    (tool,) = found["tools"]
    assert {name: tool[name] for name in ("name", "calls", "failed", "denied", "open")} == {
        "name": "mail",
        "calls": 3,
        "failed": 1,
        "denied": 1,
        "open": 1,
    }
    assert found["resting"] == {"sleep": 1, "wait": 1}
    text = onrecord("stats", "one").stdout
    assert "3 (1 failed, 1 denied, 1 open)" in text


def test_it_fits_narrow_terminals_and_has_plots() -> None:
    timed_run("one", [1, 5, 9, 100])
    narrow = shown("stats", "one", columns=40)
    assert max(map(len, narrow.screen)) <= 40
    assert "m-1" in narrow.text
    wide = shown("stats", "one", columns=140)
    assert "▁▁▁█" in wide.text


@pytest.mark.parametrize(
    ("series", "plot"), [([1, 1], "██"), ([0, 1, 2, 4], "▁▃▅█"), ([0, 0], "▁▁"), (list(range(100)), None)]
)
def test_a_plot_goes_from_nothing_to_the_highest(series: list[float], plot: str | None) -> None:
    found = sparkline(series)
    assert len(found) <= 24
    assert plot is None or found == plot


def test_damage_is_told_and_the_rest_counted() -> None:
    timed_run("one", [10, 20])
    timed_run("two", [10, 20])
    flip_content("two", 1)
    flip_content("two", 4)
    found = onrecord_json("stats")
    assert found["runs"] == 2
    assert found["total"]["calls"] == 4
    assert found["total"]["tokens_told_by"] == 3


def test_an_answer_that_says_odd_things_of_its_usage() -> None:
    answers: list[Any] = [
        {"usage": {"prompt_tokens": "many", "completion_tokens": -1}},
        {"usage": []},
        {"body": {"json": [1, None, {"usage": {"input_tokens": 10**30}}]}},
        {"body": {"text": 'data: {"usage": 7}\n\ndata: nonsense with usage'}},
        {"body": {"bytes": {"$bytes": "AAE="}}},
        {"usage": {"cost": float("inf"), "tokens": 3}},
        None,
    ]
    events: list[Any] = []
    for number, answer in enumerate(answers):
        at = 2 * number + 1
        events += [
            asked(at, "ask", "model_call", {"model": ["odd"]}),
            Draft(ActionSucceeded(action_id=f"a{at}", output=answer), parent=at),
        ]
    record("one", events)
    assert onrecord_json("stats", "one")["total"]["calls"] == len(answers)
    assert onrecord("show", "one").exit_code == 0
    assert onrecord("ls", "--usage").exit_code == 0


PARENT = """
import subprocess, sys
import httpx

def ask(url):
    messages = [{"role": "user", "content": "hi"}]
    return httpx.post(url + "/v1/chat/completions", json={"model": "m", "messages": messages})

ask(sys.argv[1])
if len(sys.argv) == 2:
    subprocess.run([sys.executable, __file__, sys.argv[1], "again"], check=True)
"""


def test_processes_count_with_the_program_that_started_them(server: Server) -> None:
    Path("program.py").write_text(PARENT)
    assert onrecord_process("run", "program.py", server.url).returncode == 0
    assert onrecord_json("stats", "@last")["total"]["calls"] == 2
    assert onrecord_json("stats")["total"]["calls"] == 2
    (line,) = onrecord_json("ls", "--usage")["runs"]
    assert line["usage"]["calls"] == 2
    assert "with its processes" in onrecord("stats", "@last").stdout
