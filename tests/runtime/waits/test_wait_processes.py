"""Waits among real processes: resolving at once, dying between the write and its acknowledgement, waiting elsewhere."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kit import command_server
from kit.soak import SOAK, cases
from kit.waits import Child
from onrecord.core.wait_keys import Resolution, ResolveOutcome, WaitIdentity, WaitKey
from onrecord.runtime.secrets.keys import KeyRing
from onrecord.runtime.waits import WaitRegistry
from onrecord.store.factory import open_store

PROCESSES = 4
KEYS = 25
ROUNDS = 100 if SOAK else 2
APPROVAL = WaitIdentity.named("approval")

BEGIN = """
import asyncio, json, sys, threading, time
from onrecord.core.wait_keys import Resolution
from onrecord.runtime.waits import WaitRegistry
from onrecord.store.factory import open_store
store = open_store(sys.argv[1])
desk = WaitRegistry(store)
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
def look():
    while not desk._notifier.count_waiters(): time.sleep(0.001)
    print("ready", flush=True)
threading.Thread(target=look, daemon=True).start()
print(json.dumps(desk.wait_blocking(sys.argv[2]).value), flush=True)
"""
)
WAIT_IN_TASK = (
    BEGIN
    + """
def look():
    while not desk._notifier.count_waiters(): time.sleep(0.001)
    print("ready", flush=True)
threading.Thread(target=look, daemon=True).start()
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
def desk(url: str, ring: KeyRing) -> Iterator[WaitRegistry]:
    store = open_store(url)
    yield WaitRegistry(store, keyring=ring)
    store.close()


Start = Callable[..., Child]


@pytest.fixture
def start(url: str, key_file: Path, desk: WaitRegistry) -> Iterator[Start]:
    """Return a function that starts a process and returns when it is ready. End the processes after the test."""
    children: list[Child] = []

    def start_child(code: str, *arguments: str) -> Child:
        child = Child(code, url, *arguments, key_file=key_file)
        children.append(child)
        child.wait_until_ready()
        return child

    desk.keyring.current_id()
    yield start_child
    for child in children:
        child.close()


def test_processes_that_resolve_at_once(desk: WaitRegistry, start: Start) -> None:
    keys = [desk.key(f"run-{number % 5}", WaitIdentity.named("wait", number + 1)) for number in range(KEYS)]
    texts = json.dumps([key.text for key in keys])
    children = [start(RESOLVE_ALL, texts, f"process-{number}") for number in range(PROCESSES)]
    for child in children:
        child.go_on()
    told = [json.loads(child.read()) for child in children]
    for number, key in enumerate(keys):
        ended = desk.peek(key)
        assert ended is not None
        accepted = [f"process-{at}" for at, outcomes in enumerate(told) if outcomes[number][0] == "accepted"]
        assert accepted == [ended.value[0]], "one was told that it was first, and it was"
        learned = [outcomes[number][1] for outcomes in told if outcomes[number][0] == "already_resolved"]
        assert learned == [ended.value] * (PROCESSES - 1)


def test_the_same_payload_at_once_has_one_first(desk: WaitRegistry, start: Start) -> None:
    key = desk.key("run-1", APPROVAL)
    children = [start(RESOLVE_NOW, key.text, "yes") for _ in range(PROCESSES)]
    for child in children:
        child.go_on()
    statuses = sorted(child.read().strip() for child in children)
    assert statuses == ["accepted"] + ["already_resolved"] * (PROCESSES - 1)


def test_killed_after_the_write_and_before_the_acknowledgement(desk: WaitRegistry, start: Start) -> None:
    key = desk.key("run-1", APPROVAL)
    start(RESOLVE_AND_HANG, key.text, "yes", "after").send_signal(signal.SIGKILL)
    again = desk.resolve(key, Resolution.ok("yes"))
    assert again.confirms(Resolution.ok("yes")), "whoever tries again is served"
    assert desk.resolve(key, Resolution.ok("no")) == ResolveOutcome.already_resolved(Resolution.ok("yes"))
    assert desk.wait_blocking(key) == Resolution.ok("yes")


