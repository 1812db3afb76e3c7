"""What must not happen behind anybody's back: in forks, in live replays, and where a record is damaged."""

from __future__ import annotations

import asyncio
import subprocess
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import apsw
import pytest

import onrecord
from onrecord.analysis.diff.runs import compare_runs
from onrecord.errors import Damaged
from onrecord.reports.status import standing_of
from onrecord.runtime.api.worker import find_unfinished
from onrecord.runtime.forks.fork import begin_fork
from onrecord.store.memory import MemoryStore

sent: list[str] = []


@pytest.fixture(autouse=True)
def nothing_sent() -> None:
    sent.clear()


@onrecord.step
def ask(prompt: str) -> dict[str, str]:
    return {"text": f"ANSWER to {prompt}"}


@onrecord.tool
def mail(text: str) -> str:
    sent.append(text)
    return "sent"


class Died(BaseException):
    pass


# A damaged record is not the agent's to handle


def altered(path: Path, old: bytes, new: bytes) -> None:
    """By somebody who knows the store: the triggers that refuse it are there again afterwards."""
    connection = apsw.Connection(str(path))
    triggers = list(connection.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'"))
    for name, _ in triggers:
        connection.execute(f'DROP TRIGGER "{name}"')
    rows = list(connection.execute("SELECT rowid, content FROM events WHERE kind = 'ActionSucceeded'"))
    for number, content in rows:
        assert old in content
        connection.execute("UPDATE events SET content = ? WHERE rowid = ?", (content.replace(old, new), number))
    for _, sql in triggers:
        connection.execute(sql)
    connection.close()


@pytest.mark.parametrize("how", ["resume", "replay", "fork", "sweep", "resume_async"])
def test_a_damaged_answer_stops_the_run_before_the_agent_sees_it(tmp_path: Path, how: str) -> None:
    dies = [True]

    def body(answered: Any) -> str:
        if dies[0]:
            raise Died
        return str(answered)

    @onrecord.agent(name=f"falls_back_{how}")
    def falls_back() -> str:
        try:
            answered = ask("q")
        except Exception as error:
            mail(f"fallback: {type(error).__name__}")
            answered = {}
        return body(answered)

    @onrecord.step
    async def ask_async(prompt: str) -> dict[str, str]:
        return {"text": f"ANSWER to {prompt}"}

    @onrecord.agent(name="falls_back_async")
    async def falls_back_async() -> str:
        try:
            answered = await ask_async("q")
        except Exception as error:
            mail(f"fallback: {type(error).__name__}")
            answered = {}
        return body(answered)

    url = f"sqlite:///{tmp_path}/runs.db"
    store = onrecord.open_store(url)
    with suppress(Died):
        if how == "resume_async":
            asyncio.run(falls_back_async.run(run_id="r", store=store))
        else:
            falls_back.run(run_id="r", store=store)
    store.close()
    altered(tmp_path / "runs.db", b"ANSWER", b"FORGED")
    dies[0] = False
    store = onrecord.open_store(url)
    if how == "sweep":
        onrecord.sweep(store)
    else:
        with pytest.raises(Damaged) as damage:
            if how == "fork":
                falls_back.fork("r", 2, live_tools=["mail"], store=store)
            elif how == "resume_async":
                asyncio.run(falls_back_async.resume("r", store=store))
            else:
                getattr(falls_back, how)("r", store=store)
        assert "event 2 of run r" in str(damage.value)
    assert sent == []
    assert store.last_event("default", "r").kind == "ActionSucceeded", "it has not ended"  # type: ignore[union-attr]
    store.close()


# Tools within effects


def in_a_thread(text: str) -> None:
    thread = threading.Thread(target=mail, args=(text,))
    thread.start()
    thread.join()


@pytest.mark.filterwarnings("ignore:mail was called outside")
@pytest.mark.parametrize("inside", [mail, in_a_thread, lambda text: postman(text)], ids=["tool", "thread", "agent"])
@pytest.mark.parametrize("tail", ["live replay", "fork"])
def test_a_tool_within_a_step_acts_only_if_it_is_named(inside: Any, tail: str) -> None:
    @onrecord.step
    def notify(text: str) -> str:
        inside(text)
        return "done"

    @onrecord.agent(name="notifies")
    def notifies() -> str:
        return notify("hello")

    store = MemoryStore()
    notifies.run(run_id="r", store=store)
    assert sent == ["hello"]
    with suppress(onrecord.NotCarriedOut):
        if tail == "fork":
            notifies.fork("r", 0, fork_id="again", store=store)
        else:
            notifies.replay_live("r", live_run_id="again", store=store)
    assert sent == ["hello"], "nobody has named it"


@onrecord.agent(name="postman", store=MemoryStore())
def postman(text: str) -> None:
    mail(text)


def test_a_named_tool_within_a_step_acts() -> None:
    @onrecord.step
    def notify(text: str) -> str:
        return mail(text)

    @onrecord.agent(name="notifies_named")
    def notifies() -> str:
        return notify("hello")

    store = MemoryStore()
    notifies.run(run_id="r", store=store)
    assert notifies.replay_live("r", live_tools="mail", store=store) == "sent"
    assert sent == ["hello", "hello"]


# Standing still


def test_a_stopped_fork_stays_as_it_is_and_is_no_workers_business() -> None:
    @onrecord.agent(name="asks_once")
    def asks_once() -> Any:
        return [mail("a"), ask("b")]

    store = MemoryStore()
    asks_once.run(run_id="r", store=store)
    for _ in range(3):
        with pytest.raises(onrecord.Suspended) as stopped:
            if store.run_row("default", "f") is None:
                asks_once.fork("r", 0, tail="stopped", fork_id="f", store=store)
            asks_once.resume("f", store=store)
        assert "--tail live" in stopped.value.hint
        row = store.run_row("default", "f")
        assert row is not None
        assert row.last is not None
        assert row.last.seq == 2, "said once"
        assert standing_of(store, "default", row)[:2] == ("stopped", ("mail",))
    assert list(find_unfinished(store)) == []
    assert asks_once.resume("f", tail="live", live_tools=["mail"], store=store) == ["sent", {"text": "ANSWER to b"}]
    assert sent == ["a", "a"]


@pytest.mark.filterwarnings("ignore:run .* does not record")
def test_nothing_starts_in_a_mocked_tail(tmp_path: Path) -> None:
    @onrecord.agent(name="starts")
    def starts() -> Any:
        answered = ask("b")
        subprocess.run(["touch", str(tmp_path / "started")], check=True)
        return answered

    store = MemoryStore()
    starts.run(run_id="r", store=store)
    (tmp_path / "started").unlink()
    with pytest.raises(onrecord.Divergence) as trapped:
        starts.fork("r", 0, tail="mocked", store=store)
    assert trapped.value.code == "trapped"
    assert not (tmp_path / "started").exists()


# What is said


def test_events_that_are_shared_are_named_by_the_run_they_are_in() -> None:
    prompts = ["one", "two"]

    @onrecord.agent(name="asks_two")
    def asks_two() -> Any:
        return [ask(prompt) for prompt in prompts]

    store = MemoryStore()
    asks_two.run(run_id="base", store=store)
    asks_two.fork("base", 2, fork_id="f", store=store)
    prompts[0] = "another"
    with pytest.raises(onrecord.Divergence) as parted:
        asks_two.replay("f", store=store)
    assert "seq 1 of run base" in str(parted.value)
    assert parted.value.where["seq"] == 1


def test_a_fork_at_the_beginning_of_a_fork_that_shares_an_open_request_is_the_same() -> None:
    @onrecord.agent(name="asks_three")
    def asks_three() -> Any:
        return [ask(str(number)) for number in range(3)]

    store = MemoryStore()
    asks_three.run(run_id="base", store=store)
    one = begin_fork(store, "base", 1, tail="mocked")
    asks_three.resume(one, store=store)
    two = begin_fork(store, one, 0, tail="mocked")
    asks_three.resume(two, store=store)
    for run in (one, two):
        assert compare_runs(store, "base", store, run).same
    assert compare_runs(store, one, store, two).same


def test_what_may_be_expected_leaves_out_what_is_given_and_counts_what_is_called() -> None:
    @onrecord.tool(kind="model_call")
    def model(prompt: str) -> dict[str, Any]:
        return {"usage": {"input_tokens": 10, "output_tokens": 5}}

    @onrecord.agent(name="child")
    def child() -> Any:
        return model("below")

    @onrecord.agent(name="parent")
    def parent() -> Any:
        return [model("first"), child(), model("last")]

    store = MemoryStore()
    parent.run(run_id="r", store=store)
    reader = onrecord.JournalReader(store, "r")
    assert onrecord.expected_tail(reader, 0).tokens == 45
    given = onrecord.expected_tail(reader, 1, change=onrecord.AnotherAnswer(2, {}))
    assert (given.tokens, given.carried_out) == (30, {"child": 1, "model": 2})
    for nowhere in (-1, 99):
        with pytest.raises(onrecord.OnrecordError):
            onrecord.expected_tail(reader, nowhere)


@pytest.mark.parametrize("change", [5, "x", onrecord.AnotherModel("")])
def test_what_is_no_change_is_refused(change: Any) -> None:
    @onrecord.agent(name="asks_for_change")
    def asks() -> Any:
        return ask("b")

    store = MemoryStore()
    asks.run(run_id="r", store=store)
    with pytest.raises(onrecord.OnrecordError):
        asks.fork("r", change=change, store=store)
    with pytest.raises(onrecord.OnrecordError):
        asks.fork("r", live_tools=[mail], store=store)  # type: ignore[list-item]
    assert [row.header.run for row in store.list_runs("default")] == ["r"]
