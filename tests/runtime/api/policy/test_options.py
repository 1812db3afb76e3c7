"""What a policy, a retry, a tool and an agent are told is checked where it is said, not when it is first needed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import onrecord
from onrecord import Budget, Policy, Retry
from onrecord.errors import InvalidInput


def call() -> str:
    return "called"


REFUSED: dict[str, tuple[str, Callable[[], Any]]] = {
    "a text is no set of names": ("bad_policy", lambda: Policy(allow="send_mail")),
    "a number is no set of names": ("bad_policy", lambda: Policy(allow=3)),  # type: ignore[arg-type]
    "a number is no budget": ("bad_policy", lambda: Policy(budget=3)),  # type: ignore[arg-type]
    "a budget is no policy": ("bad_policy", lambda: onrecord.agent(policy=Budget(calls=1))(call)),
    "a number is no retry": ("bad_retry", lambda: onrecord.tool(retry=3)(call)),
    "a class is no tuple": ("bad_retry", lambda: Retry(on=ConnectionError)),  # type: ignore[arg-type]
    "a name is no tuple": ("bad_retry", lambda: Retry(on="ConnectionError")),  # type: ignore[arg-type]
    "a value is no kind of error": ("bad_retry", lambda: Retry(never_on=(404,))),  # type: ignore[arg-type]
    "a text is no number": ("bad_retry", lambda: Retry(delay_seconds="1s")),  # type: ignore[arg-type]
    "a text is no time limit": ("bad_timeout", lambda: onrecord.step(timeout="2s")(call)),
    "no time is no time limit": ("bad_timeout", lambda: onrecord.step(timeout=0)(call)),
    "for ever is no time limit": ("bad_timeout", lambda: onrecord.step(timeout=float("inf"))(call)),
    "a number is no store": ("bad_store", lambda: onrecord.agent(call).run(store=5)),  # type: ignore[arg-type]
    "a number is no function": ("bad_function", lambda: onrecord.agent(5)),  # type: ignore[call-overload]
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_could_not_work_is_refused_with_an_example(case: str) -> None:
    code, making = REFUSED[case]
    with pytest.raises(InvalidInput) as refused:
        making()
    assert refused.value.code == code
    assert refused.value.hint


def test_a_part_of_an_allowed_name_is_not_allowed() -> None:
    @onrecord.tool
    def send() -> str:
        return "sent"

    @onrecord.agent(policy=Policy(allow={"send_mail"}))
    def modest() -> str:
        return send()

    with pytest.raises(onrecord.Denied):
        modest.run(store="memory://")


def test_a_store_is_named_by_a_path_too(tmp_path: Path) -> None:
    agent = onrecord.agent(call)
    assert agent.run(run_id="named", store=tmp_path / "runs.db") == "called"  # type: ignore[arg-type]
    assert agent.replay("named", store=str(tmp_path / "runs.db")) == "called"


def test_an_id_that_is_taken_says_how_to_go_on(tmp_path: Path) -> None:
    store = onrecord.open_store(str(tmp_path / "runs.db"))
    agent = onrecord.agent(call)
    agent.run(run_id="taken", store=store)
    with pytest.raises(onrecord.OnrecordError) as refused:
        agent.run(run_id="taken", store=store)
    assert refused.value.code == "run_exists"
    assert "resume" in refused.value.hint
