"""The claim decision over its whole input space, against rules that are stated once more and otherwise."""

from __future__ import annotations

import itertools

import pytest

from onrecord.hosts.decision import Busy, Decision, DecisionPolicy, Lease, Observed, Record, Settled, decide

OBSERVED = [
    Observed(*each) for each in itertools.product(Record, (False, True), Lease, (False, True), (False, True), Settled)
]
POLICIES = [DecisionPolicy(*each) for each in itertools.product((False, True), Busy)]
SPACE = list(itertools.product(OBSERVED, POLICIES))

NOTHING_RUNS = {Decision.SERVE, Decision.CONFLICT, Decision.MISSING, Decision.CORRUPT, Decision.YIELD, Decision.WAIT}
RUNS = {Decision.RUN, Decision.REPEAT}
RECORDED = {Record.COMPLETED, Record.FAILED}


def taken_by_another(observed: Observed) -> bool:
    return observed.record != Record.ABSENT and not observed.same_envelope


def undecided(observed: Observed) -> bool:
    """Nothing that is recorded decides by itself."""
    return observed.record == Record.ABSENT or (observed.record == Record.REQUESTED and observed.same_envelope)


def test_the_space_is_whole() -> None:
    assert len(SPACE) == 5 * 2 * 3 * 2 * 2 * 4 * 2 * 2
    assert {decide(*case) for case in SPACE} == set(Decision)


@pytest.mark.parametrize("decision", list(Decision), ids=lambda decision: decision.value)
def test_each_decision_is_made_exactly_where_its_rule_holds(decision: Decision) -> None:
    rule = RULES[decision]
    wrong = [case for case in SPACE if (decide(*case) is decision) != rule(*case)]
    assert wrong == []


RULES = {
    Decision.CONFLICT: lambda o, p: taken_by_another(o),
    Decision.CORRUPT: lambda o, p: o.record == Record.UNKNOWN and o.same_envelope,
    Decision.SERVE: lambda o, p: o.record in RECORDED and o.same_envelope,
    Decision.MISSING: lambda o, p: p.strict and undecided(o),
    Decision.JOIN: lambda o, p: not p.strict and undecided(o) and o.in_flight,
    Decision.WAIT: lambda o, p: rival(o, p) and p.busy == Busy.WAIT,
    Decision.YIELD: lambda o, p: rival(o, p) and p.busy == Busy.YIELD,
    Decision.TAKE_OVER: lambda o, p: may_act(o, p) and o.lease == Lease.OPEN,
    Decision.RUN: lambda o, p: may_act(o, p) and o.lease == Lease.OURS and o.record == Record.ABSENT,
    Decision.SETTLE: lambda o, p: left_behind(o, p) and o.settled in (Settled.DONE, Settled.FAIL),
    Decision.REPEAT: lambda o, p: (
        left_behind(o, p) and (o.settled == Settled.RETRY or (o.settled == Settled.NO and o.may_repeat))
    ),
    Decision.IN_DOUBT: lambda o, p: left_behind(o, p) and o.settled == Settled.NO and not o.may_repeat,
}


def may_act(o: Observed, p: DecisionPolicy) -> bool:
    return undecided(o) and not p.strict and not o.in_flight


def rival(o: Observed, p: DecisionPolicy) -> bool:
    return may_act(o, p) and o.lease == Lease.LIVE


def left_behind(o: Observed, p: DecisionPolicy) -> bool:
    return may_act(o, p) and o.lease == Lease.OURS and o.record == Record.REQUESTED


def test_an_effect_runs_only_under_our_own_lease_and_never_when_strict() -> None:
    for observed, policy in SPACE:
        if decide(observed, policy) in RUNS:
            assert observed.lease is Lease.OURS
            assert not policy.strict
            assert not observed.in_flight
            assert observed.record not in RECORDED


def test_an_effect_that_may_not_be_repeated_is_only_run_again_when_somebody_says_so() -> None:
    for observed, policy in SPACE:
        if decide(observed, policy) is Decision.REPEAT and not observed.may_repeat:
            assert observed.settled is Settled.RETRY


def test_the_conflict_comes_before_everything_else() -> None:
    assert all(decide(o, p) is Decision.CONFLICT for o, p in SPACE if taken_by_another(o))