def test_killed_before_the_write(desk: WaitRegistry, start: Start) -> None:
    key = desk.key("run-1", APPROVAL)
    start(RESOLVE_AND_HANG, key.text, "yes", "before").send_signal(signal.SIGKILL)
    assert desk.peek(key) is None
    assert desk.resolve(key, Resolution.ok("no")) == ResolveOutcome.accepted()


def test_killed_at_any_moment(desk: WaitRegistry, start: Start) -> None:
    """The wait is either open or resolved with the payload, and trying again makes it the latter."""
    seed = random.randrange(2**32)
    moments = random.Random(seed)
    for number in range(1, ROUNDS + 1):
        key = desk.key("run-1", WaitIdentity.named("wait", number))
        child = start(RESOLVE_NOW, key.text, "yes")
        child.go_on()
        time.sleep(moments.random() * 0.02)
        child.send_signal(signal.SIGKILL)
        assert desk.peek(key) in (None, Resolution.ok("yes")), seed
        assert desk.resolve(key, Resolution.ok("yes")).confirms(Resolution.ok("yes")), seed


@pytest.mark.parametrize("code", [WAIT, WAIT_IN_TASK], ids=["thread", "task"])
def test_another_process_waits(desk: WaitRegistry, start: Start, code: str) -> None:
    key = desk.key("run-1", APPROVAL)
    child = start(code, key.text)
    desk.resolve(key, Resolution.ok("yes"))
    assert json.loads(child.read()) == "yes"


ENDS = ("SIGKILL", "SIGTERM", "SIGINT")
WAITS = {"thread": WAIT, "task": WAIT_IN_TASK}


@pytest.mark.parametrize(
    ("url", "wait", "end"),
    cases(
        [*(("sqlite", wait, end) for wait in WAITS for end in ENDS), ("postgres", "thread", "SIGKILL")],
        [("postgres", wait, end) for wait in WAITS for end in ENDS if (wait, end) != ("thread", "SIGKILL")],
    ),
    indirect=["url"],
)
def test_a_process_that_ends_only_suspends(desk: WaitRegistry, start: Start, wait: str, end: str) -> None:
    code = WAITS[wait]
    key = desk.key("run-1", APPROVAL)
    child = start(code, key.text)
    child.send_signal(signal.Signals[end])
    assert desk.peek(key) is None
    follower = start(code, key.text)
    desk.resolve(key, Resolution.ok("yes"))
    assert json.loads(follower.read()) == "yes"


def test_a_wait_made_at_once_has_one_key(desk: WaitRegistry, start: Start, key_file: Path) -> None:
    """Though some of the processes know a newer secret than others had when they looked."""
    code = BEGIN + (
        "from onrecord.core.wait_keys import WaitIdentity\nready()\n"
        "print(json.dumps([desk.key('run-1', WaitIdentity.named('n', n + 1)).text for n in range(30)]), flush=True)\n"
    )
    children = [start(code) for _ in range(PROCESSES)]
    for child in children:
        child.go_on()
    for _ in range(3):
        desk.keyring.rotate()
    made = {child.read() for child in children}
    assert len(made) == 1
    for text in json.loads(made.pop()):
        assert desk.resolve(text, Resolution.ok()) == ResolveOutcome.accepted()


def test_one_key_resolved_by_hand(desk: WaitRegistry, url: str, key_file: Path) -> None:
    key: WaitKey = desk.key("run-1", APPROVAL)
    done = command_server.call(
        ["resolve", "-", "--value", '{"approved": true}', "--store", url],
        input=key.text,
        env={**os.environ, "ONRECORD_KEY_FILE": str(key_file)},
    )
    assert (done.returncode, done.stderr) == (0, "resolved\n")
    assert desk.wait_blocking(key) == Resolution.ok({"approved": True})
