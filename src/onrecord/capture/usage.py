"""What an answer of a model says that it used: tokens, and what they cost where `genai-prices` is installed.

OpenAI (chat completions, responses), Anthropic and Google, whole or as the events of a stream.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache, lru_cache
from math import isclose
from typing import Any, NamedTuple

import orjson

from reenact.capture.http.bodies import body_bytes
from reenact.effect.places import nowhere


class Usage(NamedTuple):
    model: str
    input_tokens: int
    output_tokens: int
    cached_tokens: int = 0
    """Of the input, read from a cache."""
    cost: float | None = None
    """In US dollars; None where nobody knows the price."""


def spent_by_answer(answer: Any) -> dict[str, float]:
    """As budgets count it."""
    usage = usage_of(answer)
    if usage is None:
        return {}
    spent: dict[str, float] = {"tokens": usage.input_tokens + usage.output_tokens}
    return spent if usage.cost is None else {**spent, "cost": usage.cost}


def usage_of(answer: Any) -> Usage | None:
    """Of the recorded answer to a model call; None if it does not say."""
    body = answer.get("body") if isinstance(answer, dict) else None
    if not isinstance(body, dict):
        return None
    found: dict[str, Any] = {}
    model = ""
    for one in _messages(body):
        for part in (one, one.get("message"), one.get("response")):  # in streams it is said within the events
            if isinstance(part, dict):
                model = str(part.get("model") or part.get("modelVersion") or model)
                said = part.get("usage") or part.get("usageMetadata")
                if isinstance(said, dict):
                    found.update({name: value for name, value in said.items() if value is not None})
    return _usage(model, found) if found else None


def _messages(body: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The answer, or the events of the stream that it came in."""
    if "json" in body:
        whole = body["json"]
        yield from [one for one in (whole if isinstance(whole, list) else [whole]) if isinstance(one, dict)]
        return
    for line in body_bytes(body).splitlines():
        if line.startswith(b"data:") and b"sage" in line:
            try:
                event = orjson.loads(line[5:])
            except ValueError:
                continue
            if isinstance(event, dict):
                yield event


def _usage(model: str, said: Mapping[str, Any]) -> Usage:
    if "promptTokenCount" in said:
        spoken = _number(said, "candidatesTokenCount") + _number(said, "thoughtsTokenCount")
        counted = _number(said, "promptTokenCount"), spoken, _number(said, "cachedContentTokenCount")
    elif "prompt_tokens" in said:
        cached = _inner(said, "prompt_tokens_details", "cached_tokens")
        counted = _number(said, "prompt_tokens"), _number(said, "completion_tokens"), cached
    else:
        cached = _number(said, "cache_read_input_tokens")
        read = _number(said, "input_tokens") + cached + _number(said, "cache_creation_input_tokens")
        counted = read, _number(said, "output_tokens"), cached or _inner(said, "input_tokens_details", "cached_tokens")
    return Usage(model, *counted, _cost(model, *counted))


def _number(said: Mapping[str, Any], name: str) -> int:
    value = said.get(name)
    return value if isinstance(value, int) and value >= 0 else 0


def _inner(said: Mapping[str, Any], *names: str) -> int:
    inner: Any = said
    for name in names[:-1]:
        inner = inner.get(name)
        if not isinstance(inner, dict):
            return 0
    return _number(inner, names[-1])


def _cost(model: str, read: int, written: int, cached: int) -> float | None:
    if not model:
        return None
    rates = _rates(model)
    return _price(model, read, written, cached) if rates is None else rates.of(read, written, cached)


class _Rates(NamedTuple):
    """What one token costs, where that does not depend on how many there are."""

    read: float
    written: float
    cached: float

    def of(self, read: int, written: int, cached: int) -> float:
        return (read - cached) * self.read + written * self.written + cached * self.cached


@lru_cache(maxsize=100)
def _rates(model: str) -> _Rates | None:
    """Looking a price up takes longer than making a request does: once for each model, not once for each answer."""
    million = 1_000_000
    single = [_price(model, *tokens) for tokens in ((million, 0, 0), (0, million, 0), (million, 0, million))]
    many = _price(model, 3 * million, 2 * million, million)
    few = _price(model, 3_000, 2_000, 1_000)
    if many is None or few is None or None in single:
        return None
    rates = _Rates(*(price / million for price in single if price is not None))
    is_even = isclose(rates.of(3 * million, 2 * million, million), many) and isclose(rates.of(3_000, 2_000, 1_000), few)
    return rates if is_even else None


def _price(model: str, read: int, written: int, cached: int) -> float | None:
    with nowhere():  # what is looked up is no business of the program's
        prices = _prices()
        if prices is None:
            return None
        try:
            used = prices.Usage(input_tokens=read, output_tokens=written, cache_read_tokens=cached)
            return float(prices.calc_price(used, model_ref=model).total_price)
        except Exception:  # a model that it does not know, or a usage that its price does not tell of
            return None


@cache
def _prices() -> Any:
    try:
        import genai_prices
    except ImportError:
        return None
    return genai_prices
