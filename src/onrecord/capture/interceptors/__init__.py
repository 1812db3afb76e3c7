"""Interceptors: patches of libraries that record requests, clock readings, sleeps and random draws of a program."""

from __future__ import annotations

from onrecord.capture.interceptors.import_hooks import Interceptor, install, uninstall

_HTTP = (
    Interceptor("httpx", "onrecord.capture.interceptors.httpx_client"),
    Interceptor("httpx2", "onrecord.capture.interceptors.httpx_client"),
    Interceptor("requests.adapters", "onrecord.capture.interceptors.requests_adapter"),
    Interceptor("urllib3.connectionpool", "onrecord.capture.interceptors.urllib3_pool"),
    Interceptor("aiohttp.client", "onrecord.capture.interceptors.aiohttp_session"),
    Interceptor("http.client", "onrecord.capture.interceptors.http_client"),
)
_MCP = tuple(
    Interceptor(f"mcp.client.{name}", "onrecord.capture.interceptors.mcp_client")
    for name in ("session", "stdio", "streamable_http", "sse", "_memory")
)
_LOOPS = tuple(Interceptor(name, "onrecord.capture.interceptors.event_loops") for name in ("uvloop", "trio"))
_IDS = (Interceptor("uuid_utils._uuid_utils", "onrecord.capture.interceptors.uuid_utils_ids"),)


def install_http() -> None:
    """Record the requests of every known HTTP library as effects, now or once the library is imported."""
    install(_HTTP)


def uninstall_http() -> None:
    uninstall(_HTTP)


def install_mcp() -> None:
    """Record the requests of MCP client sessions as effects."""
    install(_MCP)


def uninstall_mcp() -> None:
    uninstall(_MCP)


def install_loops() -> None:
    """Replace uvloop by asyncio's loop, and refuse trio."""
    install(_LOOPS)


def uninstall_loops() -> None:
    uninstall(_LOOPS)


def install_ids() -> None:
    """Record the ids that uuid_utils makes as draws."""
    install(_IDS)


def uninstall_ids() -> None:
    uninstall(_IDS)
