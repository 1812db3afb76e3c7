"""Programs with MCP sessions, no line changed: each request is an effect, whatever it travels by."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import pytest

from kit.paths import TESTS
from kit.programs import hide_optional_packages, onrecord

SHOP = TESTS / "kit" / "shop_server.py"
ASKS = """
    started = await session.initialize()
    print(started.server_info.name, [tool.name for tool in (await session.list_tools()).tools])
    print((await session.call_tool("order", {"item": "tea"})).content[0].text)
    failed = await session.call_tool("fail", {"reason": "closed"})
    print(failed.is_error, failed.content[0].text)
    print((await session.read_resource("shop://hours")).contents[0].text)
    print((await session.get_prompt("greet", {"name": "Ann"})).messages[0].content.text)

    async def told(done, total, message):
        print("progress", done, total, message)

    print((await session.call_tool("count", {"up_to": 3}, progress_callback=told)).content[0].text)
    try:
        await session.call_tool("slow", {"seconds": 60}, read_timeout_seconds=0.2)
    except MCPError as late:
        print("late", late.code, late)
    try:
        await session.read_resource("shop://nothing")
    except MCPError as missing:
        print("missing", missing.code)
"""
STDIO = """
import asyncio, sys
from mcp import ClientSession, MCPError, StdioServerParameters, stdio_client


async def ask(session):
{asks}

async def main():
    async with stdio_client(StdioServerParameters(command=sys.executable, args=["shop_server.py"])) as streams:
        async with ClientSession(*streams) as session:
            await ask(session)


asyncio.run(main())
"""
HTTP = """
import asyncio, sys
from mcp import ClientSession, MCPError
from mcp.client.streamable_http import streamable_http_client


async def ask(session):
{asks}

async def main():
    async with streamable_http_client(sys.argv[1]) as streams:
        async with ClientSession(*streams) as session:
            await ask(session)


asyncio.run(main())
"""
EXPECTED = """\
shop ['order', 'fail', 'slow', 'count']
tea is order 1
True Error executing tool fail
9 to 5, asked 2 times
Greet Ann.
progress 1.0 3.0 step 1
progress 2.0 3.0 step 2
progress 3.0 3.0 step 3
counted to 3
late -32001 Request 'tools/call' timed out
missing -32602
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ONRECORD_KEY_FILE", str(tmp_path / "keys.json"))
    monkeypatch.delenv("ONRECORD_STORE", raising=False)
    hide_optional_packages(monkeypatch)
    shutil.copy(SHOP, tmp_path / "shop_server.py")
    return tmp_path


def write(text: str) -> None:
    Path("program.py").write_text(text)


def requests(run: str = "one") -> list[dict[str, Any]]:
    shown = json.loads(onrecord("show", run, "--json").stdout)
    return [event["content"] for event in shown["timeline"] if event["kind"] == "ActionRequested"]


def ledger() -> list[str]:
    return Path("ledger").read_text().splitlines()


def with_ledger(program: str) -> str:
    """A server's process is given little of the environment: what it needs is named."""
    return program.replace('args=["shop_server.py"]', 'args=["shop_server.py"], env={"SHOP_LEDGER": "ledger"}')


