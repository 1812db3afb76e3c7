"""Negative controls: without a rule of the kernel the simulation fails, and with it the same schedules pass."""

from __future__ import annotations

import pytest

from kit.simulation.cases import Case, make_case, make_plain_case
from kit.simulation.controls import (
    CONTROLS,
    BirthsAreNotCompared,
    EndedLanesAreNotCompared,
    ForgottenTurnsAreExpected,
    PendingActsAreNotRead,
    kernel_with,
)
from kit.simulation.journal import Death, place
from kit.simulation.life import Machine
from kit.simulation.programs import Node
from kit.simulation.shrinker import find_failure
from onrecord.runtime.scheduler.items import Call, Deliver, Divergent, EffectOutcome, Ended, Requested, Turn
from onrecord.runtime.scheduler.kernel import Kernel
from onrecord.runtime.scheduler.record_side import RecordSide

SEEDS: dict[str, tuple[int, ...]] = {
    "an away is written": (5, 13, 18),
    "turns are written with the next commit": (1, 2, 3),
    "draws are written with the next commit": (2, 5, 6),
    "the step of a forced delivery is written": (6, 10, 44),
    "a delivery committed ahead is marked": (5, 23, 104),
    "draws are counted apart from acts": (1548, 9284),
    "outcomes and at-most-once requests are synced": (9, 20, 58),
    "arrivals of one batch share a commit": (0, 3, 5),
    "nothing is begun before the history is over": (5, 9, 24),
    "nothing is begun before its request is committed": (0, 1, 2),
    "an at-most-once effect without an outcome is in doubt": (21, 46, 58),
    "an effect that is known not to have been begun is not in doubt": (142, 313, 507),
    "a cancelled effect of a dead process is not executed again": (121, 124, 300),
    "an outcome has the time of its commit": (0, 1, 2),
    "an effect that the program gave up has an outcome": (1, 6, 9),
    "an effect that the program gave up has one outcome": (6, 187, 245),
    "an outcome that its effect wrote is delivered by a turn": (1, 2, 3),
    "an outcome that its effect wrote is kept until its turn": (1, 2, 3),
    "a policy is no part of a request": (21, 51, 100),
    "what is listened to is no request": (0, 17, 23),
    "counters begin again at a checkpoint": (35, 93, 161),
    "a checkpoint is taken alone": (35, 139, 242),
    "what is listened to is not committed ahead of a checkpoint": (98, 531, 1487),
    "changed code repeats nothing that has an outcome": (35, 72, 136),
    "a lane that left its record does not return to it": (72, 136, 230),
    "positions are those of the journal": (35, 36, 72),
    "draws stay with their rest if its delivery is dropped": (827, 2019, 3159),
    "dropped items are skipped": (35, 58, 72),
    "what changed code draws is found after the change": (242, 433, 522),
    "a strand of changed code that was away is found after the change": (125760,),
    "what accepted code left out is forgotten in its next life too": (147245, 155883, 258091),
    "draws that changed code leaves out are forgotten": (67761, 80617),
    "a retry is spent by an item": (4077,),
    "a spent retry is no retry": (4077,),
    "a whole record has added requests": (87, 142, 533),
    "a prefix has no added requests": (1, 3, 4),
    "an away strand is waited for": (18, 20, 21),
    "an arrival counts once": (21, 22, 51),
    "arrivals that the history had are dropped": (2, 20, 51),
    "a cancelled effect is still waited for": (5, 9),
    "strands run first in, first out": (44, 231),
    "a busy loop is interrupted": (6, 80),
    "away is granted only where the record leaves it open": (5, 6, 20),
    "a strand that was not away at the last commit had come to rest": (20, 2165),
    "an act waits for the last return before it": (3016,),
    "a request that is not made is reported at rest": (114, 118),
    "a turn that no lane waits for is skipped": (29, 80, 135),
    "a timer that the record does not have fires": (114, 118, 127),
    "a stream is executed again only if nothing was acted on": (56, 69),
    "a stream is cut only if something was acted on": (36, 126),
    "chunks of an earlier execution are void": (36, 126),
}
"""Seeds that fail without the rule."""

