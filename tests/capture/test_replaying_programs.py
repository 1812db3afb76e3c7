"""How a program can be replayed besides exactly: loosely, by name; into a debugger; at its own pace. Durable sleeps."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from kit.programs import Server, onrecord
from kit.soak import SOAK, cases

pytestmark = pytest.mark.usefixtures("folder")

CALLS = """
import sys, httpx
url = sys.argv[1]
number = httpx.get(url + "/number").json()["number"]
said = httpx.post(url + "/echo", json={"text": "hello", "n": 1}).text
print(number, said)
"""
TASKS = """
import asyncio, sys, httpx
url = sys.argv[1]

async def main():
    async with httpx.AsyncClient() as client:
        for page in ("number", "second"):
            print((await client.get(f"{url}/{page}")).json()["number"])

asyncio.run(main())
"""


def record(text: str, *arguments: str, options: tuple[str, ...] = ()) -> str:
    Path("program.py").write_text(text)
    done = onrecord("run", *options, "--run-id", "one", "program.py", *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def change(text: str, before: str, after: str) -> None:
    assert before in text
    Path("program.py").write_text(text.replace(before, after, 1))


def timeline() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(onrecord("show", "one", "--json").stdout)["timeline"]
    return found


JOB = """
import asyncio, sys, httpx

async def main():
    print((await asyncio.to_thread(httpx.get, sys.argv[1] + "/number")).text)

asyncio.run(main())
"""


def test_a_replay_that_parts_in_a_job_of_a_loop_comes_to_an_end(server: Server) -> None:
    record(JOB, server.url)
    change(JOB, "/number", "/second")
    parted = onrecord("replay", "one")
    assert (parted.returncode, parted.stdout) == (1, ""), parted.stderr
    assert "recorded" in parted.stderr


# Loosely


def test_a_moved_call_is_tolerated_only_by_name(server: Server) -> None:
    said = record(CALLS, server.url)
    first, second = CALLS.splitlines()[3:5]
    change(CALLS, f"{first}\n{second}", f"{second}\n{first}")
    strict = onrecord("replay", "one")
    assert (strict.returncode, "[moved_request]" in strict.stderr) == (1, True), strict.stderr
    assert "--loose=moved" in strict.stderr
    assert onrecord("replay", "one", "--loose=content").returncode == 1
    loose = onrecord("replay", "one", "--loose=moved")
    assert (loose.returncode, loose.stdout) == (0, said), loose.stderr
    assert f"inexact: moved: POST 127.0.0.1:{server.port}/echo at program.py:4, answered by seq" in loose.stderr
    assert "but for 1 inexact match" in loose.stderr
    assert server.requests == 2


def test_a_moved_call_of_a_task(server: Server) -> None:
    record(TASKS, server.url)
    change(TASKS, '("number", "second")', '("second", "number")')
    assert onrecord("replay", "one").returncode == 1
    loose = onrecord("replay", "one", "--loose=moved", "--json")
    assert loose.returncode == 0, loose.stderr
    verdict = json.loads(loose.stdout)  # what the program says goes elsewhere
    assert (verdict["run"], verdict["status"], verdict["exit"]) == ("one", "same", 0)
    assert [one["tier"] for one in verdict["inexact"]] == ["moved"]
    assert server.requests == 2


def test_drifted_content_is_tolerated_only_by_name(server: Server) -> None:
    said = record(CALLS, server.url)
    change(CALLS, '"hello"', '"good day"')
    assert onrecord("replay", "one").returncode == 1
    assert onrecord("replay", "one", "--loose=moved").returncode == 1
    loose = onrecord("replay", "one", "--loose=moved,content", "--json")
    assert loose.returncode == 0, loose.stderr
    assert said in loose.stderr
    (inexact,) = json.loads(loose.stdout)["inexact"]
    assert (inexact["tier"], inexact["path"]) == ("content", "/payload/body/json/text")
    assert server.requests == 2


def test_another_model_or_address_is_no_drift(server: Server) -> None:
    chat = (
        'httpx.post(url + "/v1/chat/completions", json={"model": "m", "messages": [{"role": "user", "content": "a"}]})'
    )
    program = f"{CALLS}print({chat}.json()['id'])\n"
    record(program, server.url)
    change(program, '"content": "a"', '"content": "b"')
    assert onrecord("replay", "one", "--loose=content").returncode == 0
    change(program, '"model": "m"', '"model": "n"')
    assert onrecord("replay", "one", "--loose=content,moved").returncode == 1
    change(program, "/echo", "/echoes")
    assert onrecord("replay", "one", "--loose=content,moved").returncode == 1


def test_a_removed_call_is_never_tolerated(server: Server) -> None:
    record(CALLS, server.url)
    change(CALLS, 'httpx.post(url + "/echo", json={"text": "hello", "n": 1}).text', '"nothing"')
    done = onrecord("replay", "one", "--loose=content,moved")
    assert (done.returncode, "[missing_request]" in done.stderr) == (1, True), done.stderr


STREAM = """
import sys, httpx
def read(text):
    with httpx.stream("POST", sys.argv[1] + "/parts", json={"text": text}) as response:
        print(list(response.iter_text()))
