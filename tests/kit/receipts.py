"""What the tests of receipts share."""

from __future__ import annotations

from typing import Any

from golden.vectors import FixedSources
from onrecord.core.events import (
    ActionDenied,
    ActionFailed,
    ActionRequested,
    ActionSucceeded,
    Completed,
    Interrupted,
    Resumed,
    WaitCreated,
    WaitResolved,
)
from onrecord.journal.journal import Journal
from onrecord.proof.receipts import ReplayToken, ReplayTokenBuilder, SamplingParams
from onrecord.store.contract import Store

REQUEST = {"model": "small-1", "messages": [{"role": "user", "content": "2+2?"}], "temperature": 0.5, "seed": 7}


def built(name: str = "ask", outputs: Any = "4", after: Any = None, **more: Any) -> ReplayToken:
    builder = ReplayTokenBuilder(sources=more.pop("sources", FixedSources(f"{name}/{outputs}")))
    builder.effect_name(name).inputs(more.pop("inputs", {"question": "2+2?"})).outputs(outputs).after(after)
    for method, value in more.items():
        getattr(builder, method)(value)
    return builder.mint()


def chained(*outputs: Any, **more: Any) -> list[ReplayToken]:
    tokens: list[ReplayToken] = []
    for number, value in enumerate(outputs):
        tokens.append(built(f"step{number}", value, tokens[-1] if tokens else None, **more))
    return tokens


def recorded_run(store: Store, run: str = "r1", namespace: str = "default", end: bool = True, **facts: Any) -> Journal:
    """One effect of each kind of outcome, a request that was never answered, a wait and an interrupt."""
    journal = Journal.create(store, run, namespace, facts=facts, sources=FixedSources(run))
    journal.append(
        [ActionRequested("a1", REQUEST, "ask", "model_call"), ActionSucceeded("a1", {"text": "4", "n": 1.0})]
    )
    journal.append([ActionRequested("a2", {"to": "x"}, "send", "tool_call"), ActionFailed("a2", ValueError("no"))])
    journal.append(ActionRequested("open", {}, "never", "tool_call"))
    journal.append([ActionRequested("a3", {}, "delete", "tool_call"), ActionDenied("a3", {"code": "denied"})])
    journal.append([ActionDenied("a4", "not asked")])
    journal.append([WaitCreated("w1", "approval"), WaitResolved("w1", {"ok": True})])
    journal.append([Interrupted("sure?"), Resumed("yes")])
    if end:
        journal.append(Completed())
    journal.release()
    return journal


__all__ = ["REQUEST", "FixedSources", "ReplayToken", "SamplingParams", "built", "chained", "recorded_run"]
