"""Other HTTP clients than that of the model."""

import asyncio
import http.client
import urllib.request
from urllib.parse import urlsplit

import aiohttp
import httpx
import requests

from kit import URL, say

say("requests", requests.get(f"{URL}/number").text)
say("httpx", httpx.get(f"{URL}/number").text)
with urllib.request.urlopen(f"{URL}/number") as response:
    say("urllib", response.read().decode())
connection = http.client.HTTPConnection(urlsplit(URL).netloc)
connection.request("GET", "/number")
say("http.client", connection.getresponse().read().decode())
connection.close()


async def main() -> None:
    async with aiohttp.ClientSession() as session, session.get(f"{URL}/number") as answer:
        say("aiohttp", await answer.text())


asyncio.run(main())