read("one")
read("two")
"""
ASYNC_STREAM = """
import asyncio, sys, httpx
async def read(client, text):
    async with client.stream("POST", sys.argv[1] + "/parts", json={"text": text}) as response:
        print([part async for part in response.aiter_text()])
async def main():
    async with httpx.AsyncClient() as client:
        await read(client, "one")
        await read(client, "two")
asyncio.run(main())
"""
SDK_STREAM = """
import sys, openai
client = openai.OpenAI(base_url=sys.argv[1] + "/v1", api_key="none")
def read(text):
    messages = [{"role": "user", "content": text}]
    stream = client.chat.completions.create(model="m", messages=messages, stream=True)
    print([chunk.choices[0].delta.content for chunk in stream if chunk.choices])
read("one")
read("two")
"""
ASYNC_SDK_STREAM = """
import asyncio, sys, openai
async def read(client, text):
    messages = [{"role": "user", "content": text}]
    stream = await client.chat.completions.create(model="m", messages=messages, stream=True)
    print([chunk.choices[0].delta.content async for chunk in stream if chunk.choices])
async def main():
    client = openai.AsyncOpenAI(base_url=sys.argv[1] + "/v1", api_key="none")
    await read(client, "one")
    await read(client, "two")
asyncio.run(main())
"""
STREAMS = pytest.mark.parametrize("program", cases([STREAM, ASYNC_STREAM], [SDK_STREAM, ASYNC_SDK_STREAM]))


@STREAMS
def test_a_stream_whose_content_has_drifted_is_handed_over_part_by_part(program: str, server: Server) -> None:
    said = record(program, server.url)
    assert len(said.splitlines()) == 2
    unchanged = onrecord("replay", "one", "--loose=moved,content")
    assert (unchanged.returncode, unchanged.stdout) == (0, said), unchanged.stderr
    assert "inexact" not in unchanged.stderr
    change(program, '"two"', '"two of them"')
    for tiers in ("content", "moved,content"):
        loose = onrecord("replay", "one", f"--loose={tiers}")
        assert (loose.returncode, loose.stdout) == (0, said), loose.stderr
        assert "but for 1 inexact match" in loose.stderr
    assert server.requests == 2


@STREAMS
def test_a_stream_that_was_moved_is_handed_over_part_by_part(program: str, server: Server) -> None:
    said = record(program, server.url)
    change(program.replace('"one"', '"first"').replace('"two"', '"one"'), '"first"', '"two"')
    loose = onrecord("replay", "one", "--loose=moved")
    assert (loose.returncode, loose.stdout.splitlines()) == (0, said.splitlines()[::-1]), loose.stderr
    assert "inexact: moved" in loose.stderr
    assert server.requests == 2


def test_an_answer_in_another_form_is_no_drift(server: Server) -> None:
    record(SDK_STREAM, server.url)
    change(
        SDK_STREAM,
        ", stream=True)\n    print([chunk.choices[0].delta.content for chunk in stream if chunk.choices])",
        ")",
    )
    assert onrecord("replay", "one", "--loose=moved,content").returncode == 1


@pytest.mark.parametrize(
    ("whole", "in_parts"),
    [
        ('httpx.get(url + "/number").text', 'in_parts_blocking("GET", url + "/number")'),
        ('asyncio.run(main(whole("GET", url + "/number")))', 'asyncio.run(main(in_parts("GET", url + "/number")))'),
    ],
)
def test_what_was_read_as_a_whole_can_be_read_in_parts(whole: str, in_parts: str, server: Server) -> None:
    program = f"""
import asyncio, sys, httpx
url = sys.argv[1]

def in_parts_blocking(*asked):
    with httpx.stream(*asked) as response:
        return "".join(response.iter_text())

async def whole(*asked):
    async with httpx.AsyncClient() as client:
        return (await client.request(*asked)).text

async def in_parts(*asked):
    async with httpx.AsyncClient() as client, client.stream(*asked) as response:
        return "".join([part async for part in response.aiter_text()])

async def main(reading):
    return await reading

