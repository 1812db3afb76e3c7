"""Reenact in every situation of `make situations`. The other recorders are measured there, not here."""

from __future__ import annotations

import pytest

pytest.importorskip("openai")
pytest.importorskip("anthropic")
pytest.importorskip("google.genai")

from situations.catalogue import SITUATIONS
from situations.checks import Verdict
from situations.measuring import verdict_on, verdicts
from situations.subjects import CONTROL, OURS, here

NOT_YET = {"size": " KB"}
"""What does not hold, and what is said instead. Whoever changes that takes it out of here."""

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("situations")]
_found: dict[str, Verdict] = {}


def _verdict(name: str) -> Verdict:
    """All of them at the first question: side by side they take half the time."""
    if not _found:
        for (_, situation), verdict in verdicts([here(OURS)], SITUATIONS, 2, lambda *_: None).items():
            _found[situation] = verdict
    return _found[name]


@pytest.mark.parametrize("name", SITUATIONS)
def test_situation(name: str) -> None:
    verdict = _verdict(name)
    if name in NOT_YET:
        assert not verdict.holds, "this holds by now"
        assert NOT_YET[name] in verdict.note
    else:
        assert verdict.holds, verdict.note


@pytest.mark.parametrize("name", ["three-answers", "tool-raises", "killed", "nothing", "child"])
def test_nothing_holds_without_a_recorder(name: str) -> None:
    verdict = verdict_on(here(CONTROL), SITUATIONS[name])
    assert not verdict.holds, verdict.note
