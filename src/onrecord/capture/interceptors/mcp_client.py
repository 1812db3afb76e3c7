"""MCP interceptor: the requests of client sessions are recorded; the transports below them are not."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import ModuleType
from typing import Any

from onrecord.capture.interceptors.import_hooks import Replace, find_holders
from onrecord.capture.mcp.sessions import RecordedDispatcher
from onrecord.capture.mcp.transports import RecordedManager

_CALLBACKS = ("_sampling_callback", "_elicitation_callback", "_list_roots_callback", "_logging_callback")


def patch(module: ModuleType, replace: Replace) -> None:
    if module.__name__ == "mcp.client.session":
        replace(module.ClientSession, "__init__", partial(_init_session, module))
    elif module.__name__ == "mcp.client._memory":
        replace(module.InMemoryTransport, "_connect", partial(_wrap_transport, _describe_memory))
    else:
        name, describe = _TRANSPORT_FUNCTIONS[module.__name__]
        original = module.__dict__[name]
        for owner in find_holders(name, original):
            replace(owner, name, partial(_wrap_transport, describe))


def _init_session(module: ModuleType, original: Callable[..., None], session: Any, *args: Any, **kwargs: Any) -> None:
    original(session, *args, **kwargs)
    if hasattr(session, "_dispatcher"):
        session._dispatcher = RecordedDispatcher(session._dispatcher, partial(_has_callbacks, module, session))


def _has_callbacks(module: ModuleType, session: Any) -> bool:
    """Return True if the program handles messages of the server other than answers."""
    defaults = {name: getattr(module, f"_default{name}", None) for name in (*_CALLBACKS, "_message_handler")}
    return any(getattr(session, name, default) is not default for name, default in defaults.items()) or bool(
        getattr(session, "_notification_bindings", None)
    )


def _wrap_transport(
    describe: Callable[..., Mapping[str, Any]], original: Callable[..., Any], *args: Any, **kwargs: Any
) -> Any:
    return RecordedManager(partial(original, *args, **kwargs), describe(*args, **kwargs))


def _describe_process(server: Any, *_: Any, **__: Any) -> dict[str, Any]:
    """Return the server's command line without its environment, which may hold secrets."""
    return {"transport": "stdio", "command": str(server.command), "args": [str(one) for one in server.args]}


def _describe_url(url: str, *_: Any, **__: Any) -> dict[str, Any]:
    return {"transport": "http", "url": str(url)}


def _describe_memory(*_: Any, **__: Any) -> dict[str, Any]:
    return {"transport": "memory"}


_TRANSPORT_FUNCTIONS: dict[str, tuple[str, Callable[..., dict[str, Any]]]] = {
    "mcp.client.stdio": ("stdio_client", _describe_process),
    "mcp.client.streamable_http": ("streamable_http_client", _describe_url),
    "mcp.client.sse": ("sse_client", _describe_url),
}
