"""Code that changed between crash and resume: named, never run past the record, and never the end of the run."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

import onrecord
from onrecord.runtime.engine.stops import CodeChanged
from onrecord.store.memory import MemoryStore

done: list[str] = []
variant = "old"


class Crash(BaseException):
    """Takes the place of a process that dies: nothing terminal is written."""


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    global variant
    done.clear()
    variant = "old"
    yield
    variant = "old"


@onrecord.tool
async def mail(to: str) -> str:
    done.append(f"mail {to}")
    return f"sent {to}"


@onrecord.step
async def look_up(what: str) -> str:
    done.append(f"look up {what}")
    if what == "crash" and variant == "old":
        raise Crash
    return what


def _agent(store: MemoryStore) -> onrecord.Agent:
    @onrecord.agent(store=store, name="changing")
    async def changing() -> list[Any]:
        seen = [await mail("ann")]
        seen.append(await mail("bob" if variant != "other input" else "carol"))
        if variant == "inserted":
            seen.append(await mail("dave"))
        if variant != "removed":
            seen.append(await look_up("crash"))
        return seen

    made: onrecord.Agent = changing
    return made


def _crashed(store: MemoryStore) -> onrecord.Agent:
    agent = _agent(store)
    with pytest.raises(Crash):
        asyncio.run(agent.run(run_id="r"))
    assert done == ["mail ann", "mail bob", "look up crash"]
    return agent


def test_changed_input_is_a_named_divergence_and_nothing_runs() -> None:
    global variant
    agent = _crashed(MemoryStore())
    variant = "other input"
    with pytest.raises(onrecord.Divergence) as caught:
        asyncio.run(agent.resume("r"))
    assert caught.value.code == "conflicting_request"
    assert caught.value.where["seq"] == 3
    assert caught.value.where["path"] == "/payload/to"
    assert "test_changed_code.py" in caught.value.where["line"]
    assert done == ["mail ann", "mail bob", "look up crash"]


def test_an_inserted_call_is_not_run_past_an_unmatched_record() -> None:
    global variant
    agent = _crashed(MemoryStore())
    variant = "inserted"
    with pytest.raises(onrecord.Divergence) as caught:
        asyncio.run(agent.resume("r"))
    assert caught.value.code == "unrecorded_request"
    assert "mail dave" not in done


def test_with_the_old_code_the_run_goes_on_after_a_divergence() -> None:
    global variant
    store = MemoryStore()
    agent = _crashed(store)
    variant = "other input"
    with pytest.raises(onrecord.Divergence):
        asyncio.run(agent.resume("r"))
    variant = "fixed"
    assert asyncio.run(agent.resume("r")) == ["sent ann", "sent bob", "crash"]
    assert done == ["mail ann", "mail bob", "look up crash", "look up crash"]
    onrecord.verify_run(store, "r").raise_if_invalid()


@pytest.mark.parametrize(
    ("change", "expected", "more"),
    [
        ("other input", ["sent ann", "sent carol", "crash"], ["mail carol", "look up crash"]),
        ("inserted", ["sent ann", "sent bob", "sent dave", "crash"], ["mail dave", "look up crash"]),
        ("removed", ["sent ann", "sent bob"], []),
    ],
)
def test_accepted_code_goes_on_from_where_it_differs(change: str, expected: list[str], more: list[str]) -> None:
    global variant
    store = MemoryStore()
    agent = _crashed(store)
    variant = change
    assert asyncio.run(agent.resume("r", accept_code=True)) == expected
    assert done[3:] == more
    before = list(done)
    assert asyncio.run(agent.replay("r")) == expected
    assert done == before
    onrecord.verify_run(store, "r").raise_if_invalid()


def test_pinned_code_is_refused_when_it_has_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    agent = _crashed(MemoryStore())
    monkeypatch.setattr(agent, "code", lambda: {"function": "changing", "digest": "sha256:other"})
    with pytest.raises(CodeChanged):
        asyncio.run(agent.resume("r", pin_code=True))
    assert done == ["mail ann", "mail bob", "look up crash"]


def test_a_divergence_says_that_the_code_has_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    global variant
    agent = _crashed(MemoryStore())
    variant = "other input"
    monkeypatch.setattr(agent, "code", lambda: {"function": "changing", "digest": "sha256:other"})
    with pytest.raises(onrecord.Divergence, match="has changed since it was recorded"):
        asyncio.run(agent.resume("r"))


def test_code_that_fails_before_its_record_ends_says_where_it_failed(memory: MemoryStore) -> None:
    """A typo is found by its line, not by the call that it kept from being made."""
    global variant

    @onrecord.agent(store=memory)
    async def mistyped(to: str) -> Any:
        if variant == "typo":
            return done.nothing_of_that_name  # type: ignore[attr-defined]
        await mail(to)
        return await look_up("crash")

    with pytest.raises(Crash):
        asyncio.run(mistyped.run("ann", run_id="typo"))
    variant = "typo"
    with pytest.raises(onrecord.Divergence) as divergence:
        asyncio.run(mistyped.resume("typo"))
    assert divergence.value.code == "missing_request"
    assert "before that it failed with AttributeError at test_changed_code.py:" in divergence.value.message
    assert "nothing_of_that_name" not in divergence.value.message, "the text of an error may quote what was recorded"


def test_code_that_does_not_take_the_recorded_input_any_more_says_so(memory: MemoryStore) -> None:
    @onrecord.agent(store=memory, name="shrunk")
    async def before(to: str) -> Any:
        await mail(to)
        return await look_up("crash")

    with pytest.raises(Crash):
        asyncio.run(before.run("ann", run_id="shrunk"))

    @onrecord.agent(store=memory, name="shrunk")
    async def after() -> Any:
        return await mail("ann")

    with pytest.raises(onrecord.Divergence, match="TypeError: it cannot be called with the recorded input"):
        asyncio.run(after.resume("shrunk"))
    assert done == ["mail ann", "look up crash"]


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_changed_code_that_is_accepted_is_accepted_for_the_runs_that_it_has_called(is_async: bool) -> None:
    """Without it the caller could never go on: the divergence is its called run's, which has no command of its own."""
    global variant
    store = MemoryStore()

    @onrecord.step
    def look(what: str) -> str:
        done.append(what)
        if what == "crash" and variant == "old":
            raise Crash
        return what

    @onrecord.agent
    def called() -> list[str]:
        return [look("before" if variant == "old" else "other"), look("crash")]

    @onrecord.agent
    def calling() -> list[str]:
        return called()

    @onrecord.agent
    async def called_async() -> list[str]:
        return [look("before" if variant == "old" else "other"), look("crash")]

    @onrecord.agent
    async def calling_async() -> list[str]:
        return await called_async()

    def carried(what: str, **options: Any) -> Any:
        if not is_async:
            return getattr(calling, what)(run_id="r", store=store, **options)

        async def awaited() -> Any:
            return await getattr(calling_async, what)(run_id="r", store=store, **options)

        return asyncio.run(awaited())

    with pytest.raises(Crash):
        carried("run")
    variant = "changed"
    with pytest.raises(onrecord.Divergence):
        carried("resume")
    assert carried("resume", accept_code=True) == ["other", "crash"]
    assert done == ["before", "crash", "other", "crash"]
    assert carried("replay") == ["other", "crash"]
