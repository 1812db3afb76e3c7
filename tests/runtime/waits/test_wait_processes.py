"""Waits among real processes: resolving at once, dying between the write and its acknowledgement, waiting elsewhere."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from waits_support import python

from reenact.core.wait_keys import Resolution, ResolveOutcome, WaitIdentity, WaitKey
from reenact.effect.keys import KeyRing
from reenact.effect.waits import WaitDesk
from reenact.store.opening import open_store

PROCESSES = 4
KEYS = 25
ROUNDS = 100 if os.environ.get("REENACT_SOAK") else 8
APPROVAL = WaitIdentity.named("approval")

BEGIN = """
import asyncio, json, sys, threading, time
from reenact.core.wait_keys import Resolution
from reenact.effect.waits import WaitDesk
from reenact.store.opening import open_store
store = open_store(sys.argv[1])
desk = WaitDesk(store)
def ready(): print("ready", flush=True); sys.stdin.readline()
"""
RESOLVE_ALL = (
    BEGIN
    + """
keys = json.loads(sys.argv[2])
ready()
outcomes = [desk.resolve(key, Resolution.ok([sys.argv[3], number])) for number, key in enumerate(keys)]
print(json.dumps([[one.status, one.terminal and one.terminal.value] for one in outcomes]), flush=True)
"""
)
RESOLVE_AND_HANG = (
    BEGIN
    + """
original = store.inbox_put
def hanging(*arguments):
    if not arguments[2].startswith("wait:"): return original(*arguments)
    if sys.argv[4] == "before": ready()
    row = original(*arguments)
    if sys.argv[4] == "after": ready()
    return row
store.inbox_put = hanging
print(desk.resolve(sys.argv[2], Resolution.ok(sys.argv[3])).status, flush=True)
"""
)
RESOLVE_NOW = (
    BEGIN
    + """
ready()
print(desk.resolve(sys.argv[2], Resolution.ok(sys.argv[3])).status, flush=True)
"""
)
WAIT = (
    BEGIN
    + """
threading.Thread(target=lambda: (time.sleep(0.3), print("ready", flush=True)), daemon=True).start()
print(json.dumps(desk.wait_blocking(sys.argv[2]).value), flush=True)
"""
)
WAIT_IN_TASK = (
    BEGIN
    + """
