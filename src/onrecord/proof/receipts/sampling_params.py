"""Sampling parameters of a model call. They are part of a receipt's hash."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec


class SamplingParams(msgspec.Struct, frozen=True, kw_only=True):
    """Sampling parameters. None means not set; parameters without a field are in `other`."""

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    max_tokens: int | None = None
    seed: int | None = None
    stop: Any = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    other: dict[str, Any] = {}

    def to_data(self) -> dict[str, Any]:
        named = {name: value for name in NAMES if (value := getattr(self, name)) is not None}
        return {**self.other, **named}

    @classmethod
    def from_data(cls, data: Any) -> SamplingParams:
        """Accept any data: a value of the wrong type is kept in `other`."""
        if not isinstance(data, Mapping):
            return cls(other={"sampling": data})
        named: dict[str, Any] = {}
        other: dict[str, Any] = {}
        for name, value in data.items():
            is_number = type(value) is int or (type(value) is float and name not in _WHOLE)
            fits = name in NAMES and value is not None and (name == "stop" or is_number)
            (named if fits else other)[name] = value
        return cls(**named, other=other)


NAMES = tuple(name for name in SamplingParams.__struct_fields__ if name != "other")
_WHOLE = frozenset({"top_k", "max_tokens", "seed"})
