"""Recorded runs and runs that replayed them, written from short lists of effects."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

from golden.vectors import FixedSources
from onrecord.core.events import (
    ActionFailed,
    ActionRequested,
    ActionSucceeded,
    Completed,
    Event,
    Failed,
    ProcessAttached,
)
from onrecord.core.hashing import render
from onrecord.core.links import ParentRun
from onrecord.errors import InvalidInput
from onrecord.journal.chain import Draft
from onrecord.journal.journal import Journal
from onrecord.journal.reader import JournalReader
from onrecord.store.contract import Store

_ages = itertools.count(1)


class Done(NamedTuple):
    """One effect: what it was asked for with, and what came of it (an exception: it failed; UNANSWERED: nothing)."""

    name: str
    input: Any
    output: Any
    kind: str = "model_call"
    lane: str = "main"
    key: str | None = None
    stood_in: int | None = None
    """Seq in the recorded run, where it was served from it."""


UNANSWERED = object()
UNENDED = object()


def asked(question: str, answer: Any, **more: Any) -> Done:
    return Done("ask", {"model": "small", "question": question}, answer, **more)


def mailed(to: str, answer: Any = "sent", **more: Any) -> Done:
    return Done("mail", {"to": to}, answer, kind="tool_call", **more)


def write(store: Store, run: str, effects: Sequence[Done], *, end: Any = "fine", replays: str | None = None) -> str:
    """`end` is the result, an exception or UNENDED; `replays` names the run that this one replays live."""
    parent = None
    if replays is not None:
        reader = JournalReader(store, replays)
        parent = ParentRun(head=render(reader.head().hash), relation="replay", run=replays, seq=reader.head().seq)
    sources = FixedSources(f"{run} {next(_ages)}")
    with Journal.create(store, run, facts={"agent": "tester"}, parent=parent, sources=sources) as journal:
        ordinals: dict[tuple[str, str], int] = {}
        for effect in effects:
            _append(journal, effect, ordinals, replays)
        if isinstance(end, BaseException):
            journal.append(Failed(end))
        elif end is not UNENDED:
            journal.append(Completed(end))
    return run


def _append(journal: Journal, effect: Done, ordinals: dict[tuple[str, str], int], replays: str | None) -> None:
    number = ordinals[effect.lane, effect.name] = ordinals.get((effect.lane, effect.name), 0) + 1
    key = effect.key or f"{effect.lane}/{effect.name}/{number}"
    if effect.stood_in is not None:
        journal.append(ProcessAttached({"stood_in": {"action": key, "run": replays, "seq": effect.stood_in}}))
    request = ActionRequested(key, effect.input, name=effect.name, effect=effect.kind)
    seq = journal.append([Draft(request, lane=effect.lane, key=key)])[-1].seq
    if effect.output is UNANSWERED:
        return
    failed = isinstance(effect.output, BaseException)
    answer: Event = ActionFailed(key, effect.output) if failed else ActionSucceeded(key, effect.output)
    journal.append([Draft(answer, lane=effect.lane, parent=seq)])


def readers(store: Store, *runs: str) -> tuple[JournalReader, ...]:
    return tuple(JournalReader(store, run) for run in runs)


class Invoker:
    """Answers from a table by name and remembers what it was called with."""

    def __init__(self, **answers: Any) -> None:
        self.answers = answers
        self.calls: list[str] = []
        self.asked: list[tuple[Any, str, Any]] = []

    def invoke(self, effect_name: str, inputs: Any, model_version: str, sampling: Any) -> Any:
        self.calls.append(effect_name)
        self.asked.append((inputs, model_version, sampling))
        answer = self.answers.get(effect_name, InvalidInput("no such effect"))
        if isinstance(answer, list):
            answer = answer[self.calls.count(effect_name) - 1]
        if isinstance(answer, BaseException):
            raise answer
        return answer(inputs) if callable(answer) else answer