@pytest.fixture(scope="module")
def over_stdio(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, subprocess.CompletedProcess[str]]:
    """Return the folder in which a session over stdio was recorded, and how the recording ended."""
    folder = tmp_path_factory.mktemp("stdio")
    shutil.copy(SHOP, folder / "shop_server.py")
    (folder / "program.py").write_text(with_ledger(STDIO.format(asks=ASKS)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ONRECORD_KEY_FILE", str(folder / "keys.json"))
        patch.delenv("ONRECORD_STORE", raising=False)
        hide_optional_packages(patch)
        # Strict: the server's process is no hole.
        return folder, onrecord("run", "--strict", "--run-id", "one", "program.py", cwd=folder)


def test_over_stdio_with_the_server_gone(
    over_stdio: tuple[Path, subprocess.CompletedProcess[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, recorded = over_stdio
    monkeypatch.chdir(folder)
    write(with_ledger(STDIO.format(asks=ASKS)))
    assert (recorded.returncode, recorded.stdout) == (0, EXPECTED), recorded.stderr
    assert "unseen" not in recorded.stderr
    Path("shop_server.py").unlink(missing_ok=True)
    told = ledger()
    replayed = onrecord("replay", "one")
    assert (replayed.returncode, replayed.stdout) == (0, EXPECTED), replayed.stderr
    assert ledger() == told
    asked = [(one["name"], one["effect"]) for one in requests()]
    assert ("mcp order", "tool_call") in asked
    assert [name for name, _ in asked].count("mcp count") == 1


def test_over_http_one_request_is_one_effect(folder: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = {**os.environ, "SHOP_LEDGER": str(folder / "ledger")}
    serving = subprocess.Popen(
        [sys.executable, "shop_server.py", str(port)], env=environment, stderr=subprocess.DEVNULL
    )
    try:
        for _ in range(200):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.1)
        write(HTTP.format(asks=ASKS))
        recorded = onrecord("run", "--strict", "--run-id", "one", "program.py", f"http://127.0.0.1:{port}/mcp")
    finally:
        serving.kill()
        serving.wait()
    assert (recorded.returncode, recorded.stdout) == (0, EXPECTED), recorded.stderr
    replayed = onrecord("replay", "one")
    assert (replayed.returncode, replayed.stdout) == (0, EXPECTED), replayed.stderr
    assert {one["name"].partition(" ")[0] for one in requests()} == {"mcp"}, "no request of HTTP by itself"


IN_MEMORY = """
import asyncio, sys, random
import httpx
from mcp.client import Client
from mcp.server.mcpserver import MCPServer

server = MCPServer("inner")


@server.tool()
def draw(number: int) -> float:
    print("the tool runs", file=sys.stderr)
    return random.random()


async def main():
    for mode in ("auto", "legacy"):
        async with Client(server, mode=mode) as client:
            answers = await asyncio.gather(*(client.call_tool("draw", {"number": number % 2}) for number in range(8)))
            print([answer.content[0].text for answer in answers])


asyncio.run(main())
"""


def test_a_server_in_the_same_process_is_not_asked_again() -> None:
    write(IN_MEMORY)
    recorded = onrecord("run", "--run-id", "one", "program.py")
    assert recorded.returncode == 0, recorded.stderr
    assert recorded.stderr.count("the tool runs") == 16
    replayed = onrecord("replay", "one")
    assert (replayed.returncode, replayed.stdout) == (0, recorded.stdout), replayed.stderr
    assert "the tool runs" not in replayed.stderr


def test_killed_it_goes_on_with_a_new_server() -> None:
    asks = """
    await session.initialize()
    print((await session.call_tool("order", {"item": "tea"})).content[0].text)
    if os.path.exists("die"):
        os.unlink("die")
        os.kill(os.getpid(), signal.SIGKILL)
    print((await session.call_tool("order", {"item": "milk"})).content[0].text)
"""
    write(with_ledger("import os, signal\n" + STDIO.format(asks=asks)))
    Path("die").touch()
    killed = onrecord("run", "--run-id", "one", "program.py")
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    resumed = onrecord("resume", "one")
    assert (resumed.returncode, resumed.stdout) == (0, "tea is order 1\nmilk is order 2\n"), resumed.stderr
    assert ledger() == ["order tea", "order milk"]
    replayed = onrecord("replay", "one")
    assert (replayed.returncode, replayed.stdout) == (0, resumed.stdout), replayed.stderr


def test_a_tool_that_may_have_acted_is_in_doubt() -> None:
    asks = """
    await session.initialize()
    asyncio.get_running_loop().call_later(0.5, os.kill, os.getpid(), signal.SIGKILL)
    print(await session.call_tool("slow", {"seconds": 60}))
"""
    write("import os, signal\n" + STDIO.format(asks=asks))
    assert onrecord("run", "--run-id", "one", "program.py").returncode == -signal.SIGKILL
    resumed = onrecord("resume", "one")
    assert resumed.returncode == 6, resumed.stderr
    assert "mcp slow at seq" in resumed.stderr


def test_a_server_that_cannot_be_started_is_so_again() -> None:
    text = """
        import asyncio
        from mcp import StdioServerParameters, stdio_client
        async def main():
            try:
                async with stdio_client(StdioServerParameters(command="./no-such-server")) as streams:
                    print("never")
            except FileNotFoundError as error:
                print("none", error.errno)
        asyncio.run(main())
    """
    write(textwrap.dedent(text))
    recorded = onrecord("run", "--run-id", "one", "program.py")
    assert recorded.stdout == "none 2\n", recorded.stderr
    Path("no-such-server").touch(mode=0o755)
    replayed = onrecord("replay", "one")
    assert (replayed.returncode, replayed.stdout) == (0, recorded.stdout), replayed.stderr


CALLBACKS = """
import asyncio, random, sys, warnings
import mcp_types as types
from mcp.client import Client
from mcp.server.mcpserver import Context, MCPServer

warnings.simplefilter("ignore")
server = MCPServer("inner")


@server.tool()
async def consult(ctx: Context) -> str:
    await ctx.info("about to ask")
    message = types.SamplingMessage(role="user", content=types.TextContent(type="text", text="what now?"))
    answer = await ctx.session.create_message(messages=[message], max_tokens=9)
    return f"the client says {answer.content.text}"


async def sample(context, params):
    print("asked:", params.messages[0].content.text)
    content = types.TextContent(type="text", text=f"drawn {random.random()}")
    return types.CreateMessageResult(role="assistant", content=content, model="m", stop_reason="endTurn")


async def log(params):
    print("logged:", params.data)


async def main():
    async with Client(server, mode="legacy", sampling_callback=sample, logging_callback=log) as client:
        print((await client.call_tool("consult")).content[0].text)
    print(random.random())


asyncio.run(main())
"""


def test_callbacks_are_called_in_every_replay() -> None:
    write(CALLBACKS)
    recorded = onrecord("run", "--run-id", "one", "program.py")
    lines = recorded.stdout.splitlines()
    assert lines[:2] == ["logged: about to ask", "asked: what now?"], recorded.stderr
    assert lines[2].startswith("the client says drawn 0.")
    replayed = onrecord("replay", "one")
    assert (replayed.returncode, replayed.stdout) == (0, recorded.stdout), replayed.stderr


def test_a_changed_call_is_a_divergence_that_asks_nobody(
    over_stdio: tuple[Path, subprocess.CompletedProcess[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, _ = over_stdio
    monkeypatch.chdir(folder)
    write(with_ledger(STDIO.format(asks=ASKS.replace('"tea"', '"coffee"'))))
    told = ledger()
    replayed = onrecord("replay", "one")
    assert replayed.returncode == 1
    assert "/payload/params/arguments/item differs" in replayed.stderr
    assert ledger() == told


def test_without_a_run_a_session_is_as_it_was() -> None:
    text = """
        import asyncio, sys
        from onrecord.capture.interceptors import install_mcp
        install_mcp()
        import mcp
        async def main():
            params = mcp.StdioServerParameters(command=sys.executable, args=["shop_server.py"])
            async with mcp.stdio_client(params) as streams, mcp.ClientSession(*streams) as session:
                await session.initialize()
                print((await session.call_tool("order", {"item": "tea"})).content[0].text)
        asyncio.run(main())
    """
    write(textwrap.dedent(text))
    done = subprocess.run([sys.executable, "program.py"], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "tea is order 0\n"), done.stderr
