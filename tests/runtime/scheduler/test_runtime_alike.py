"""Lanes that begin alike, and are started in another order when the run comes back, find their own answers.

Nothing tells such lanes apart but what they ask for later. What has to come back is what they found, in some order, and
without asking anybody again.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

import onrecord
from kit.runtime import Died, events, new_id, replay, resume, run
from kit.soak import SOAK
from onrecord.runtime.scheduler import asyncio_driver as tasks

calls: list[Any] = []
SEEDS = 40 if SOAK else 6


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[None]:
    """Whoever stands still is found sooner; but a busy machine takes its time to begin a thread."""
    calls.clear()
    monkeypatch.setattr(tasks, "PATIENCE_SECONDS", 0.3 if "job" in request.node.name else 0.1)
    yield
    Order.chance = None


@onrecord.step
async def ask(value: Any) -> Any:
    calls.append(value)
    for _ in range(random.randrange(4)):
        await asyncio.sleep(0)
    return [value]


@onrecord.step
def ask_blocking(value: Any) -> Any:
    calls.append(value)
    return [value]


class Order:
    """In which order siblings are started: as they are, or by chance."""

    chance: random.Random | None = None

    @classmethod
    def of(cls, plans: list[Any]) -> list[Any]:
        if cls.chance is None:
            return plans
        return cls.chance.sample(plans, len(plans))


async def carry_out(box: list[Any]) -> Any:
    """One lane. The plan comes in a box, so that the lane's origin does not give it away."""
    found: list[Any] = []
    for what, more in box[0]:
        if what == "ask":
            found.append(await ask(more))
        elif what == "block":
            found.append(ask_blocking(more))
        elif what == "sleep":
            await asyncio.sleep(0.0001)
        elif what == "limit":
            async with asyncio.timeout(60):
                found.append(await ask(more))
        elif what == "job":
            found.append(await asyncio.to_thread(ask_blocking, more))
        elif what == "children":
            found.append(await together(more))
        elif what == "state":
            onrecord.set_state(more)
        elif what == "die" and dies[0]:
            raise Died
    return found


async def together(plans: list[Any]) -> Any:
    return sorted(await asyncio.gather(*(carry_out([plan]) for plan in Order.of(plans))), key=repr)


dies = [False]


@onrecord.agent
async def siblings(plans: Any) -> Any:
    found = await together(plans)
    if dies[0]:
        raise Died
    return [found, await ask("after all")]


def random_plans(rng: random.Random, kinds: list[str]) -> list[Any]:
    """A few lanes; most begin as one of the others does, and go on for a while as that one goes on."""
    plans: list[Any] = []
    for _ in range(rng.randrange(2, 6)):
        prefix = rng.choice(plans) if plans and rng.random() < 0.7 else [("ask", "same")]
        plan = prefix[: rng.randrange(1, len(prefix) + 1)]
        plans.append(plan + [(rng.choice(kinds), rng.randrange(3)) for _ in range(rng.randrange(3))])
    return plans


def died(plans: list[Any], memory: Any) -> str:
    """A run whose lanes were started as they are, and which died at its end or in one of them."""
    run_id = new_id()
    Order.chance, dies[0] = None, True
    with pytest.raises(Died):
        run(siblings, plans, store=memory, run_id=run_id)
    return run_id


KINDS = [["ask"], ["ask", "block"], ["ask", "limit", "block"], ["ask", "job"]]


@pytest.mark.parametrize("kinds", KINDS, ids="-".join)
def test_siblings_with_equal_beginnings_find_their_answers_in_any_order(memory: Any, kinds: list[str]) -> None:
    for seed in range(SEEDS):
        plans, run_id = random_plans(random.Random(seed), kinds), new_id()
        Order.chance = None
        recorded = run(siblings, plans, store=memory, run_id=run_id)
        asked = len(calls)
        for other in range(4 if SOAK else 2):
            Order.chance = random.Random(other)
            assert replay(siblings, run_id, store=memory) == recorded, (seed, other, plans)
        assert len(calls) == asked


@pytest.mark.parametrize("kinds", KINDS, ids="-".join)
def test_a_run_that_is_resumed_in_another_order_asks_nobody_again(memory: Any, kinds: list[str]) -> None:
    for seed in range(SEEDS):
        plans = random_plans(random.Random(seed), kinds)
        run_id = died(plans, memory)
        Order.chance, dies[0] = random.Random(seed), False
        asked = len(calls)
        result = resume(siblings, run_id, store=memory)
        assert calls[asked:] == ["after all"], (seed, plans)
        Order.chance = None
        assert replay(siblings, run_id, store=memory) == result, (seed, plans)


