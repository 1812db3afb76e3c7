"""Programs with no line changed, in processes of their own: recorded, killed in mid-stream, resumed, replayed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import pytest

import onrecord
from kit.numbered_server import Server
from onrecord.capture.program_task import Program, ProgramTask
from onrecord.store.factory import open_store

PROGRAM = """
    import asyncio, sys, urllib.request
    import aiohttp, httpx, requests

    url = sys.argv[1]
    print(httpx.get(url + "/number").json()["number"])
    print(requests.get(url + "/number").json()["number"])
    with urllib.request.urlopen(url + "/number") as response:
        print(response.status, response.read().decode())
    with httpx.stream("GET", url + "/parts") as response:
        print(list(response.iter_text()))
    print([part.decode() for part in requests.get(url + "/parts", stream=True).iter_content(None)])

    async def main():
        async with httpx.AsyncClient() as client, aiohttp.ClientSession() as session:
            answers = await asyncio.gather(*(client.get(url + "/slow") for _ in range(5)))
            print([answer.json()["number"] for answer in answers])
            async with session.get(url + "/parts") as response:
                print([part.decode() async for part in response.content.iter_any()])
            async with client.stream("GET", url + "/parts") as response:
                print([part async for part in response.aiter_text()])

    asyncio.run(main())
    try:
        httpx.get("http://127.0.0.1:1/")
    except httpx.ConnectError as error:
        sys.exit(f"no server: {error}")
"""

STREAMING = """
    import sys, {imports}

    url = sys.argv[1]
    {first}
    print("after", flush=True)
"""
READERS = {
    "httpx": """
    with httpx.stream("GET", url + "/gated") as response:
        for part in response.iter_text():
            print(part, flush=True)""",
    "requests": """
    for part in requests.get(url + "/gated", stream=True).iter_content(None):
        print(part.decode(), flush=True)""",
    "aiohttp": """
    async def main():
        async with aiohttp.ClientSession() as session, session.get(url + "/gated") as response:
            async for part in response.content.iter_any():
                print(part.decode(), flush=True)
    asyncio.run(main())""",
}
IMPORTS = {"httpx": "httpx", "requests": "requests", "aiohttp": "aiohttp, asyncio"}


class Lab:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.store = str(folder / "store.db")
        self.program = folder / "program.py"

    def begin(self, mode: Any, *args: str) -> subprocess.Popen[str]:
        program = Program(path=str(self.program), args=args, cwd=str(self._folder))
        task = ProgramTask(program=program, run="r", mode=mode, store=self.store)
        environment = {**os.environ, **task.to_environment(), "PYTHONUNBUFFERED": "1"}
        return subprocess.Popen(
            [sys.executable, "-m", "onrecord.capture.entry"],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def carry(self, mode: Any, *args: str) -> tuple[int, str, str]:
        process = self.begin(mode, *args)
        said, problems = process.communicate(timeout=60)
        return process.returncode, said, problems

    def kinds(self) -> list[str]:
        store = open_store(self.store)
        try:
            return [entry.kind for entry in onrecord.JournalReader(store, "r").scan()]
        finally:
            store.close()


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path)


def test_a_program_is_recorded_and_replayed_with_the_server_gone(lab: Lab, server: Server) -> None:
    lab.program.write_text(textwrap.dedent(PROGRAM))
    code, said, problems = lab.carry("record", server.url)
    assert (code, "no server: " in problems) == (1, True), problems
    assert said.count("part 3 of") == 4
    asked, connections = server.requests, server.connections
    server.stop()
    assert lab.carry("replay", server.url)[:2] == (0, said)  # the same as recorded, whatever that was
    assert (server.requests, server.connections) == (asked, connections)


@pytest.mark.parametrize("client", list(READERS))
def test_a_process_killed_in_mid_stream(client: str, lab: Lab, server: Server) -> None:
    source = STREAMING.format(imports=IMPORTS[client], first=READERS[client].strip())
    lab.program.write_text(textwrap.dedent(source))
    process = lab.begin("record", server.url)
    assert process.stdout is not None
    assert "first" in process.stdout.readline()
    time.sleep(0.2)  # the second part comes at once
    process.send_signal(signal.SIGKILL)
    process.communicate()
    kinds = [kind for kind in lab.kinds() if kind in ("ActionRequested", "ChunkReceived", "ActionSucceeded")]
    assert kinds[0] == "ActionRequested"
    assert set(kinds[1:]) == {"ChunkReceived"}  # it is in doubt, with the parts so far
    server.gate.set()
    code, said, problems = lab.carry("resume", server.url)
    assert code == 0, problems
    assert said.replace("\n", "") == "first;second;last;after"  # nobody acted upon its parts: it is done again
    assert server.requests == 2
    server.stop()
    assert lab.carry("replay", server.url)[:2] == (0, said)


def test_a_stream_that_was_acted_upon_is_told_that_it_was_cut(lab: Lab, server: Server) -> None:
    lab.program.write_text(
        textwrap.dedent(
            """
            import sys, httpx
            url = sys.argv[1]
            try:
                with httpx.stream("GET", url + "/gated") as response:
                    for part in response.iter_text():
                        print(part, httpx.get(url + "/number").json()["number"], flush=True)
            except httpx.ReadError as error:
                print(error)
            """
        )
    )
    process = lab.begin("record", server.url)
    assert process.stdout is not None
    first = process.stdout.readline()
    time.sleep(0.3)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    server.gate.set()
    asked = server.requests
    code, said, problems = lab.carry("resume", server.url)
    assert code == 0, problems
    assert said.startswith(first)
    assert said.endswith("the stream was cut off when the process that read it died\n")
    assert server.requests == asked
    assert lab.carry("replay", server.url)[:2] == (0, said)


def test_a_post_killed_in_mid_stream_is_in_doubt(lab: Lab, server: Server) -> None:
    source = """
        import sys, httpx
        with httpx.stream("POST", sys.argv[1] + "/gated", content="x") as response:
            for part in response.iter_text():
                print(part, flush=True)
    """
    lab.program.write_text(textwrap.dedent(source))
    process = lab.begin("record", server.url)
    assert process.stdout is not None
    process.stdout.readline()
    process.send_signal(signal.SIGKILL)
    process.communicate()
    server.gate.set()
    code, _, problems = lab.carry("resume", server.url)
    assert code != 0
    assert "may have happened" in problems
    assert server.requests == 1


def test_fifty_turns_grow_linearly(lab: Lab, server: Server, tmp_path: Path) -> None:
    lab.program.write_text(
        textwrap.dedent(
            """
            import hashlib, sys, openai
            client = openai.OpenAI(base_url=sys.argv[1] + "/v1", api_key="k")
            messages = []
            for turn in range(50):
                text = "".join(hashlib.sha256(f"{turn} {n}".encode()).hexdigest() for n in range(16))
                messages.append({"role": "user", "content": text})
                answer = client.chat.completions.create(model="m", messages=messages)
                messages.append({"role": "assistant", "content": answer.choices[0].message.content})
            """
        )
    )
    code, _, problems = lab.carry("record", server.url)
    assert code == 0, problems
    store = open_store(lab.store)  # whoever opens it last folds the log into the file
    store.close()
    empty = tmp_path / "empty.db"
    open_store(str(empty)).close()
    grown = (tmp_path / "store.db").stat().st_size - empty.stat().st_size
    assert grown <= 260_000  # as often as it is repeated, the conversation has 1,300,000 bytes
