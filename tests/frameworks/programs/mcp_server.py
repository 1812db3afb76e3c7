"""A tool server that asks the model: over stdio, or over HTTP on the port that is named."""

import json
import sys
import urllib.request

import anyio
from mcp.server.mcpserver import MCPServer
from task import URL, prompt

server = MCPServer("weather")


@server.tool()
async def weather(city: str) -> str:
    """Return the weather of a city."""
    return await anyio.to_thread.run_sync(ask, prompt(city).replace("busy", "quiet"))


def ask(text: str) -> str:
    body = {"model": "gpt-4o-mini", "messages": [{"role": "user", "content": text}]}
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(f"{URL}/v1/chat/completions", json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)["choices"][0]["message"]["content"]


if __name__ == "__main__":
    if len(sys.argv) > 1:
        server.run("streamable-http", port=int(sys.argv[1]))
    else:
        server.run("stdio")
