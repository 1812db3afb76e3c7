"""MCP over stdio: parallel calls of a server in a process of its own."""

import asyncio
import sys

from mcp import ClientSession, StdioServerParameters, stdio_client
from mcp_agent import report
from task import URL

server = StdioServerParameters(command=sys.executable, args=["mcp_server.py"], env={"FRAMEWORKS_URL": URL})


async def main():
    async with stdio_client(server) as streams, ClientSession(*streams) as session:
        await report(session)


asyncio.run(main())
