"""Fixture `onrecord`: what the test has done so far, for its assertions.

Values come from the record: secrets are placeholders, and recording and replay give equal values.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from onrecord.capture.tool_calls import tool_calls_of
from onrecord.capture.usage import Usage, usage_of
from onrecord.core.events import ActionFailed, ActionRequested, ActionSucceeded
from onrecord.runtime.replay.history import seq_of

if TYPE_CHECKING:
    from onrecord.analysis.compare.tool_calls import ComparedToolCall
    from onrecord.pytest_plugin.options import Mode
    from onrecord.pytest_plugin.test_run import TestRun


class RecordedCall(NamedTuple):
    """Effect of the test: an HTTP request, a model call, a tool or a step."""

    name: str
    kind: str
    """`http`, `model_call`, `tool_call`, `durable_step` and so on."""
    payload: Any
    """Request: method, URL, headers and body of an HTTP request; the arguments of a tool."""
    answer: Any = None
    """Answer; None while the effect is executing, and if it failed."""
    error: Any = None

    @property
    def is_model_call(self) -> bool:
        return self.kind == "model_call"

    @property
    def body(self) -> Any:
        """Return the body of the request: parsed JSON, text or bytes."""
        return _read_body(self.payload)

    @property
    def answered(self) -> Any:
        """Return the body of the response: parsed JSON, text or bytes."""
        return _read_body(self.answer)

    @property
    def status(self) -> int | None:
        status = self.answer.get("status") if isinstance(self.answer, dict) else None
        return status if isinstance(status, int) else None

    @property
    def usage(self) -> Usage | None:
        return usage_of(self.answer) if self.is_model_call else None


def _read_body(message: Any) -> Any:
    body = message.get("body") if isinstance(message, dict) else None
    if not isinstance(body, dict):
        return None
    return next((body[form] for form in ("json", "text", "bytes") if form in body), None)


class RecordedTest:
    """Record of the running test."""

    def __init__(self, test: TestRun) -> None:
        self._test = test

    @property
    def mode(self) -> Mode:
        return self._test.mode

    @property
    def is_replay(self) -> bool:
        """Return True if no effect is executed."""
        return self._test.is_replay

    @property
    def path(self) -> Path:
        """Return the path of the recording, which may not exist yet."""
        return self._test.path

    @property
    def run_id(self) -> str:
        return self._test.run.name

    @property
    def calls(self) -> list[RecordedCall]:
        """Return all effects, in the order of their requests."""
        run = self._test.run
        unmade = set() if run.history is None else {seq_of(at) for at, _ in run.kernel.history.unmade_requests()}
        calls: dict[int, RecordedCall] = {}
        for entry in run.reader.scan():
            event = entry.event
            if isinstance(event, ActionRequested) and entry.seq not in unmade:
                calls[entry.seq] = RecordedCall(event.name or "", event.effect or "", event.payload)
            elif isinstance(event, ActionSucceeded) and entry.parent in calls:
                calls[entry.parent] = calls[entry.parent]._replace(answer=event.output)
            elif isinstance(event, ActionFailed) and entry.parent in calls:
                calls[entry.parent] = calls[entry.parent]._replace(error=event.error)
        return list(calls.values())

    @property
    def model_calls(self) -> list[RecordedCall]:
        return [call for call in self.calls if call.is_model_call]

    @property
    def tool_calls(self) -> list[ComparedToolCall]:
        """Return the tool calls of model answers, in order, with `name` and `input`."""
        return [tool_call for call in self.model_calls for tool_call in tool_calls_of(call.answer)]

    @property
    def input_tokens(self) -> int:
        return sum(usage.input_tokens for usage in self._usages)

    @property
    def output_tokens(self) -> int:
        return sum(usage.output_tokens for usage in self._usages)

    @property
    def tokens(self) -> int:
        return self.input_tokens + self.output_tokens

    @property
    def cost(self) -> float | None:
        """Return the cost in US dollars, or None if a price is unknown (needs the extra `prices`)."""
        costs = [usage.cost for usage in self._usages]
        return None if None in costs else sum(cost for cost in costs if cost is not None)

    @property
    def _usages(self) -> list[Usage]:
        return [usage for call in self.model_calls if (usage := call.usage) is not None]
