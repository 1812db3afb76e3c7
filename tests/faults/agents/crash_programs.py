"""Small agents, one for every kind of effect, and one that has them all. Each keeps the ledger."""

from __future__ import annotations

import asyncio
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import onrecord
from kit import crash_ledger
from kit.crash_effects import did, saw
from onrecord.core.wait_keys import Resolution
from onrecord.runtime.engine.context import current_effect
from onrecord.runtime.waits import WaitRegistry

QUICK_RETRY = onrecord.Retry(attempts=6, delay_seconds=0.001, jitter=0.0)


# Effects


@onrecord.tool
async def mail(book: str, tag: str, given: Any = None) -> str:
    return did(book, tag, given)


@onrecord.tool(idempotent=True)
async def upsert(book: str, tag: str) -> str:
    return did(book, tag)


@onrecord.step
async def compute(book: str, tag: str, given: Any = None) -> str:
    return did(book, tag, given)


@onrecord.tool
def mail_blocking(book: str, tag: str) -> str:
    return did(book, tag)


@onrecord.step
def compute_blocking(book: str, tag: str) -> str:
    return did(book, tag)


@onrecord.step(retry=QUICK_RETRY)
async def flaky(book: str, tag: str) -> str:
    value = did(book, tag)
    if len(crash_ledger.done(book, tag)) < 3:
        raise ConnectionError("not yet")
    return value


@onrecord.tool
async def refused_by_the_world(book: str, tag: str) -> str:
    raise ValueError(did(book, tag))


@onrecord.step
async def ask(book: str, tag: str, key: str) -> str:
    """Sends the key to somebody who answers before anybody waits."""
    value = did(book, tag)
    place = current_effect()
    assert place is not None
    desk: WaitRegistry = place.run.desk()
    await asyncio.to_thread(desk.resolve, key, Resolution.ok("yes"))
    return value


# Agents: (the ledger's path) → what they saw


@onrecord.agent
async def tool_agent(book: str) -> Any:
    return [saw(book, f"once {n}", await mail(book, f"once {n}")) for n in range(2)]


@onrecord.agent
async def idempotent_agent(book: str) -> Any:
    return [saw(book, f"again {n}", await upsert(book, f"again {n}")) for n in range(2)]


@onrecord.agent
async def step_agent(book: str) -> Any:
    found = [saw(book, f"again {n}", await compute(book, f"again {n}")) for n in range(2)]
    return [*found, saw(book, "again inline", await onrecord.run_step("inline", did_async, book, "again inline"))]


async def did_async(book: str, tag: str) -> str:
    return did(book, tag)


@onrecord.agent
def sync_agent(book: str) -> Any:
    first = saw(book, "once 1", mail_blocking(book, "once 1"))
    return [first, saw(book, "again 2", compute_blocking(book, "again 2"))]


@onrecord.agent
async def blocking_in_a_loop_agent(book: str) -> Any:
    first = saw(book, "once 1", mail_blocking(book, "once 1"))
    return [first, saw(book, "again 2", compute_blocking(book, "again 2"))]


@onrecord.agent
def threads_agent(book: str) -> Any:
    found: dict[int, str] = {}

    def work(number: int) -> None:
        found[number] = saw(book, f"once {number}", mail_blocking(book, f"once {number}"))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [found[number] for number in range(2)]


@onrecord.agent
async def to_thread_agent(book: str) -> Any:
    def job(number: int) -> str:
        value: str = saw(book, f"once {number}", mail_blocking(book, f"once {number}"))
        return value

    return list(await asyncio.gather(*(asyncio.to_thread(job, number) for number in range(2))))


@onrecord.agent
async def sleep_agent(book: str) -> Any:
    first = saw(book, "again 1", await compute(book, "again 1"))
    await onrecord.sleep(0.005)
    return [first, saw(book, "once 2", await mail(book, "once 2"))]


@onrecord.agent
def blocking_sleep_agent(book: str) -> Any:
    onrecord.sleep(0.005)
    return saw(book, "once 1", mail_blocking(book, "once 1"))