print({whole})
"""
    said = record(program, server.url)
    change(program, f"print({whole})", f"print({in_parts})")
    replayed = onrecord("replay", "one")
    assert (replayed.returncode, replayed.stdout) == (0, said), replayed.stderr
    assert server.requests == 1


@pytest.mark.parametrize("options", [["--loose=everything"], ["--loose="], ["--break-at", "0"]])
def test_what_nobody_can_ask_for(options: list[str], server: Server) -> None:
    record(CALLS, server.url)
    assert onrecord("replay", "one", *options).returncode == 2
    assert onrecord("resume", "one", "--loose=moved").returncode == 2, "never where something may run"
    assert onrecord("replay", "--all", "--loose=moved").returncode == 2


# Into the debugger


class Terminal:
    """A process that believes that somebody sits before it."""

    def __init__(self, *arguments: str) -> None:
        self._end, other = pty.openpty()
        command = [sys.executable, "-m", "onrecord.cli.main", *arguments]
        self.process = subprocess.Popen(command, stdin=other, stdout=other, stderr=other, close_fds=True)
        os.close(other)
        self.seen = ""

    def until(self, text: str, seconds: float = 60) -> str:
        """What came before that."""
        deadline, start = time.monotonic() + seconds, len(self.seen)
        while text not in self.seen[start:]:
            if not select.select([self._end], [], [], max(0.0, deadline - time.monotonic()))[0]:
                raise AssertionError(f"no {text!r} in {self.seen!r}")
            try:
                self.seen += os.read(self._end, 65536).decode()
            except OSError:  # the other end is closed
                break
        assert text in self.seen[start:], self.seen
        return self.seen[start:]

    def say(self, line: str) -> None:
        os.write(self._end, f"{line}\n".encode())

    def end(self) -> int:
        code = self.process.wait(60)
        os.close(self._end)
        return code


@pytest.mark.parametrize("program", [CALLS, TASKS])
def test_the_debugger_stops_where_the_effect_is_asked_for(program: str, server: Server) -> None:
    record(program, server.url)
    second = [one for one in timeline() if one["kind"] == "ActionRequested"][1]["seq"]
    terminal = Terminal("replay", "one", "--break-at", str(second))
    terminal.until("(Pdb)")
    assert f"onrecord: run one asks for seq {second}" in terminal.seen
    assert "program.py" in terminal.seen
    terminal.say("p 'url is', url")
    assert f"('url is', '{server.url}')" in terminal.until("(Pdb)").replace("\r", "")
    if program == CALLS:
        terminal.say("p number + 41")
        assert "42" in terminal.until("(Pdb)")
        terminal.say("n")  # the answer is handed over, and the program is a line further
        assert "print(number, said)" in terminal.until("(Pdb)")
    terminal.say("c")
    terminal.until("the same in all")
    assert terminal.end() == 0


def test_the_debugger_can_be_left(server: Server) -> None:
    record(CALLS, server.url)
    answer = next(one for one in timeline() if one["kind"] == "ActionSucceeded")["seq"]
    terminal = Terminal("replay", "one", "--break-at", str(answer))
    terminal.until("(Pdb)")
    terminal.say("q")
    terminal.until("[left_in_debugger]")
    assert terminal.end() == 1


def test_an_event_that_is_no_effect(server: Server) -> None:
    record(CALLS, server.url)
    done = onrecord("replay", "one", "--break-at", "999")
    assert (done.returncode, "[no_effect]" in done.stderr) == (2, True), done.stderr


# At its own pace


def test_parts_of_a_stream_come_when_they_came(server: Server) -> None:
    program = """
import sys, httpx
with httpx.stream("GET", sys.argv[1] + "/parts") as response:
    print(list(response.iter_text()))
"""
    said = record(program, server.url)
    parts = [one["content"]["chunk"] for one in timeline() if one["kind"] == "ChunkReceived"]
    last = parts[-1][0] / 1e6
    assert last >= 0.05
    began = time.monotonic()
    paced = onrecord("replay", "one", "--realtime")
    assert (paced.returncode, paced.stdout) == (0, said), paced.stderr
    assert time.monotonic() - began >= last


# Durable sleeps

SLEEPS = """
import asyncio, time
time.sleep(0.05)
asyncio.run(asyncio.sleep(0.05, "result"))

async def main():
    await asyncio.sleep(0)
    print(await asyncio.gather(asyncio.sleep(0.05, "a"), asyncio.wait_for(asyncio.sleep(0.05, "b"), 5)))
    print("ready", flush=True)
    await asyncio.sleep(2.0)
    print("slept")

