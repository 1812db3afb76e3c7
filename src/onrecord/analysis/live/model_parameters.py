"""Read the model and the sampling parameters of a recorded model call."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

NAMES = ("temperature", "top_p", "top_k", "max_tokens", "seed", "stop", "frequency_penalty", "presence_penalty")


class Sampling(Mapping[str, Any]):
    """Sampling parameters as members or attributes; an attribute that was not set is None."""

    def __init__(self, parameters: Mapping[str, Any]) -> None:
        self._parameters = dict(parameters)

    def __getattr__(self, name: str) -> Any:
        if name in NAMES:
            return self._parameters.get(name)
        raise AttributeError(f"there is no sampling parameter {name!r}")

    def __getitem__(self, name: str) -> Any:
        return self._parameters[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._parameters)

    def __len__(self) -> int:
        return len(self._parameters)

    def to_data(self) -> dict[str, Any]:
        return dict(self._parameters)


def read_model(kind: str, inputs: Any) -> tuple[str, dict[str, Any]]:
    """Return the model and sampling of a model call: from its inputs, else from their `command` or `request`."""
    if kind != "model_call":
        return "", {}
    levels = [inputs]
    for name in ("command", "request"):
        levels += [level[name] for level in levels if isinstance(level, dict) and isinstance(level.get(name), dict)]
    objects = [level for level in levels if isinstance(level, dict)]
    model = next((level["model"] for level in objects if isinstance(level.get("model"), str) and level["model"]), "")
    sampling: dict[str, Any] = {}
    for level in objects:
        for name in NAMES:
            if level.get(name) is not None:
                sampling.setdefault(name, level[name])
        if level.get("max_completion_tokens") is not None:
            sampling.setdefault("max_tokens", level["max_completion_tokens"])
    return model, sampling