@onrecord.agent
async def wait_agent(book: str) -> Any:
    asked = saw(book, "again ask", await ask(book, "again ask", onrecord.wait_key("approval")))
    answer = saw(book, "answer", await onrecord.wait_for("approval", timeout=60))
    return [asked, answer, saw(book, "once 2", await mail(book, "once 2", answer))]


@onrecord.agent
async def timed_wait_agent(book: str) -> Any:
    try:
        await onrecord.wait_for("nobody answers", timeout=0.005)
    except TimeoutError:
        return saw(book, "once late", await mail(book, "once late"))


@onrecord.agent
async def grown_child(book: str, name: str) -> Any:
    first = saw(book, f"once {name}", await mail(book, f"once {name}"))
    return [first, saw(book, f"again {name}", await compute(book, f"again {name}"))]


@onrecord.agent
async def parent_agent(book: str) -> Any:
    found = saw(book, "child", await grown_child(book, "in the child"))
    return [found, saw(book, "once 2", await mail(book, "once 2"))]


@onrecord.agent
def sync_child(book: str, name: str) -> Any:
    return saw(book, f"once {name}", mail_blocking(book, f"once {name}"))


@onrecord.agent
def sync_parent_agent(book: str) -> Any:
    found = saw(book, "child", sync_child(book, "in the child"))
    return [found, saw(book, "again 2", compute_blocking(book, "again 2"))]


@onrecord.agent
async def state_agent(book: str) -> Any:
    drawn = [str(onrecord.uuid()), onrecord.random(), onrecord.now().isoformat()]
    onrecord.set_state({"drawn": drawn})
    first = saw(book, "once 1", await mail(book, "once 1", drawn))
    onrecord.set_state({"first": first, "more": onrecord.random()})
    second = saw(book, "again 2", await compute(book, "again 2", onrecord.state()))
    onrecord.set_state({"second": second})
    return [drawn, first, second, onrecord.state()]


@onrecord.agent
async def retry_agent(book: str) -> Any:
    first = saw(book, "again flaky", await flaky(book, "again flaky"))
    return [first, saw(book, "once 2", await mail(book, "once 2"))]


@onrecord.agent
async def failing_agent(book: str) -> Any:
    try:
        await refused_by_the_world(book, "once refused")
    except (ValueError, onrecord.OnrecordError) as error:  # an operator may have said so instead
        return saw(book, "once refused", getattr(error, "message", None) or str(error))


@onrecord.agent
async def gather_agent(book: str) -> Any:
    async def one(number: int) -> Any:
        effect = (mail, compute, upsert)[number % 3]
        tag = f"{('once', 'again', 'again')[number % 3]} {number}"
        if number % 2:
            await onrecord.sleep(0.002)
        return saw(book, tag, await effect(book, tag))

    return list(await asyncio.gather(*(one(number) for number in range(4))))


@onrecord.agent(policy=onrecord.Policy(allow=["mail"]))
async def denied_agent(book: str) -> Any:
    try:
        await compute(book, "never")
    except onrecord.Denied as denial:
        return [denial.code, saw(book, "once 1", await mail(book, "once 1"))]


@onrecord.agent
async def everything_agent(book: str) -> Any:
    """All kinds in one run, some of them at once."""
    drawn = onrecord.random()
    onrecord.set_state({"drawn": drawn})
    first = saw(book, "once first", await mail(book, "once first", drawn))

    async def branch(number: int) -> Any:
        if number == 0:
            return saw(book, "once job", await asyncio.to_thread(mail_blocking, book, "once job"))
        if number == 1:
            await onrecord.sleep(0.003)
            return saw(book, "again branch", await compute(book, "again branch", number))
        return saw(book, "again flaky", await flaky(book, "again flaky"))

    found = list(await asyncio.gather(*(branch(number) for number in range(3))))
    grown = saw(book, "child", await grown_child(book, "in the child"))
    blocked = saw(book, "once blocked", mail_blocking(book, "once blocked"))
    asked = saw(book, "again ask", await ask(book, "again ask", onrecord.wait_key("approval")))
    answer = saw(book, "answer", await onrecord.wait_for("approval", timeout=60))
    onrecord.set_state({"answer": answer})
    last = saw(book, "once last", await mail(book, "once last", [answer, onrecord.random()]))
    return [first, found, grown, blocked, asked, answer, last, saw(book, "again end", await upsert(book, "again end"))]


