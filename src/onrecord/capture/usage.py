"""Token usage that a model's answer reports, and its cost if `genai-prices` is installed.

Supported: OpenAI (chat completions, responses), Anthropic and Google, as whole answers or events of a stream; Amazon
Bedrock (converse) as whole answers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache, lru_cache
from math import isclose
from typing import Any, NamedTuple

import orjson

from onrecord.capture.http.bodies import body_bytes
from onrecord.runtime.engine.context import inside


class Usage(NamedTuple):
    model: str
    input_tokens: int
    output_tokens: int
    cached_tokens: int = 0
    """Part of the input tokens, read from a cache."""
    cost: float | None = None
    """Cost in US dollars; None if the price is unknown."""


def spent_by_answer(answer: Any) -> dict[str, float]:
    """Return the usage of a recorded answer in the form that budgets count."""
    usage = usage_of(answer)
    if usage is None:
        return {}
    spent: dict[str, float] = {"tokens": usage.input_tokens + usage.output_tokens}
    return spent if usage.cost is None else {**spent, "cost": usage.cost}


def usage_of(answer: Any) -> Usage | None:
    """Return the usage that a recorded model answer reports, or None."""
    body = answer.get("body") if isinstance(answer, dict) else None
    if not isinstance(body, dict):
        return None
    found: dict[str, Any] = {}
    model = ""
    for one in _iterate_messages(body):
        for part in (one, one.get("message"), one.get("response")):  # streams report it inside their events
            if isinstance(part, dict):
                model = str(part.get("model") or part.get("modelVersion") or model)
                reported = part.get("usage") or part.get("usageMetadata")
                if isinstance(reported, dict):
                    found.update({name: value for name, value in reported.items() if value is not None})
    return _build_usage(model, found) if found else None


def _iterate_messages(body: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the answer, or the events of its stream that may hold the usage."""
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


def _build_usage(model: str, reported: Mapping[str, Any]) -> Usage:
    if "promptTokenCount" in reported:
        output = _read_count(reported, "candidatesTokenCount") + _read_count(reported, "thoughtsTokenCount")
        counts = _read_count(reported, "promptTokenCount"), output, _read_count(reported, "cachedContentTokenCount")
    elif "prompt_tokens" in reported:
        cached = _read_nested_count(reported, "prompt_tokens_details", "cached_tokens")
        counts = _read_count(reported, "prompt_tokens"), _read_count(reported, "completion_tokens"), cached
    elif "inputTokens" in reported:
        cached = _read_count(reported, "cacheReadInputTokens")
        read = _read_count(reported, "inputTokens") + cached + _read_count(reported, "cacheWriteInputTokens")
        counts = read, _read_count(reported, "outputTokens"), cached
    else:
        cached = _read_count(reported, "cache_read_input_tokens")
        read = _read_count(reported, "input_tokens") + cached + _read_count(reported, "cache_creation_input_tokens")
        counts = (
            read,
            _read_count(reported, "output_tokens"),
            cached or _read_nested_count(reported, "input_tokens_details", "cached_tokens"),
        )
    return Usage(model, *counts, _compute_cost(model, *counts))


def _read_count(reported: Mapping[str, Any], name: str) -> int:
    value = reported.get(name)
    return value if isinstance(value, int) and value >= 0 else 0


def _read_nested_count(reported: Mapping[str, Any], *names: str) -> int:
    inner: Any = reported
    for name in names[:-1]:
        inner = inner.get(name)
        if not isinstance(inner, dict):
            return 0
    return _read_count(inner, names[-1])


def _compute_cost(model: str, read: int, written: int, cached: int) -> float | None:
    if not model:
        return None
    rates = _find_rates(model)
    return _look_up_price(model, read, written, cached) if rates is None else rates.of(read, written, cached)


class _Rates(NamedTuple):
    """Price of one token, for models whose price does not depend on the number of tokens."""

    read: float
    written: float
    cached: float

    def of(self, read: int, written: int, cached: int) -> float:
        return (read - cached) * self.read + written * self.written + cached * self.cached


@lru_cache(maxsize=100)
def _find_rates(model: str) -> _Rates | None:
    """Return the prices per token of a model, or None if they vary. Cached: a look-up takes longer than a request."""
    million = 1_000_000
    single = [_look_up_price(model, *tokens) for tokens in ((million, 0, 0), (0, million, 0), (million, 0, million))]
    many = _look_up_price(model, 3 * million, 2 * million, million)
    few = _look_up_price(model, 3_000, 2_000, 1_000)
    if many is None or few is None or None in single:
        return None
    rates = _Rates(*(price / million for price in single if price is not None))
    is_linear = isclose(rates.of(3 * million, 2 * million, million), many) and isclose(
        rates.of(3_000, 2_000, 1_000), few
    )
    return rates if is_linear else None


def _look_up_price(model: str, read: int, written: int, cached: int) -> float | None:
    with inside():  # the look-up must not be recorded
        prices = _load_prices()
        if prices is None:
            return None
        try:
            used = prices.Usage(input_tokens=read, output_tokens=written, cache_read_tokens=cached)
            return float(prices.calc_price(used, model_ref=model).total_price)
        except Exception:  # unknown model, or usage without a price
            return None


@cache
def _load_prices() -> Any:
    try:
        import genai_prices
    except ImportError:
        return None
    return genai_prices
