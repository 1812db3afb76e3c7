"""Runs with secrets: what is written, what the agent has, and that both match wherever the run is done again."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

import onrecord
from kit import redacted_agents as agents
from kit.redacted_agents import JWT, PASSWORD, RESULT, TOKEN, VARIABLE, calls, client, crash_in
from kit.stores import any_store
from onrecord.core.events import ActionRequested
from onrecord.errors import InvalidInput
from onrecord.journal.export import export_run
from onrecord.journal.import_file import import_file, verify_file
from onrecord.journal.reader import JournalReader
from onrecord.journal.verify import verify_run
from onrecord.runtime.engine.stops import Divergence
from onrecord.store.contract import Store
from onrecord.store.memory import MemoryStore

KEY = "sk-real-0123456789abcdefghij"


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, KEY)
    calls.clear()
    crash_in.clear()


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Another machine: no keys of ours, and a dummy for the model's."""

    def go() -> None:
        monkeypatch.setenv("ONRECORD_KEY_FILE", str(tmp_path / "other" / "keys.json"))
        monkeypatch.setenv(VARIABLE, "dummy-key-000")

    return go


class RefusedError(Exception):
    pass


def recorded(store: Store, run: str = "r1") -> str:
    reader = JournalReader(store, run)
    trees = [reader.facts_tree()]
    trees += [reader.content_tree(row, reader.link(row)) for row in store.scan("default", run)]
    return json.dumps(trees)


def assert_clean(text: str) -> None:
    assert [secret for secret in (PASSWORD, TOKEN, JWT, KEY) if secret in text] == []


def test_the_world_and_the_agent_have_the_secrets_and_the_record_has_not(store: Store) -> None:
    assert client.run("bob", PASSWORD, run_id="r1", store=store) == RESULT
    assert calls[0] == ("login", "bob", PASSWORD)
    assert calls[1][2] == {"authorization": f"Bearer {TOKEN}"}
    assert calls[1][3]["text"] == f"use {TOKEN} with {JWT} and {KEY}"
    text = recorded(store)
    assert_clean(text)
    assert '"max_tokens": 5' in text
    assert '"session_id": "s-1"' in text
    assert verify_run(store, "r1").valid


@any_store
def test_what_stands_in_the_record(store: Store) -> None:
    client.run("bob", PASSWORD, run_id="r1", store=store)
    reader = JournalReader(store, "r1")
    asked = [one.event for one in reader.scan() if isinstance(one.event, ActionRequested)]
    assert asked[0].payload == {"user": "bob", "password": "<secret:credential>"}
    assert asked[1].payload["url"] == "https://example.com/?key=<secret:credential>&q=1"
    assert asked[1].payload["headers"] == {"authorization": "<secret:credential>"}
    text = asked[1].payload["body"]["text"]
    assert text == "use <secret:credential:1> with <secret:jwt:2> and <secret:env:3>"
    answer: Any = reader.event(2).event
    assert answer.output["access_token"] == "<secret:credential:2.1>"
    assert answer.output["note"] == "use <secret:credential:2.1> with <secret:jwt:2.2>"


@any_store
def test_it_replays_here(store: Store) -> None:
    client.run("bob", PASSWORD, run_id="r1", store=store)
    calls.clear()
    assert client.replay("r1", store=store) == RESULT
    assert calls == []


@any_store
def test_it_replays_elsewhere_with_a_dummy_key(store: Store, elsewhere: Any) -> None:
    client.run("bob", PASSWORD, run_id="r1", store=store)
    calls.clear()
    elsewhere()
    assert client.replay("r1", store=store) == {"saved": "saved", "token": "<secret:credential:2.1>"}
    assert calls == []


def test_an_export_replays_elsewhere(store: Store, tmp_path: Path, elsewhere: Any) -> None:
    client.run("bob", PASSWORD, run_id="r1", store=store)
    path = tmp_path / "r1.jsonl"
    export_run(JournalReader(store, "r1"), path)
    assert_clean(path.read_text())
    assert verify_file(path).valid
    assert "erased" not in path.read_text()
    elsewhere()
    other = MemoryStore()
    import_file(other, path)
    assert client.replay("r1", store=other) == {"saved": "saved", "token": "<secret:credential:2.1>"}