# Agents that stand still until somebody says `go`: a file beside the ledger


def may_go(book: str) -> bool:
    return Path(f"{book}.go").exists()


async def until_may_go(book: str) -> None:
    """The loop sleeps meanwhile, and somebody else looks. A signal handler that raises while a loop of asyncio is at
    work may cost it the callback that it was about to run: then a task of it never ends, with an agent or without."""
    loop, may = asyncio.get_running_loop(), asyncio.Event()

    def look() -> None:
        while not may_go(book):
            time.sleep(0.01)
        with suppress(RuntimeError):  # the loop may be gone
            loop.call_soon_threadsafe(may.set)

    threading.Thread(target=look, daemon=True).start()
    await may.wait()


@onrecord.step
async def long_step(book: str, tag: str) -> str:
    value = did(book, tag)
    await until_may_go(book)
    return value


@onrecord.tool
async def long_mail(book: str, tag: str) -> str:
    value = did(book, tag)
    await until_may_go(book)
    return value


@onrecord.tool
def long_mail_blocking(book: str, tag: str) -> str:
    value = did(book, tag)
    while not may_go(book):
        time.sleep(0.01)
    return value


@onrecord.agent
async def long_step_agent(book: str) -> Any:
    first = saw(book, "once 1", await mail(book, "once 1"))
    try:
        second = saw(book, "again long", await long_step(book, "again long"))
    finally:
        # Cleaning up goes through the boundary too: a process that shuts down must not have it recorded.
        third = await mail(book, "once cleaned up")
    return [first, second, saw(book, "once cleaned up", third)]


@onrecord.agent
async def long_tool_agent(book: str) -> Any:
    async def other() -> Any:
        return saw(book, "again other", await compute(book, "again other"))

    found = await asyncio.gather(long_mail(book, "once long"), other())
    return [saw(book, "once long", found[0]), found[1]]


@onrecord.agent
async def long_blocking_agent(book: str) -> Any:
    return saw(book, "once long", long_mail_blocking(book, "once long"))


@onrecord.agent
async def long_job_agent(book: str) -> Any:
    return saw(book, "once long", await asyncio.to_thread(long_mail_blocking, book, "once long"))


@onrecord.agent
def long_sync_agent(book: str) -> Any:
    first = saw(book, "once 1", mail_blocking(book, "once 1"))
    return [first, saw(book, "once long", long_mail_blocking(book, "once long"))]


@onrecord.agent
def long_thread_agent(book: str) -> Any:
    found: list[str] = []
    thread = threading.Thread(target=lambda: found.append(long_mail_blocking(book, "once long")))
    thread.start()
    thread.join()
    return saw(book, "once long", found[0])


@onrecord.agent
async def long_child(book: str) -> Any:
    return saw(book, "again long", await long_step(book, "again long"))


@onrecord.agent
async def long_parent_agent(book: str) -> Any:
    return [saw(book, "child", await long_child(book)), saw(book, "once 2", await mail(book, "once 2"))]


LONG = [
    long_step_agent,
    long_tool_agent,
    long_blocking_agent,
    long_job_agent,
    long_sync_agent,
    long_thread_agent,
    long_parent_agent,
]


# Agents that wait for long


@onrecord.agent
async def long_sleep_agent(book: str) -> Any:
    first = saw(book, "once 1", await mail(book, "once 1"))
    await onrecord.sleep(3000)
    return [first, saw(book, "once 2", await mail(book, "once 2"))]


@onrecord.agent
def long_blocking_sleep_agent(book: str) -> Any:
    first = saw(book, "once 1", mail_blocking(book, "once 1"))
    onrecord.sleep(3000)
    return [first, saw(book, "once 2", mail_blocking(book, "once 2"))]


@onrecord.agent
async def long_wait_agent(book: str) -> Any:
    first = saw(book, "once 1", await mail(book, "once 1"))
    try:
        answer = await onrecord.wait_for("approval", timeout=3000)
    except TimeoutError:
        answer = "late"
    return [first, saw(book, "answer", answer), saw(book, "once 2", await mail(book, "once 2", answer))]


