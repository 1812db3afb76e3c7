"""requests interceptor: tells the urllib3 interceptor, which records the request, whether the body is streamed."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

from onrecord.capture.interceptors.import_hooks import Replace
from onrecord.capture.interceptors.urllib3_pool import WHOLE
from onrecord.runtime.engine.context import current_lane


def patch(adapters: ModuleType, replace: Replace) -> None:
    replace(adapters.HTTPAdapter, "send", _send)


def _send(
    original: Callable[..., Any], adapter: Any, request: Any, stream: bool = False, *args: Any, **kwargs: Any
) -> Any:
    if current_lane() is None:
        return original(adapter, request, stream, *args, **kwargs)
    token = WHOLE.set(not stream)
    try:
        return original(adapter, request, stream, *args, **kwargs)
    finally:
        WHOLE.reset(token)
