"""How a program is replayed, where somebody has asked for more than to know whether it is the same."""

from __future__ import annotations

import os
import sys
from typing import Any

import orjson

from reenact.capture.http import pacing
from reenact.capture.terms import ReplayTerms
from reenact.effect.live_run import LiveRun
from reenact.effect.looseness import Looseness


def prepare(live: LiveRun, terms: ReplayTerms) -> None:
    """Before the program's first line. Only a replay is asked otherwise."""
    if live.journal is not None:
        return
    if terms.loose:
        live.loose = Looseness(live, frozenset(terms.loose))
    if terms.break_at is not None:
        from reenact.capture.breaking import break_at  # with the debugger, which few ask for

        break_at(live, terms.break_at)
    pacing.realtime = terms.realtime


class JsonOutput:
    """Stdout for the verdict alone: what the program says there goes to stderr."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    @classmethod
    def taken(cls) -> JsonOutput:
        sys.stdout.flush()
        made = cls(os.dup(1))
        os.dup2(2, 1)
        return made

    def write_verdict(self, data: dict[str, Any]) -> None:
        sys.stdout.flush()
        text = orjson.dumps(data, default=repr, option=orjson.OPT_NON_STR_KEYS | orjson.OPT_INDENT_2) + b"\n"
        while text:
            text = text[os.write(self._descriptor, text) :]
