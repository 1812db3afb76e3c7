"""Where a program touches the world, and where it is recorded when it does so in a run."""

from __future__ import annotations

from reenact.capture.seams.hooks import Seam, install, uninstall

_HTTP = (
    Seam("httpx", "reenact.capture.seams.httpx_clients"),
    Seam("httpx2", "reenact.capture.seams.httpx_clients"),
    Seam("requests.adapters", "reenact.capture.seams.requests_adapters"),
    Seam("urllib3.connectionpool", "reenact.capture.seams.urllib3_pools"),
    Seam("aiohttp.client", "reenact.capture.seams.aiohttp_sessions"),
    Seam("http.client", "reenact.capture.seams.http_client"),
)
_MCP = tuple(
    Seam(f"mcp.client.{name}", "reenact.capture.seams.mcp_clients")
    for name in ("session", "stdio", "streamable_http", "sse", "_memory")
)
_LOOPS = tuple(Seam(name, "reenact.capture.seams.loops") for name in ("uvloop", "trio"))


def install_http() -> None:
    """Requests of every known library become effects, now or as soon as the library is imported."""
    install(_HTTP)


def uninstall_http() -> None:
    uninstall(_HTTP)


def install_mcp() -> None:
    """What sessions of MCP clients ask of their servers becomes effects."""
    install(_MCP)


def uninstall_mcp() -> None:
    uninstall(_MCP)


def install_loops() -> None:
    """Loops that cannot be put in order are replaced, or refused."""
    install(_LOOPS)


def uninstall_loops() -> None:
    uninstall(_LOOPS)


__all__ = ["install_http", "install_loops", "install_mcp", "uninstall_http", "uninstall_loops", "uninstall_mcp"]
