"""An MCP server whose answers are numbered: by stdio, or by HTTP on the port that is named."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import anyio
from mcp.server.mcpserver import Context, MCPServer

server = MCPServer("shop")
ledger = Path(os.environ.get("SHOP_LEDGER", os.devnull))


def _number(what: str) -> int:
    with ledger.open("a") as file:
        file.write(f"{what}\n")
    return len(ledger.read_text().splitlines()) if ledger.is_file() else 0


@server.tool()
def order(item: str) -> str:
    """Orders one."""
    return f"{item} is order {_number(f'order {item}')}"


@server.tool()
def fail(reason: str) -> str:
    """Always fails."""
    raise ValueError(reason)


@server.tool()
async def slow(seconds: float) -> str:
    """Takes its time."""
    await anyio.sleep(seconds)
    return "at last"


@server.tool()
async def count(up_to: int, ctx: Context) -> str:
    """Tells how far it is."""
    for done in range(up_to):
        await ctx.report_progress(done + 1, up_to, f"step {done + 1}")
    return f"counted to {up_to}"


@server.resource("shop://hours")
def hours() -> str:
    """When it is open."""
    return f"9 to 5, asked {_number('hours')} times"


@server.prompt()
def greet(name: str) -> str:
    """How to greet."""
    return f"Greet {name}."


if __name__ == "__main__":
    if len(sys.argv) > 1:
        import uvicorn

        uvicorn.run(server.streamable_http_app(), host="127.0.0.1", port=int(sys.argv[1]), log_level="error")
    else:
        server.run("stdio")
