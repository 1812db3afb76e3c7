"""Onrecord in every situation of `make situations`. The other recorders are measured there, not here."""

from __future__ import annotations

from importlib.metadata import distributions

import pytest
from situations.catalogue import SITUATIONS
from situations.checks import Verdict
from situations.measuring import verdict_on, verdicts
from situations.subjects import CONTROL, OURS, here

from kit.soak import SOAK, cases

NOT_YET = {"size": " KB"}
"""What does not hold, and what is said instead. Whoever changes that takes it out of here."""

QUICK = ("gather", "stream-cut", "changed-prompt", "killed-in-tool", "nothing")
TRIED = {name: SITUATIONS[name] for name in (SITUATIONS if SOAK else QUICK)}
"""Each takes several processes with an SDK in them. All of them are tried by `make soak` and `make situations`."""

MISSING = [name for name in ("openai", "anthropic", "google-genai") if not list(distributions(name=name))]
"""SDKs that the situations import, in processes of their own. To import them here would take seconds."""

pytestmark = [pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}")]
_found: dict[str, Verdict] = {}


def _verdict(name: str) -> Verdict:
    """All of them at the first question: side by side they take half the time."""
    if not _found:
        for (_, situation), verdict in verdicts([here(OURS)], TRIED, 2, lambda *_: None).items():
            _found[situation] = verdict
    return _found[name]


@pytest.mark.parametrize("name", TRIED)
def test_situation(name: str) -> None:
    verdict = _verdict(name)
    if name in NOT_YET:
        assert not verdict.holds, "this holds by now"
        assert NOT_YET[name] in verdict.note
    else:
        assert verdict.holds, verdict.note


@pytest.mark.parametrize("name", cases(["killed", "nothing"], ["three-answers", "tool-raises", "child"]))
def test_nothing_holds_without_a_recorder(name: str) -> None:
    verdict = verdict_on(here(CONTROL), SITUATIONS[name])
    assert not verdict.holds, verdict.note
