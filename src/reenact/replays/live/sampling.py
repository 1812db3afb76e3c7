"""How a recorded model call asked its model: which one, and how it was to choose its words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

NAMES = ("temperature", "top_p", "top_k", "max_tokens", "seed", "stop", "frequency_penalty", "presence_penalty")


class Sampling(Mapping[str, Any]):
    """By name, as members or as attributes; an attribute that was left to the provider is None."""

    def __init__(self, named: Mapping[str, Any]) -> None:
        self._named = dict(named)

    def __getattr__(self, name: str) -> Any:
        if name in NAMES:
            return self._named.get(name)
        raise AttributeError(f"there is no sampling parameter {name!r}")

    def __getitem__(self, name: str) -> Any:
        return self._named[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._named)

    def __len__(self) -> int:
        return len(self._named)

    def to_data(self) -> dict[str, Any]:
        return dict(self._named)


def model_asked(kind: str, inputs: Any) -> tuple[str, dict[str, Any]]:
    """Model and sampling of a model call: from its inputs, the command or the request in them, the outermost first."""
    if kind != "model_call":
        return "", {}
    places = [inputs]
    for name in ("command", "request"):
        places += [place[name] for place in places if isinstance(place, dict) and isinstance(place.get(name), dict)]
    objects = [place for place in places if isinstance(place, dict)]
    model = next((place["model"] for place in objects if isinstance(place.get("model"), str) and place["model"]), "")
    sampling: dict[str, Any] = {}
    for place in objects:
        for name in NAMES:
            if place.get(name) is not None:
                sampling.setdefault(name, place[name])
        if place.get("max_completion_tokens") is not None:
            sampling.setdefault("max_tokens", place["max_completion_tokens"])
    return model, sampling
