"""WebSockets are not recorded, and never silently so: each is a hole with a name and a line, refused when strict."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiohttp import web

from kit.programs import onrecord

ON_A_USED_CONNECTION = """
import asyncio, sys
import aiohttp

async def main():
    async with aiohttp.ClientSession() as session:
        async with session.get(sys.argv[1] + "/page") as page:
            print(await page.text())
        async with session.ws_connect(sys.argv[1] + "/socket?key=secret-canary") as socket:
            await socket.send_str("hello")
            print((await socket.receive()).data)

asyncio.run(main())
"""
BY_ITSELF = """
import sys
from websockets.sync.client import connect
with connect(sys.argv[1].replace("http", "ws") + "/socket") as socket:
    socket.send("hello")
    print(socket.recv())
"""


@pytest.fixture
def url() -> Iterator[str]:
    loop, ready, address = asyncio.new_event_loop(), threading.Event(), []

    async def page(_: web.Request) -> web.Response:
        return web.Response(text="a page")

    async def socket(request: web.Request) -> web.WebSocketResponse:
        made = web.WebSocketResponse()
        await made.prepare(request)
        async for message in made:
            await made.send_str(f"heard {message.data}")
        return made

    async def serve() -> None:
        app = web.Application()
        app.add_routes([web.get("/page", page), web.get("/socket", socket)])
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        address.append(runner.addresses[0][1])
        ready.set()
        await stopping.wait()
        await runner.cleanup()

    stopping = asyncio.Event()
    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    assert ready.wait(30)
    yield f"http://127.0.0.1:{address[0]}"
    loop.call_soon_threadsafe(stopping.set)
    thread.join(30)
    loop.close()


@pytest.mark.parametrize("program", [ON_A_USED_CONNECTION, BY_ITSELF], ids=["aiohttp", "websockets"])
def test_a_websocket_is_a_hole_with_a_name(
    program: str, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ONRECORD_KEY_FILE", str(tmp_path / "keys.json"))
    monkeypatch.delenv("ONRECORD_STORE", raising=False)
    Path("program.py").write_text(program)
    done = onrecord("run", "program.py", url)
    assert (done.returncode, "heard hello" in done.stdout) == (0, True), done.stderr
    line = next(number for number, text in enumerate(program.splitlines(), start=1) if "connect(" in text)
    assert "not recorded: " in done.stderr, done.stderr
    assert f"at program.py:{line}" in done.stderr
    assert "canary" not in done.stderr
    if program == ON_A_USED_CONNECTION:
        assert "(WebSocket) to 127.0.0.1" in done.stderr
    refused = onrecord("run", "--strict", "program.py", url)
    assert (refused.returncode, "[unseen]" in refused.stderr) == (1, True), refused.stderr
    replayed = onrecord("replay", "@last~1")
    assert replayed.returncode == 1, "nothing connects in a replay"
