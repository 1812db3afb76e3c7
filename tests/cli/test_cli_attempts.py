"""`onrecord attempts`, and what `replay --live` is made of: its options, what it tells, and its exit status."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

import onrecord as library
from kit.cli import assert_two_lines, onrecord, onrecord_json, opened, record
from onrecord.cli.live_replay import LiveOptions, ToleranceOptions, live_options, replay_live
from onrecord.cli.main import Commands
from onrecord.cli.settings import Settings, shared_options
from onrecord.cli.stores import writing
from onrecord.errors import InvalidInput

answers: dict[str, Any] = {}
mails: list[str] = []


@pytest.fixture(autouse=True)
def world(workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONRECORD_KEY_FILE", str(tmp_path / "keys.json"))
    answers.clear()
    answers.update(text="fine", tokens=1000, client=None)
    mails.clear()


@library.tool(kind="model_call", idempotent=True)
def ask(question: str) -> dict[str, Any]:
    print("asked", question)
    if answers["text"] is None:
        raise ConnectionError("the model is away")
    return {"text": answers["text"], "usage": {"tokens": answers["tokens"]}}


@library.tool
def mail(text: str) -> str:
    mails.append(text)
    return "sent"


@library.tool
def connect() -> Any:
    return object()


@library.agent(name="cli_support_agent")
def support(question: str) -> str:
    return mail(ask(question)["text"])


@library.agent(name="cli_connecting_agent")
def connecting() -> str:
    connect()
    return str(ask("one")["text"])


@library.agent(name="cli_awaited_agent")
async def awaited() -> str:
    return str(ask("one")["text"])


class WithAgain(Commands):
    """The commands, and one more: live replay of an agent that is at hand."""

    agent: Any = support

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        return again if name == "again" else super().get_command(context, name)


@click.group(cls=WithAgain)
@shared_options
def program() -> None: ...


@click.command()
@shared_options
@click.argument("run")
@live_options
@click.pass_obj
def again(settings: Settings, run: str, live: LiveOptions) -> int:
    live.refuse_without_live()
    with writing(settings) as store:
        return replay_live(settings, store, WithAgain.agent, run, live)


def replay(*arguments: str, agent: Any = support) -> Result:
    WithAgain.agent = agent
    return CliRunner().invoke(program, ["again", "a", "--live", *arguments])


def recorded(agent: Any = support, *given: str) -> None:
    with opened() as store:
        agent.run(*(given if agent is connecting else given or ("one",)), run_id="a", store=store)
    mails.clear()


def test_a_live_replay_tells_each_effect_and_a_summary() -> None:
    recorded()
    done = replay("--live-run-id", "c")
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    assert lines[0].split() == ["SEQ", "EFFECT", "HOW", "VERDICT", "WHY"]
    assert [line.split()[:4] for line in lines[1:4]] == [
        ["1", "ask", "live", "pass"],
        ["3", "mail", "recorded", "recorded"],
        ["5", "(end)", "live", "pass"],
    ]
    assert lines[-1].startswith("live replay of a: 1 of 2 effects carried out live")
    assert lines[-1].endswith("PASS")
    assert "run c" in done.stderr
    assert "asked one" in done.stderr
    assert mails == []


@pytest.mark.parametrize(
    ("options", "tokens", "status", "verdict"),
    [
        ([], 1000, 0, "pass"),
        ([], 1005, 1, "broken"),
        (["--tokens", "1%"], 1005, 0, "drift"),
        (["--tokens", "0.01"], 1050, 1, "broken"),
        (["--tokens-absolute", "50"], 1050, 0, "drift"),
        (["--ignore", "/usage"], 9999, 0, "pass"),
    ],
)
def test_the_exit_status_follows_the_tolerance(options: list[str], tokens: int, status: int, verdict: str) -> None:
    recorded()
    answers["tokens"] = tokens
    done = replay(*options, "--json")
    assert done.exit_code == status, done.output
    data = json.loads(done.stdout)
    assert data["verdict"] == verdict
    assert data["run"] == "a"
    assert data["replay"] != "a"


def test_content_may_be_compared_without_what_two_writers_do_differently() -> None:
    recorded()
    answers["text"] = "FINE "
    assert replay("--live-tool", "mail").exit_code == 1
    loose = replay("--live-tool", "mail", "--content", "normalised", "--json")
    assert json.loads(loose.stdout)["verdict"] == "drift"
    assert mails == ["FINE ", "FINE "]


def test_a_tool_that_nobody_named_stops_the_replay_and_that_is_told() -> None:
    recorded()
    answers["text"] = "another"
    done = replay()
    assert done.exit_code == 1
    assert "replay_not_carried_out" in done.stdout
    assert "--live-tool mail" in done.stderr
    assert mails == []
    assert json.loads(replay("--json").stdout)["stopped_by"]["code"] == "not_carried_out"


def test_an_agent_that_fails_now_is_judged_too() -> None:
    recorded()
    answers["text"] = None
    done = replay("--json")
    assert done.exit_code == 1
    data = json.loads(done.stdout)
    assert [step["verdict"] for step in data["steps"]] == ["broken", "missing", "broken"]
    assert "replay_status_diff" in data["codes"]


def test_stop_at_first_says_that_it_stopped() -> None:
    recorded()
    answers["tokens"] = 1
    done = replay("--stop-at-first")
    assert done.exit_code == 1
    assert "stopped at the first that broke" in done.stdout


def test_what_has_no_recorded_value_ends_with_7() -> None:
    recorded(connecting)
    done = replay(agent=connecting)
    assert done.exit_code == 7, done.output
    assert "not replayable" in done.stdout


def test_an_agent_that_is_awaited_is_replayed_too() -> None:
    with opened() as store:
        asyncio.run(awaited.run(run_id="a", store=store))
    assert replay(agent=awaited).exit_code == 0
    answers["text"] = "another"
    assert replay(agent=awaited).exit_code == 1


def test_differences_are_kept_on_request() -> None:
    recorded()
    answers["tokens"] = 1
    data = json.loads(replay("--keep-differences", "--json").stdout)
    assert data["steps"][0]["difference"].startswith("sha256:")


def test_nothing_that_was_recorded_can_move_the_cursor() -> None:
    recorded()
    answers["text"] = "\x1b[2Jgone\r\n"
    done = replay()
    assert "\x1b" not in done.output
    assert "\\u001b[2Jgone" in done.stdout


def test_a_run_that_is_there_already_is_not_taken_for_the_replay() -> None:
    recorded()
    assert replay("--live-run-id", "c").exit_code == 0
    again = replay("--live-run-id", "c")
    assert again.exit_code == 6
    assert_two_lines(again.stderr, "run_exists")


def test_an_unknown_run_and_bad_options_are_told_in_two_lines() -> None:
    recorded()
    unknown = CliRunner().invoke(program, ["again", "nobody", "--live"])
    assert unknown.exit_code == 3
    assert_two_lines(unknown.stderr, "unknown_run")
    for given in (["--tokens", "many"], ["--tokens", "nan"], ["--cost", "-1%"]):
        refused = replay(*given)
        assert refused.exit_code == 2
        assert len(refused.stderr.splitlines()) == 2
    without = CliRunner().invoke(program, ["again", "a", "--live-tool", "mail"])
    assert without.exit_code == 2
    with pytest.raises(InvalidInput):
        LiveOptions(model="large").refuse_without_live()
    LiveOptions().refuse_without_live()
    assert ToleranceOptions(tokens="1%").tolerance().tokens == 0.01


# Attempts


def test_attempts_at_a_run() -> None:
    recorded()
    replay("--live-run-id", "c1")
    answers["tokens"] = 1005
    replay("--live-run-id", "c2")
    broken = onrecord("attempts", "a")
    assert broken.exit_code == 1
    assert [line.split() for line in broken.stdout.splitlines()[1:4]] == [["1", "a"], ["2", "c1"], ["3", "c2"]]
    assert "replay_token_drift /usage/tokens: 1000 → 1005" in broken.stdout
    assert onrecord("attempts", "a", "--tokens", "1%").exit_code == 0
    assert onrecord_json("attempts", "a", "--pick", "1", "2")["verdict"] == "pass"
    assert onrecord_json("attempts", "a", "--last-two", status=1)["run"] == "c1"


def test_a_run_that_was_never_replayed_is_no_pass() -> None:
    recorded()
    done = onrecord("attempts", "a")
    assert done.exit_code == 1
    assert "replay_one_attempt" in done.stdout


def test_attempts_at_an_effect() -> None:
    from onrecord.core.events import ActionRequested, ActionSucceeded, AttemptRecorded, Completed
    from onrecord.journal.chain import Draft

    record(
        "r",
        [
            Draft(ActionRequested("k", {"q": 1}, name="fetch", effect="tool_call"), key="k"),
            AttemptRecorded("k", 1, "retried", {"error": ConnectionError("refused \x1b[31m")}),
            AttemptRecorded("k", 2, "retried", {"error": ConnectionError("timed out")}),
            AttemptRecorded("k", 3, "succeeded", {"output": {"action": "k"}}),
            Draft(ActionSucceeded("k", "fine"), parent=1),
            Completed("fine"),
        ],
    )
    done = onrecord("attempts", "r", "k")
    assert done.exit_code == 1
    assert "replay_status_diff" in done.stdout
    assert done.stdout.splitlines()[-1] == "fetch: attempt 1 against attempt 3 - BROKEN"
    picked = onrecord("attempts", "r", "1", "--pick", "1", "2")
    assert "replay_content_diff /message" in picked.stdout
    assert "\x1b" not in picked.output
    data = onrecord_json("attempts", "r", "k", "--last-two", status=1)
    assert (data["expected"], data["actual"], len(data["attempts"])) == (2, 3, 3)


@pytest.mark.parametrize(
    ("arguments", "status", "code"),
    [
        (["nobody"], 3, "unknown_run"),
        (["a", "main/fetch/9"], 3, "unknown_effect"),
        (["a", "999"], 2, "bad_position"),
        (["a", "1", "--pick", "1", "9"], 2, "unknown_attempt"),
        (["a", "--pick", "1", "9"], 2, "unknown_attempt"),
        (["a", "1", "--pick", "1", "1"], 2, "same_attempt"),
        (["a", "--pick", "1", "2", "--last-two"], 2, "usage"),
    ],
)
def test_what_is_not_there_is_told_in_two_lines(arguments: list[str], status: int, code: str) -> None:
    recorded()
    done = onrecord("attempts", *arguments)
    assert done.exit_code == status, done.output
    assert_two_lines(done.stderr, code)
