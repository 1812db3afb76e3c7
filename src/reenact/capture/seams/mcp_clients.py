"""The `mcp` package: sessions whose requests are recorded, and the transports below them, which are not."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import partial
from types import ModuleType
from typing import Any

from reenact.capture.mcp.sessions import RecordedDispatcher
from reenact.capture.mcp.transports import RecordedManager
from reenact.capture.seams.hooks import Replace

_CALLBACKS = ("_sampling_callback", "_elicitation_callback", "_list_roots_callback", "_logging_callback")


def put_into(module: ModuleType, replace: Replace) -> None:
    if module.__name__ == "mcp.client.session":
        replace(module.ClientSession, "__init__", partial(_session, module))
    elif module.__name__ == "mcp.client._memory":
        replace(module.InMemoryTransport, "_connect", partial(_transport, _in_memory))
    else:
        name, target = _FUNCTIONS[module.__name__]
        original = module.__dict__[name]
        for owner in _holders(name, original):
            replace(owner, name, partial(_transport, target))


def _holders(name: str, original: Any) -> list[ModuleType]:
    """Modules of the library that have the function under its name."""
    loaded = list(sys.modules.items())
    return [
        module
        for known, module in loaded
        if (known == "mcp" or known.startswith("mcp.")) and getattr(module, "__dict__", {}).get(name) is original
    ]


def _session(module: ModuleType, original: Callable[..., None], session: Any, *args: Any, **kwargs: Any) -> None:
    original(session, *args, **kwargs)
    if hasattr(session, "_dispatcher"):
        session._dispatcher = RecordedDispatcher(session._dispatcher, partial(_has_callbacks, module, session))


def _has_callbacks(module: ModuleType, session: Any) -> bool:
    """The program wants to know what a server says besides its answers."""
    usual = {name: getattr(module, f"_default{name}", None) for name in (*_CALLBACKS, "_message_handler")}
    return any(getattr(session, name, default) is not default for name, default in usual.items()) or bool(
        getattr(session, "_notification_bindings", None)
    )


def _transport(
    target: Callable[..., Mapping[str, Any]], original: Callable[..., Any], *args: Any, **kwargs: Any
) -> Any:
    return RecordedManager(partial(original, *args, **kwargs), target(*args, **kwargs))


def _process(server: Any, *_: Any, **__: Any) -> dict[str, Any]:
    """Without its environment, which may hold secrets."""
    return {"transport": "stdio", "command": str(server.command), "args": [str(one) for one in server.args]}


def _url(url: str, *_: Any, **__: Any) -> dict[str, Any]:
    return {"transport": "http", "url": str(url)}


def _in_memory(*_: Any, **__: Any) -> dict[str, Any]:
    return {"transport": "memory"}


_FUNCTIONS: dict[str, tuple[str, Callable[..., dict[str, Any]]]] = {
    "mcp.client.stdio": ("stdio_client", _process),
    "mcp.client.streamable_http": ("streamable_http_client", _url),
    "mcp.client.sse": ("sse_client", _url),
}