@onrecord.agent
def long_blocking_wait_agent(book: str) -> Any:
    first = saw(book, "once 1", mail_blocking(book, "once 1"))
    try:
        answer = onrecord.wait_for("approval", timeout=3000)
    except TimeoutError:
        answer = "late"
    return [first, saw(book, "answer", answer), saw(book, "once 2", mail_blocking(book, "once 2"))]


# One agent whose code was changed while it was down. All are called the same.


async def unchanged(book: str) -> Any:
    onrecord.set_state({"step": 1})
    first = saw(book, "once 1", await mail(book, "once 1", "Ann"))
    second = saw(book, "once 2", await mail(book, "once 2", "Bob"))
    return [first, second, saw(book, "once 3", await mail(book, "once 3", "Cid"))]


async def other_input(book: str) -> Any:
    onrecord.set_state({"step": 1})
    first = saw(book, "once 1", await mail(book, "once 1", "Ann"))
    second = saw(book, "once other", await mail(book, "once 2", "Bea"))
    return [first, second]


async def other_tool(book: str) -> Any:
    onrecord.set_state({"step": 1})
    first = saw(book, "once 1", await mail(book, "once 1", "Ann"))
    return [first, await upsert(book, "again 2")]


async def inserted(book: str) -> Any:
    onrecord.set_state({"step": 1})
    await compute(book, "again inserted")
    return [await mail(book, "once 1", "Ann"), await mail(book, "once 2", "Bob")]


async def dropped(book: str) -> Any:
    onrecord.set_state({"step": 1})
    return [await mail(book, "once 2", "Bob"), await mail(book, "once 3", "Cid")]


async def shorter(book: str) -> Any:
    onrecord.set_state({"step": 1})
    return [await mail(book, "once 1", "Ann")]


async def other_state(book: str) -> Any:
    onrecord.set_state({"step": 2})
    return [await mail(book, "once 1", "Ann"), await mail(book, "once 2", "Bob")]


async def at_once(book: str) -> Any:
    """What was one after the other is now at the same time, with something new beside it."""
    onrecord.set_state({"step": 1})
    return list(
        await asyncio.gather(mail(book, "once new", "Dan"), mail(book, "once 1", "Ann"), asyncio.sleep(0, "nothing"))
    )


async def failing_early(book: str) -> Any:
    raise KeyError("a bug of the new code")


EDITS = [unchanged, other_input, other_tool, inserted, dropped, shorter, other_state, at_once, failing_early]
edited_agents = {edit.__name__: onrecord.Agent(edit, name="edited_agent") for edit in EDITS}


# Agents that begin behind their last checkpoint


@onrecord.agent
async def checkpoint_agent(book: str) -> Any:
    state = onrecord.restored() or []
    while len(state) < 3:
        turn = len(state)
        drawn = onrecord.random()
        first = saw(book, f"once {turn}", await mail(book, f"once {turn}", drawn))
        tags = [f"again {turn}.{number}" for number in range(2)]
        both = await asyncio.gather(*(compute(book, tag, drawn) for tag in tags))
        state = [*state, [drawn, first, *map(saw, [book, book], tags, both)]]
        onrecord.checkpoint(state)
    return [state, saw(book, "once last", await mail(book, "once last", state))]


@onrecord.agent
def sync_checkpoint_agent(book: str) -> Any:
    state = onrecord.restored() or []
    while len(state) < 4:
        rent = saw(book, "once rent", mail_blocking.keyed("rent", book, "once rent"))
        state = [*state, [rent, saw(book, f"again {len(state)}", compute_blocking(book, f"again {len(state)}"))]]
        onrecord.checkpoint(state)
    return state


KINDS = [
    tool_agent,
    idempotent_agent,
    step_agent,
    sync_agent,
    blocking_in_a_loop_agent,
    threads_agent,
    to_thread_agent,
    sleep_agent,
    blocking_sleep_agent,
    wait_agent,
    timed_wait_agent,
    parent_agent,
    sync_parent_agent,
    state_agent,
    retry_agent,
    failing_agent,
    gather_agent,
    denied_agent,
    checkpoint_agent,
    sync_checkpoint_agent,
]
