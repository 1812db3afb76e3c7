"""Options of a program's replay: tolerances, the debugger, real-time streams, JSON output."""

from __future__ import annotations

import os
import sys
from typing import Any

import orjson

from onrecord.capture.http import pace
from onrecord.capture.program_task import ReplayTerms
from onrecord.runtime.engine.run import LiveRun
from onrecord.runtime.replay.loose_match import LooseMatch


def apply_options(live: LiveRun, terms: ReplayTerms) -> None:
    """Apply the options to a replay before the program's first line. Do nothing while recording."""
    if live.journal is not None:
        return
    if terms.loose:
        live.loose = LooseMatch(live, frozenset(terms.loose))
    if terms.break_at is not None:
        from onrecord.capture.debugger import break_at  # slow to import and seldom used

        break_at(live, terms.break_at)
    pace.realtime = terms.realtime


class JsonOutput:
    """Standard output for the verdict only: the program's own output goes to stderr."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    @classmethod
    def redirect(cls) -> JsonOutput:
        sys.stdout.flush()
        output = cls(os.dup(1))
        os.dup2(2, 1)
        return output

    def write_verdict(self, data: dict[str, Any]) -> None:
        sys.stdout.flush()
        text = orjson.dumps(data, default=repr, option=orjson.OPT_NON_STR_KEYS | orjson.OPT_INDENT_2) + b"\n"
        while text:
            text = text[os.write(self._descriptor, text) :]