@any_store
def test_another_request_is_still_a_divergence(store: Store) -> None:
    client.run("bob", PASSWORD, run_id="r1", store=store)
    reader = JournalReader(store, "r1")
    assert (reader.facts() or {})["redaction"]["version"] == 1

    @onrecord.agent(name="redacted agent", redact=True)
    def changed(user: str, password: str) -> Any:
        return agents.login(f"{user}!", password)

    try:
        with pytest.raises(Divergence) as divergence:
            changed.replay("r1", store=store)
        assert_clean(str(divergence.value) + repr(divergence.value.where))
    finally:
        onrecord.runtime.api.agent._agents["redacted agent"] = client  # type: ignore[attr-defined]


@pytest.mark.parametrize("where", ["login", "ask", "save"])
def test_a_resume_here_is_handed_what_was_sealed(store: Store, where: str) -> None:
    crash_in.append(where)
    with pytest.raises(KeyboardInterrupt):
        client.run("bob", PASSWORD, run_id="r1", store=store)
    before = list(calls)
    assert client.resume("r1", store=store) == RESULT
    made = [*before, *calls[len(before) :]]
    assert [call[0] for call in made] == ["login", "ask", "save"]
    assert made[0] == ("login", "bob", PASSWORD)
    assert made[1][3]["text"] == f"use {TOKEN} with {JWT} and {KEY}"
    assert made[2] == ("save", f"answered Bearer {TOKEN} s-1")
    assert_clean(recorded(store))
    assert client.resume("r1", store=store) == RESULT


@any_store
def test_errors_come_back_with_their_secrets(store: Store) -> None:
    @onrecord.tool(idempotent=True)
    def refuse() -> None:
        error = RefusedError(f"401: {TOKEN} / {JWT}")
        error.response = {"headers": {"set-cookie": "abc=def"}}  # type: ignore[attr-defined]
        raise error

    @onrecord.agent(redact=onrecord.Redaction(values=[TOKEN]))
    def unlucky() -> list[Any]:
        try:
            refuse()
        except RefusedError as error:
            return [str(error), error.response]  # type: ignore[attr-defined]
        return []

    assert unlucky.run(run_id="r1", store=store) == [f"401: {TOKEN} / {JWT}", {"headers": {"set-cookie": "abc=def"}}]
    text = recorded(store)
    assert_clean(text)
    assert "abc=def" not in text
    assert unlucky.replay("r1", store=store)[0] == f"401: {TOKEN} / {JWT}"


@any_store
def test_streams(store: Store, elsewhere: Any) -> None:
    parts = ["it is to", "k-9999-SEC", "RET-value", " and ", "sk-ant-", "api03-abcdef123456", " or ", "so"]

    @onrecord.tool(idempotent=True)
    async def words() -> Any:
        for part in parts:
            yield part

    @onrecord.agent(redact=onrecord.Redaction(values=[TOKEN]))
    async def reader() -> str:
        return "".join([part async for part in words()])

    whole = "".join(parts)
    assert asyncio.run(reader.run(run_id="r1", store=store)) == whole
    text = recorded(store)
    assert [part for part in ("SECRET", "api03") if part in text] == []
    assert asyncio.run(reader.replay("r1", store=store)) == whole
    elsewhere()
    clean = asyncio.run(reader.replay("r1", store=store))
    assert TOKEN not in clean
    assert clean.startswith("it is <secret:env:")
    assert clean.endswith(" or so")


def test_a_checkpoint_has_its_secrets_again(store: Store) -> None:
    crashes = [True]

    @onrecord.tool(idempotent=True)
    def die() -> None:
        if crashes:
            crashes.pop()
            raise KeyboardInterrupt

    @onrecord.agent(redact=True)
    def long() -> Any:
        state = onrecord.restored()
        if state is None:
            state = {"token": agents.login("bob", PASSWORD)["access_token"], "password": PASSWORD}
            onrecord.checkpoint(state)
        die()
        return state

    with pytest.raises(KeyboardInterrupt):
        long.run(run_id="r1", store=store)
    assert long.resume("r1", store=store) == {"token": TOKEN, "password": PASSWORD}
    assert_clean(recorded(store))
    assert b"SECRET" not in b"".join(row.blob for row in store.snapshots("default", "r1"))


