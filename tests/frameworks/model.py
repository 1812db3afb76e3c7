"""A scripted model: it calls a tool for every city that the prompt names, then answers with a numbered sentence."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

CITIES = ("Paris", "Rome", "Oslo", "Lima")
TEXT_FIELD = re.compile(r"\[\[ ## (\w+) ## \]\]")
"""The marks that DSPy wants around each field of an answer."""


@dataclass(frozen=True)
class Tool:
    name: str
    schema: dict[str, Any]

    @property
    def takes_city(self) -> bool:
        return "city" in self.schema.get("properties", {})


@dataclass(frozen=True)
class Ask:
    """A request to the model, in the words of no provider."""

    prompt: str
    tools: list[Tool] = field(default_factory=list)
    results: int = 0
    """The number of tool results in the conversation."""
    is_streamed: bool = False


@dataclass(frozen=True)
class ToolCall:
    id: str
    name: str
    arguments: dict[str, Any]

    @property
    def json(self) -> str:
        return json.dumps(self.arguments)


@dataclass(frozen=True)
class Reply:
    number: int
    text: str = ""
    calls: list[ToolCall] = field(default_factory=list)

    @property
    def pieces(self) -> list[str]:
        return re.findall(r"\S+\s*", self.text)


def answer(ask: Ask, number: int) -> Reply:
    """Return tool calls while there are no results, then the answer. The number makes every answer another one."""
    cities = [city for city in CITIES if city in ask.prompt]
    text = f"Answer {number} about {' and '.join(cities) or 'nothing'}."
    for tool in ask.tools:
        if tool.takes_city and cities and not ask.results:
            return _calls(number, [(tool.name, {"city": city}) for city in cities])
    for tool in ask.tools:
        if not tool.takes_city:
            return _calls(number, [(tool.name, _filled(tool.schema, text))])
    if fields := dict.fromkeys(TEXT_FIELD.findall(ask.prompt)):
        text = "\n\n".join(f"[[ ## {name} ## ]]\n{text}" for name in fields)
    return Reply(number, text)


def _calls(number: int, calls: list[tuple[str, dict[str, Any]]]) -> Reply:
    return Reply(number, calls=[ToolCall(f"call_{number}_{at}", *call) for at, call in enumerate(calls)])


def _filled(schema: dict[str, Any], text: str) -> dict[str, Any]:
    """Return arguments for a tool that takes the final answer."""
    values: dict[str, Any] = {"integer": 7, "number": 7.0, "boolean": True}
    return {name: values.get(one.get("type"), text) for name, one in schema.get("properties", {}).items()}
