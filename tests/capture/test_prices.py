"""What tokens cost, by the rates of a model where it has such: the same as `genai-prices` says, looked up once."""

from __future__ import annotations

from typing import Any

import pytest

from onrecord.capture import usage

genai_prices = pytest.importorskip("genai_prices", reason="genai-prices is not installed")

EVEN, TIERED = ("gpt-4o", "gpt-4o-mini", "claude-3-5-haiku-latest"), ("gemini-2.5-pro",)
TOKENS = [(0, 0, 0), (1, 0, 0), (1_000, 200, 100), (500_000, 2_000, 0), (300_000, 10, 299_999)]


def cost_of(model: str, read: int, written: int, cached: int) -> Any:
    said = {"prompt_tokens": read, "completion_tokens": written, "prompt_tokens_details": {"cached_tokens": cached}}
    found = usage.usage_of({"body": {"json": {"model": model, "usage": said}}})
    assert found is not None
    return found.cost


@pytest.mark.parametrize("model", [*EVEN, *TIERED])
@pytest.mark.parametrize("tokens", TOKENS)
def test_the_cost_is_what_the_library_says(model: str, tokens: tuple[int, int, int]) -> None:
    read, written, cached = tokens
    used = genai_prices.Usage(input_tokens=read, output_tokens=written, cache_read_tokens=cached)
    expected = float(genai_prices.calc_price(used, model_ref=model).total_price)
    assert cost_of(model, read, written, cached) == pytest.approx(expected, rel=1e-9, abs=1e-15)


def test_a_price_is_looked_up_once(monkeypatch: pytest.MonkeyPatch) -> None:
    usage._find_rates.cache_clear()
    asked = []
    calc_price = genai_prices.calc_price
    monkeypatch.setattr(genai_prices, "calc_price", lambda *a, **k: asked.append(1) or calc_price(*a, **k))
    cost_of(EVEN[0], 10, 10, 0)
    first = len(asked)
    for count in range(1, 50):
        cost_of(EVEN[0], count, count, 0)
    assert len(asked) == first


def test_nobody_knows_the_price_of_an_unknown_model() -> None:
    assert cost_of("no such model", 10, 10, 0) is None
