"""MCP over HTTP: parallel calls of a server that was started before."""

import asyncio
import os

from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client
from mcp_agent import report


async def main():
    async with (
        streamable_http_client(os.environ["FRAMEWORKS_MCP_URL"]) as streams,
        ClientSession(*streams[:2]) as session,
    ):
        await report(session)


asyncio.run(main())