_BESIDE = (Node("effect", 5),)
CASES = {
    # The resumed run lets the task go away while it computes, and begins the effect before the task has ended.
    "a strand that was not away at the last commit had come to rest": Case(
        0, (Node("gather", 1, 0, ((Node("yield", 2, 2), Node("compute", 3)), _BESIDE)),), deaths=(Death(1),)
    )
}
"""Small programs for rules that random ones seldom need."""


class NothingIsDeliveredOutOfOrder(RecordSide):
    def _take_early(self) -> None:
        return None


def test_tolerant_replay_needs_deliveries_out_of_order() -> None:
    cases = [make_plain_case(seed) for seed in range(60)]
    assert all(find_failure(case, Machine()) is None for case in cases)
    assert any(find_failure(case, Machine(kernel_with(NothingIsDeliveredOutOfOrder))) is not None for case in cases)


@pytest.mark.parametrize("rule", CONTROLS)
def test_rule_is_needed(rule: str) -> None:
    cases = [make_case(seed) for seed in SEEDS.get(rule, ())]
    if rule in CASES:
        cases.append(CASES[rule])
    assert cases
    for case in cases:
        assert find_failure(case, Machine()) is None, case.seed
        assert find_failure(case, CONTROLS[rule]) is not None, case.seed


# In a random program another lane, which differs for the same reason, may be reported: these rules say which.


@pytest.mark.parametrize(
    ("machine", "lane"),
    [
        (Machine(), "main>child"),
        (Machine(EndedLanesAreNotCompared), "main"),
        (Machine(window=PendingActsAreNotRead), "main"),
    ],
)
def test_request_that_an_ended_lane_left_out_is_reported_first(machine: Machine, lane: str) -> None:
    """`b(await create_task(child()))` where `child` no longer asks for `a`."""
    run = _replay(machine, Requested("a", "main>child", "a", 1), Requested("b", "main", "b", "value", births=1))
    run.ended(run.born("main", "child"))
    with pytest.raises(Divergent) as divergent:
        run.ask("main", Call("b", "no value", key="b"))
    assert divergent.value.diverged.lane == lane


@pytest.mark.parametrize(
    ("machine", "lane"), [(Machine(), "main"), (Machine(kernel_with(BirthsAreNotCompared)), "main>child")]
)
def test_request_left_out_before_a_birth_is_reported_first(machine: Machine, lane: str) -> None:
    """`create_task(child(await a()))` without `a`; the child asks at once."""
    run = _replay(machine, Requested("a", "main", "a", 1), Requested("b", "main>child", "b", "value"))
    with pytest.raises(Divergent) as divergent:
        run.ask(run.born("main", "child"), Call("b", "no value", key="b"))
    assert divergent.value.diverged.lane == lane


@pytest.mark.parametrize(
    ("machine", "is_skipped"), [(Machine(), True), (Machine(kernel_with(ForgottenTurnsAreExpected)), False)]
)
def test_wake_up_of_a_wait_that_was_cancelled_is_skipped(machine: Machine, is_skipped: bool) -> None:
    """Code outside had woken the wait before it was cancelled. A wake-up that may still come is waited for."""
    history = place([Turn("wake", "main", 0), Requested("a", "main", "a", 1), EffectOutcome("a", 2)])
    run = machine.kernel(machine.window(history, machine.digest(history, writable=False)), writable=False)
    run.cancel(run.turn("main", "wake"))
    run.ask("main", Call("a", 1, key="a"))
    assert isinstance(run.next(), Deliver) == is_skipped


def _replay(machine: Machine, first: Requested, second: Requested) -> Kernel:
    items = [first, EffectOutcome(first.key, "value"), second, EffectOutcome(second.key, 0), Ended(None)]
    history = place(items)
    return machine.kernel(machine.window(history, machine.digest(history, writable=False)), writable=False)