def test_a_transaction_is_redacted_and_hands_over_the_value(sqlite: Store) -> None:
    @onrecord.step(transactional=True)
    def work(connection: Any) -> str:
        return f"made {JWT}"

    @onrecord.agent(redact=True)
    def transacting() -> str:
        return work()

    assert transacting.run(run_id="r1", store=sqlite) == f"made {JWT}"
    assert_clean(recorded(sqlite))
    assert transacting.replay("r1", store=sqlite) == f"made {JWT}"


@any_store
def test_a_called_agent_is_redacted_with_its_caller(store: Store) -> None:
    @onrecord.agent(name="redacted child")
    def child(password: str) -> str:
        return agents.login("bob", password)["note"]

    @onrecord.agent(redact=True)
    def parent(password: str) -> str:
        return child(password)

    assert parent.run(PASSWORD, run_id="r1", store=store) == f"use {TOKEN} with {JWT}"
    runs = [row.header.run for row in store.list_runs("default")]
    assert len(runs) == 2
    for run in runs:
        assert_clean(recorded(store, run))
    assert parent.replay("r1", store=store) == f"use {TOKEN} with {JWT}"


def test_a_fork_has_the_secrets_of_its_parent(store: Store) -> None:
    client.run("bob", PASSWORD, run_id="r1", store=store)
    calls.clear()
    assert client.fork("r1", 2, fork_id="f1", live_tools=["ask", "save"], store=store) == RESULT
    assert calls[0][3]["text"] == f"use {TOKEN} with {JWT} and {KEY}"
    assert_clean(recorded(store, "f1"))


@any_store
def test_rules_and_values_of_the_user(store: Store) -> None:
    @onrecord.agent(redact=onrecord.Redaction(rules=[("employee", r"EMP-[0-9]{6}")], values=["mellon-mellon-1"]))
    def ruled(text: str) -> str:
        return agents.save(text)

    ruled.run("EMP-123456 said mellon-mellon-1", run_id="r1", store=store)
    assert calls == [("save", "EMP-123456 said mellon-mellon-1")]
    text = recorded(store)
    assert "EMP-" not in text.replace("EMP-[0-9]{6}", "")
    assert "mellon-mellon-1" not in text
    assert ruled.replay("r1", store=store) == "saved"


def test_a_bad_rule_is_refused_where_it_is_written() -> None:
    with pytest.raises(InvalidInput) as refusal:
        onrecord.agent(redact=onrecord.Redaction(rules=[("x", "(a+)+$")]))(lambda: None)
    assert refusal.value.code == "bad_redaction_rule"


@any_store
def test_without_redaction_nothing_is_looked_for(store: Store) -> None:
    @onrecord.agent
    def plain() -> str:
        return agents.save(JWT)

    assert plain.run(run_id="r1", store=store) == "saved"
    assert JWT in recorded(store)


@any_store
def test_a_block_that_is_recorded_is_redacted_if_asked_for(store: Store) -> None:
    with onrecord.record("nightly", run_id="r1", store=store, redact=onrecord.Redaction(values=[TOKEN])):
        agents.save(f"{TOKEN} {JWT}")
    assert calls == [("save", f"{TOKEN} {JWT}")]
    assert_clean(recorded(store))


@any_store
def test_an_error_that_ended_the_run_is_raised_again_as_it_was(store: Store) -> None:
    @onrecord.agent(redact=True)
    def failing() -> None:
        raise RefusedError(f"no {JWT}")

    for again in (lambda: failing.run(run_id="r1", store=store), lambda: failing.resume("r1", store=store)):
        with pytest.raises(RefusedError, match=JWT):
            again()
    assert_clean(recorded(store))


def test_names_of_lanes_hold_no_secrets() -> None:
    store = MemoryStore()

    @onrecord.step
    async def look() -> int:
        return 1

    @onrecord.agent(redact=onrecord.Redaction(values=[TOKEN]))
    async def naming() -> int:
        return await asyncio.create_task(look(), name=f"for {TOKEN}")

    asyncio.run(naming.run(run_id="named", store=store))
    rows = list(store.scan("default", "named"))
    assert any(row.lane.startswith("main>for ") for row in rows)
    assert not any(TOKEN in row.lane or TOKEN.encode() in row.link for row in rows)
    assert asyncio.run(naming.replay("named", store=store)) == 1