threading.Thread(target=lambda: (time.sleep(0.3), print("ready", flush=True)), daemon=True).start()
print(json.dumps(asyncio.run(desk.wait(sys.argv[2])).value), flush=True)
"""
)


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return str(tmp_path / "store.db")
    found: str = request.getfixturevalue("database_url")
    return found


@pytest.fixture
def desk(url: str, ring: KeyRing) -> Iterator[WaitDesk]:
    store = open_store(url)
    yield WaitDesk(store, keyring=ring)
    store.close()


Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start(url: str, key_file: Path, desk: WaitDesk) -> Iterator[Start]:
    """Starts a process and returns when it says `ready`. None is left behind."""
    children: list[subprocess.Popen[str]] = []

    def starting(code: str, *arguments: str) -> subprocess.Popen[str]:
        child = python(code, url, *arguments, key_file=key_file)
        children.append(child)
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n", child.communicate(timeout=60)[1]
        return child

    desk.keyring.current_id()
    yield starting
    for child in children:
        if child.poll() is None:
            child.kill()
        child.communicate(timeout=60)


def go_on(child: subprocess.Popen[str]) -> None:
    assert child.stdin is not None
    child.stdin.write("\n")
    child.stdin.flush()


def said_by(child: subprocess.Popen[str]) -> str:
    out, error = child.communicate(timeout=60)
    assert child.returncode == 0, error
    return out


def kill(child: subprocess.Popen[str]) -> None:
    child.send_signal(signal.SIGKILL)
    child.wait(60)


def test_processes_that_resolve_at_once(desk: WaitDesk, start: Start) -> None:
    keys = [desk.key(f"run-{number % 5}", WaitIdentity.named("wait", number + 1)) for number in range(KEYS)]
    texts = json.dumps([key.text for key in keys])
    children = [start(RESOLVE_ALL, texts, f"process-{number}") for number in range(PROCESSES)]
    for child in children:
        go_on(child)
    told = [json.loads(said_by(child)) for child in children]
    for number, key in enumerate(keys):
        ended = desk.peek(key)
        assert ended is not None
        accepted = [f"process-{at}" for at, outcomes in enumerate(told) if outcomes[number][0] == "accepted"]
        assert accepted == [ended.value[0]], "one was told that it was first, and it was"
        learned = [outcomes[number][1] for outcomes in told if outcomes[number][0] == "already_resolved"]
        assert learned == [ended.value] * (PROCESSES - 1)


def test_the_same_payload_at_once_has_one_first(desk: WaitDesk, start: Start) -> None:
    key = desk.key("run-1", APPROVAL)
    children = [start(RESOLVE_NOW, key.text, "yes") for _ in range(PROCESSES)]
    for child in children:
        go_on(child)
    statuses = sorted(said_by(child).strip() for child in children)
    assert statuses == ["accepted"] + ["already_resolved"] * (PROCESSES - 1)


def test_killed_after_the_write_and_before_the_acknowledgement(desk: WaitDesk, start: Start) -> None:
    key = desk.key("run-1", APPROVAL)
    kill(start(RESOLVE_AND_HANG, key.text, "yes", "after"))
    again = desk.resolve(key, Resolution.ok("yes"))
    assert again.stands(Resolution.ok("yes")), "whoever tries again is served"
    assert desk.resolve(key, Resolution.ok("no")) == ResolveOutcome.already_resolved(Resolution.ok("yes"))
    assert desk.wait_blocking(key) == Resolution.ok("yes")


def test_killed_before_the_write(desk: WaitDesk, start: Start) -> None:
    key = desk.key("run-1", APPROVAL)
    kill(start(RESOLVE_AND_HANG, key.text, "yes", "before"))
    assert desk.peek(key) is None
    assert desk.resolve(key, Resolution.ok("no")) == ResolveOutcome.accepted()


def test_killed_at_any_moment(desk: WaitDesk, start: Start) -> None:
    """The wait is either open or resolved with the payload, and trying again makes it the latter."""
    seed = random.randrange(2**32)
    moments = random.Random(seed)
    for number in range(1, ROUNDS + 1):
        key = desk.key("run-1", WaitIdentity.named("wait", number))
        child = start(RESOLVE_NOW, key.text, "yes")
        go_on(child)
        time.sleep(moments.random() * 0.02)
        kill(child)
        assert desk.peek(key) in (None, Resolution.ok("yes")), seed
        assert desk.resolve(key, Resolution.ok("yes")).stands(Resolution.ok("yes")), seed


@pytest.mark.parametrize("code", [WAIT, WAIT_IN_TASK], ids=["thread", "task"])
def test_another_process_waits(desk: WaitDesk, start: Start, code: str) -> None:
    key = desk.key("run-1", APPROVAL)
    child = start(code, key.text)
    desk.resolve(key, Resolution.ok("yes"))
    assert json.loads(said_by(child)) == "yes"


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT], ids=lambda how: how.name)
@pytest.mark.parametrize("code", [WAIT, WAIT_IN_TASK], ids=["thread", "task"])
def test_a_process_that_ends_only_suspends(desk: WaitDesk, start: Start, code: str, how: signal.Signals) -> None:
    key = desk.key("run-1", APPROVAL)
    child = start(code, key.text)
    child.send_signal(how)
    child.wait(60)
    assert desk.peek(key) is None
    follower = start(code, key.text)
    desk.resolve(key, Resolution.ok("yes"))
    assert json.loads(said_by(follower)) == "yes"


def test_a_wait_made_at_once_has_one_key(desk: WaitDesk, start: Start, key_file: Path) -> None:
    """Though some of the processes know a newer secret than others had when they looked."""
    code = BEGIN + (
        "from reenact.core.wait_keys import WaitIdentity\nready()\n"
        "print(json.dumps([desk.key('run-1', WaitIdentity.named('n', n + 1)).text for n in range(30)]), flush=True)\n"
    )
    children = [start(code) for _ in range(PROCESSES)]
    for child in children:
        go_on(child)
    for _ in range(3):
        desk.keyring.rotate()
    made = {said_by(child) for child in children}
    assert len(made) == 1
    for text in json.loads(made.pop()):
        assert desk.resolve(text, Resolution.ok()) == ResolveOutcome.accepted()


def test_one_key_resolved_by_hand(desk: WaitDesk, url: str, key_file: Path) -> None:
    key: WaitKey = desk.key("run-1", APPROVAL)
    done = subprocess.run(
        [sys.executable, "-m", "reenact.cli.main", "resolve", "-", "--value", '{"approved": true}', "--store", url],
        input=key.text,
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "REENACT_KEY_FILE": str(key_file)},
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "resolved\n")
    assert desk.wait_blocking(key) == Resolution.ok({"approved": True})