@pytest.mark.parametrize(
    ("plans", "orders"),
    [
        pytest.param(
            [[("ask", "same"), ("job", 0)], [("ask", "same"), ("job", 1)], [("ask", "same"), ("job", 0), ("ask", 0)]],
            range(30 if SOAK else 3),
            id="the last turns are on record nowhere",
        ),
        pytest.param(
            [[("ask", "same"), ("job", 0)], [("ask", "same"), ("job", 0), ("ask", 1), ("ask", 2)], [("ask", "same")]],
            [25] * (120 if SOAK else 6),  # one in sixty is handed its answers in the order that shows it
            id="answers of another's record",
        ),
        pytest.param(
            [
                [("ask", "same"), ("block", 1)],
                [("ask", "same"), ("block", 1), ("job", 1)],
                [("ask", "same"), ("sleep", 2), ("limit", 0)],
            ],
            [120] * (8 if SOAK else 2),
            id="one that has ended does not go on",
        ),
        pytest.param(
            [
                [("ask", "same"), ("block", 1), ("block", 2)],
                [("ask", "same"), ("block", 1), ("job", 1)],
                [("ask", "same"), ("sleep", 1)],
                [("ask", "same"), ("limit", 2)],
            ],
            [351] * (6 if SOAK else 2),
            id="one that begins a job does not ask",
        ),
        pytest.param(
            [[("ask", "same"), ("job", 0), ("sleep", 2)], [("ask", "same"), ("job", 0), ("job", 1)]],
            [0] * (16 if SOAK else 3),
            id="a second job or a timer",
        ),
    ],
)
def test_jobs_of_a_run_that_is_resumed_in_another_order_find_their_answers(
    memory: Any, plans: list[Any], orders: Iterable[int]
) -> None:
    for order in orders:
        run_id = died(plans, memory)
        Order.chance, dies[0] = random.Random(order), False
        asked = len(calls)
        result = resume(siblings, run_id, store=memory)
        assert calls[asked:] == ["after all"], order
        Order.chance = None
        assert replay(siblings, run_id, store=memory) == result, order


def test_a_run_that_cannot_be_resumed_in_another_order_asks_nobody_and_goes_on_in_its_own(memory: Any) -> None:
    """In the middle of it nobody can always tell who is who; then nothing happens."""
    went_on = 0
    for seed in range(SEEDS):
        rng = random.Random(seed)
        plans = random_plans(rng, ["ask"])
        victim = rng.randrange(len(plans))
        plans[victim] = [*plans[victim], ("die", None)]
        run_id = died(plans, memory)
        Order.chance, dies[0] = random.Random(seed), False
        asked, written = len(calls), len(events(memory, run_id))
        try:
            result = resume(siblings, run_id, store=memory)
            went_on += 1
        except onrecord.Divergence:
            assert len(calls) == asked, (seed, plans)
            assert len(events(memory, run_id)) == written, (seed, plans)
            Order.chance = None
            result = resume(siblings, run_id, store=memory)
        assert replay(siblings, run_id, store=memory) == result, (seed, plans)
        answered = [one for one in events(memory, run_id) if one.kind == "ActionSucceeded"]
        assert len(answered) == sum(what == "ask" for plan in plans for what, _ in plan) + 1
    assert went_on > SEEDS / 2


SAME = ("ask", "same")


@pytest.mark.parametrize(
    "plans",
    [
        pytest.param([[SAME, ("ask", n)] for n in range(3)], id="a cycle of three"),
        pytest.param([[SAME, SAME, SAME, ("ask", n)] for n in range(4)], id="one runs far ahead"),
        pytest.param([[SAME], [SAME, ("ask", 1)], [SAME, ("ask", 1), ("ask", 2)]], id="they end one after the other"),
        pytest.param([[SAME, ("sleep", 0), ("ask", n)] for n in range(3)], id="timers before they part"),
        pytest.param(
            [[SAME, ("sleep", 0), ("ask", 1)], [SAME, ("ask", 1), ("sleep", 0)]], id="a timer before or after"
        ),
        pytest.param([[SAME, ("children", [[SAME], [SAME]]), ("ask", n)] for n in range(3)], id="children of each"),
        pytest.param([[SAME, ("children", [[SAME, ("ask", n)]])] for n in range(3)], id="only the children part"),
        pytest.param(
            [[("children", [[SAME, ("ask", n), ("ask", n + 3)]])] for n in range(3)], id="nothing of their own"
        ),
        pytest.param([[SAME, ("children", [[SAME]] * n)] for n in (1, 2, 3)], id="by the number of children"),
        pytest.param([[SAME, ("state", n), ("ask", 1)] for n in range(3)], id="by what they set"),
    ],
)
def test_lanes_that_part_later_change_places(memory: Any, plans: list[Any]) -> None:
    for _ in range(10 if SOAK else 2):
        run_id = new_id()
        Order.chance = None
        recorded = run(siblings, plans, store=memory, run_id=run_id)
        asked = len(calls)
        for other in range(6 if SOAK else 3):
            Order.chance = random.Random(other)
            assert replay(siblings, run_id, store=memory) == recorded
        assert len(calls) == asked


def test_lanes_that_were_answered_differently_do_not_change_places(memory: Any) -> None:
    """What one of them has seen cannot be given to another: the first difference is told instead."""
    order = ["left", "right"]

    @onrecord.step
    async def number() -> int:
        calls.append("number")
        return len(calls)

    @onrecord.agent
    async def different() -> Any:
        async def one(name: str) -> Any:
            return [await number(), await ask(name)]

        return await asyncio.gather(*map(one, order))

    run_id = new_id()
    run(different, store=memory, run_id=run_id)
    asked = len(calls)
    order.reverse()
    with pytest.raises(onrecord.Divergence) as parted:
        replay(different, run_id, store=memory)
    assert parted.value.where["path"] == "/payload/value"
    assert len(calls) == asked


def test_lanes_that_drew_different_values_do_not_change_places(memory: Any) -> None:
    order = ["left", "right"]

    @onrecord.agent
    async def drawing() -> Any:
        async def one(name: str) -> Any:
            return [await ask("same"), onrecord.random(), await ask(name)]

        return await asyncio.gather(*map(one, order))

    run_id = new_id()
    run(drawing, store=memory, run_id=run_id)
    order.reverse()
    with pytest.raises(onrecord.Divergence):
        replay(drawing, run_id, store=memory)