asyncio.run(main())
"""


def test_a_sleep_is_over_when_it_was_to_be() -> None:
    Path("program.py").write_text(SLEEPS)
    command = [sys.executable, "-m", "onrecord.cli.main", "run", "--durable-sleeps", "--run-id", "one", "program.py"]
    begun = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert begun.stdout is not None
    assert begun.stdout.readline() == "['a', 'b']\n"
    assert begun.stdout.readline() == "ready\n"
    time.sleep(0.3)
    begun.send_signal(signal.SIGKILL)
    begun.communicate()
    asked = [one for one in timeline() if one["kind"] == "ActionRequested"]
    assert [one["content"]["name"] for one in asked] == ["sleep"] * 5
    time.sleep(2.0)  # by now it would have been over
    resumed = onrecord("resume", "one")
    assert (resumed.returncode, resumed.stdout) == (0, "['a', 'b']\nready\nslept\n"), resumed.stderr
    last = [one for one in timeline() if one["kind"] == "ActionRequested"][-1]
    assert len([one for one in timeline() if one["kind"] == "ActionRequested"]) == 5, "it did not begin anew"
    assert last["content"]["meta"]["due"] < time.time() * 1e6
    replayed = onrecord("replay", "one")
    assert (replayed.returncode, replayed.stdout) == (0, resumed.stdout), replayed.stderr


def test_without_being_asked_for_sleeps_are_no_effects() -> None:
    text = SLEEPS.replace("2.0", "0.01")
    said = record(text)
    assert not any(one["kind"] == "ActionRequested" for one in timeline())
    assert "slept" in said


# Daemon threads

POLLED = """
import {imports}sys, threading, time, httpx
url, seen = sys.argv[1], []

{poll}

threading.Thread(target=poll, daemon=True).start()
for turn in range(3):
    time.sleep(0.05)
    print(turn, httpx.post(url + "/echo", json={{"turn": turn}}).text)
"""
POLLS = {
    "requests": """
def poll():
    while True:
        seen.append(httpx.get(url + "/number").text)
        time.sleep(0.01)
""",
    "clock": """
def poll():
    while True:
        seen.append((time.time(), httpx.get(url + "/number").text))
        time.sleep(0.01)
""",
    "tasks": """
def poll():
    asyncio.run(main())

async def main():
    async with httpx.AsyncClient() as client:
        while True:
            seen.append((await client.get(url + "/number")).text)
            await asyncio.sleep(0.01)
""",
    "threads of its own": """
def poll():
    while True:
        below = threading.Thread(target=lambda: seen.append(httpx.get(url + "/number").text))
        below.start()
        below.join()
        time.sleep(0.01)
""",
}


@pytest.mark.parametrize("kind", POLLS if SOAK else ("requests", "tasks"))
def test_a_daemon_thread_that_polls_ends_with_the_program(kind: str, server: Server) -> None:
    said = record(POLLED.format(imports="asyncio, " if kind == "tasks" else "", poll=POLLS[kind]), server.url)
    asked = len(server.seen)
    for _ in range(2):
        replayed = onrecord("replay", "one")
        assert (replayed.returncode, replayed.stdout) == (0, said), replayed.stderr
    assert len(server.seen) == asked


def test_a_daemon_thread_that_asks_for_something_else_parts(server: Server) -> None:
    program = POLLED.format(imports="", poll=POLLS["requests"])
    record(program, server.url)
    change(program, "/number", "/other")
    replayed = onrecord("replay", "one")
    assert replayed.returncode == 1
    assert "/other" in replayed.stderr


# Threads that sleep

SLEEPERS = """
import queue, random, sys, threading, time, httpx
from concurrent.futures import ThreadPoolExecutor

url, done, told = sys.argv[1], [], queue.Queue()

def work(number):
    httpx.get(url + "/number")
    time.sleep(random.random() / 10)
    done.append(number)

def tell(number):
    for turn in range(3):
        time.sleep(random.random() / 50)
        told.put((number, turn))

with ThreadPoolExecutor(5) as pool:
    list(pool.map(work, range(5)))
print(httpx.post(url + "/echo", json=done).text)
threads = [threading.Thread(target=tell, args=(number,)) for number in range(4)]
for thread in threads:
    thread.start()
print([told.get() for _ in range(12)])
"""


def test_threads_wake_up_in_the_recorded_order(server: Server) -> None:
    said = record(SLEEPERS, server.url)
    for _ in range(3):
        replayed = onrecord("replay", "one")
        assert (replayed.returncode, replayed.stdout) == (0, said), replayed.stderr


# Nothing to compare


def test_a_run_that_died_before_it_did_anything_is_no_pass() -> None:
    Path("program.py").write_text("import os\nos.kill(os.getpid(), 9)\n")
    assert onrecord("run", "--run-id", "one", "program.py").returncode == -9
    replayed = onrecord("replay", "one")
    assert replayed.returncode == 1
    assert "[nothing_to_replay]" in replayed.stderr
