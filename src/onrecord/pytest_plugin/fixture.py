"""The fixture `reenact`: what the test has done so far, for its assertions. Read from the record, so secrets are
placeholders in it, and the same whether the test is recorded or replayed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from reenact.capture.tool_calls import tool_calls_of
from reenact.capture.usage import Usage, usage_of
from reenact.core.events import ActionFailed, ActionRequested, ActionSucceeded

if TYPE_CHECKING:
    from reenact.pytest_plugin.carrying import CarriedTest
    from reenact.pytest_plugin.options import Mode
    from reenact.replays.comparing.tool_calls import ToolCall


class Call(NamedTuple):
    """One effect: an HTTP request, a model call, a tool or a step."""

    name: str
    kind: str
    """`http`, `model_call`, `tool_call`, `durable_step` and so on."""
    payload: Any
    """What was asked for: method, URL, headers and body of a request; the arguments of a tool."""
    answer: Any = None
    """What came; None while it is under way, and where it failed."""
    error: Any = None

    @property
    def is_model_call(self) -> bool:
        return self.kind == "model_call"

    @property
    def body(self) -> Any:
        """What a request said: JSON as it is, else text or bytes."""
        return _inner(self.payload)

    @property
    def answered(self) -> Any:
        """What a response said, likewise."""
        return _inner(self.answer)

    @property
    def status(self) -> int | None:
        status = self.answer.get("status") if isinstance(self.answer, dict) else None
        return status if isinstance(status, int) else None

    @property
    def usage(self) -> Usage | None:
        return usage_of(self.answer) if self.is_model_call else None


def _inner(message: Any) -> Any:
    body = message.get("body") if isinstance(message, dict) else None
    if not isinstance(body, dict):
        return None
    return next((body[form] for form in ("json", "text", "bytes") if form in body), None)


class Reenacted:
    """What a test has done so far."""

    def __init__(self, test: CarriedTest) -> None:
        self._test = test

    @property
    def mode(self) -> Mode:
        return self._test.mode

    @property
    def is_replay(self) -> bool:
        """Nothing is live."""
        return self._test.is_replay

    @property
    def path(self) -> Path:
        """Where the recording lies, or will."""
        return self._test.path

    @property
    def run_id(self) -> str:
        return self._test.run.name

    @property
    def calls(self) -> list[Call]:
        """Everything that was asked for, in order."""
        run = self._test.run
        made = None if run.past is None else {one.seq for one in run.past.by_key.values() if one.made}
        calls: dict[int, Call] = {}
        for entry in run.reader.scan():
            event = entry.event
            if isinstance(event, ActionRequested) and (made is None or entry.seq in made):
                calls[entry.seq] = Call(event.name or "", event.effect or "", event.payload)
            elif isinstance(event, ActionSucceeded) and entry.parent in calls:
                calls[entry.parent] = calls[entry.parent]._replace(answer=event.output)
            elif isinstance(event, ActionFailed) and entry.parent in calls:
                calls[entry.parent] = calls[entry.parent]._replace(error=event.error)
        return list(calls.values())

    @property
    def model_calls(self) -> list[Call]:
        return [call for call in self.calls if call.is_model_call]

    @property
    def tool_calls(self) -> list[ToolCall]:
        """The tools that models asked for, in order: `name` and `input`."""
        return [called for call in self.model_calls for called in tool_calls_of(call.answer)]

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
        """In US dollars; None where the price of a call is not known (`pip install reenact[prices]`)."""
        costs = [usage.cost for usage in self._usages]
        return None if None in costs else sum(cost for cost in costs if cost is not None)

    @property
    def _usages(self) -> list[Usage]:
        return [usage for call in self.model_calls if (usage := call.usage) is not None]
