"""requests sends through urllib3, where its requests are recorded. Only its adapter knows who reads the body."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

from reenact.capture.seams.hooks import Replace, lane_here
from reenact.capture.seams.urllib3_pools import WHOLE


def put_into(adapters: ModuleType, replace: Replace) -> None:
    replace(adapters.HTTPAdapter, "send", _send)


def _send(
    original: Callable[..., Any], adapter: Any, request: Any, stream: bool = False, *args: Any, **kwargs: Any
) -> Any:
    if lane_here() is None:
        return original(adapter, request, stream, *args, **kwargs)
    token = WHOLE.set(not stream)
    try:
        return original(adapter, request, stream, *args, **kwargs)
    finally:
        WHOLE.reset(token)
