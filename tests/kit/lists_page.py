"""Runs for the pages over all runs: ended, waiting, in doubt, hostile."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from kit.web import until
from onrecord.core.events import ActionRequested, ActionSucceeded, Completed, Event, Failed
from onrecord.errors import OnrecordError
from onrecord.journal.chain import Draft
from onrecord.journal.journal import Journal
from onrecord.store.factory import open_store

HOSTILE = [
    "<img src=x onerror=\"document.title='run'\">",
    "<script>document.title='run'</script>",
    "</script><svg onload=\"document.title='run'\">",
    "\x1b[31mred\x1b[0m \x07",
    "user\u202etxt.exe \u2066hidden\u2069 \u200b",
    "javascript:document.title='run'",
    "[click](javascript:document.title='run')",
    "__proto__",
    "{{ 7 * 7 }} ${7*7}",
    "x" * 1_000_000,
]


def record(
    store: str, run: str, answer: Any = "fine", *, agent: Any = "support", ends: bool = True, usage: Any = None
) -> str:
    output = {"text": answer, "model": "m-1", **({} if usage is None else {"usage": usage})}
    events: list[Event | Draft] = [
        ActionRequested(action_id="a1", payload={"question": f"about {run}"}, name="ask", effect="model_call"),
        Draft(ActionSucceeded(action_id="a1", output=output), parent=1),
    ]
    return recorded(store, run, [*events, *([Completed(output="done")] if ends else [])], agent)


def failed(store: str, run: str, agent: str = "support") -> str:
    return recorded(store, run, [Failed(error=ValueError("no"))], agent)


def in_doubt(store: str, run: str, name: str = "send_mail", payload: Any = None) -> str:
    asked = {"to": "customer", "text": "Hello"} if payload is None else payload
    request = ActionRequested(action_id="a1", payload=asked, name=name, effect="tool_call", meta={"once": True})
    return recorded(store, run, [Draft(request, key="a1")], "till")


def recorded(store: str, run: str, events: Sequence[Event | Draft], agent: Any) -> str:
    opened = open_store(store)
    try:
        with Journal.create(opened, run, facts={"agent": agent}) as journal:
            journal.append(list(events))
    finally:
        opened.close()
    return run


AGENT = """
import sys
import onrecord

@onrecord.step
def look_up(order):
    return {"cents": 4200}

@onrecord.agent
def support(order):
    price = look_up(order)
    decision = onrecord.wait_for("approval", timeout="2d")
    return {"decision": decision, "price": price}

@onrecord.agent
def asking(order):
    return onrecord.interrupt({"question": "Refund 42 EUR?", "order": order})

store = onrecord.open_store(sys.argv[1])
print("begun", flush=True)
print({"support": support, "asking": asking}[sys.argv[2]].run("A-17", run_id=sys.argv[3], store=store), flush=True)
"""


@contextmanager
def waiting(store: str, run: str, agent: str = "support") -> Iterator[subprocess.Popen[str]]:
    """An agent in a process of its own, which waits."""
    code = Path(store).with_suffix(".agent.py")
    code.write_text(textwrap.dedent(AGENT))
    command = [sys.executable, str(code), store, agent, run]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ}) as process:
        try:
            until(lambda: _has_begun(store))
            yield process
        finally:
            process.kill()


def _has_begun(path: str) -> bool:
    try:
        with closing(open_store(path, read_only=True)) as store:
            return any(store.list_runs("default"))
    except OnrecordError:
        return False
