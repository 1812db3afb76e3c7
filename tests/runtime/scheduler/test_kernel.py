"""The kernel alone: for each rule the smallest program that needs it, recorded and replayed by hand."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from onrecord.runtime.scheduler.items import (
    AHEAD,
    APART,
    STEPS_BETWEEN_RESTS,
    Away,
    Began,
    Begin,
    Call,
    CheckpointTaken,
    Chunk,
    Commit,
    Cut,
    Deliver,
    Diverged,
    Divergent,
    Done,
    Drawn,
    Dropped,
    EffectCancelled,
    EffectFailed,
    EffectOutcome,
    EffectsInDoubt,
    Ended,
    Item,
    Live,
    Noted,
    RecordOver,
    Requested,
    Run,
    SettledItem,
    Token,
    Turn,
    Wait,
)
from onrecord.runtime.scheduler.kernel import Kernel
from onrecord.runtime.scheduler.window import Placed, Window, digest_history

N = STEPS_BETWEEN_RESTS
A = Requested("main/a/0", "main", "a", 1)
ONCE = Requested("main/a/0", "main", "a", 1, once=True)
B = Requested("main/b/0", "main", "b", 2)


def placed(*items: Item) -> list[Placed]:
    """Give positions to items, with gaps."""
    return [(3 * number + 7, item) for number, item in enumerate(items)]


class Hand:
    """A kernel driven by hand, the items it committed and what it delivered."""

    def __init__(self, *history: Item, writable: bool = True, **options: Any) -> None:
        items = placed(*history)
        window = Window(iter(items), digest_history(items, writable=writable))
        self.kernel = Kernel(window, writable=writable, **options)
        self.committed: list[Item] = []
        self.begun: list[Token] = []
        self.stopped: list[Token] = []
        self.delivered: list[tuple[Any, Any]] = []

    def ask(self, name: str = "a", digest: Any = 1, *, lane: str = "main", once: bool = False) -> Token:
        return self.kernel.ask(lane, Call(name, digest, once))

    def rest(self, steps: int | None = None) -> Any:
        """Do what the kernel says up to the next delivery, and return what it says then."""
        while True:
            action = self.kernel.next(steps)
            if isinstance(action, Commit):
                self.committed += action.items
            elif isinstance(action, Begin):
                self.begun += action.tokens
                self.stopped += action.stop
            elif not isinstance(action, Live):
                if isinstance(action, Deliver):
                    self.delivered.append((action.token.name, action.value))
                return action


def replay(*history: Item, **options: Any) -> Hand:
    return Hand(*history, writable=False, **options)


# Deliveries


def test_delivery_committed_ahead_and_forgotten_since_is_skipped() -> None:
    """`async with timeout(1): await a`, where the outcome of `a` and the timer arrive together."""

    def program(run: Hand) -> tuple[Token, Token]:
        return run.ask(), run.kernel.turn("main", "timer")

    run = Hand()
    effect, timer = program(run)
    assert run.rest() == Wait()
    run.kernel.arrived(effect, "value")
    run.kernel.arrived(timer)
    assert run.rest() == Deliver(effect, "value")
    assert run.committed == [A, EffectOutcome(A.key, "value"), Turn("timer", "main", 0, forced=AHEAD)]
    run.kernel.cancel(timer)
    run.kernel.finish("end")
    assert run.rest() == Done()
    again = replay(*run.committed)
    effect, timer = program(again)
    assert again.rest() == Deliver(effect, "value")
    again.kernel.cancel(timer)
    again.kernel.finish("end")
    assert again.rest() == Done()


def test_busy_program_is_delivered_to_at_the_recorded_step() -> None:
    """`t = create_task(a()); while not t.done(): await sleep(0)` with two outcomes there at once."""
    run = Hand()
    first, second = run.ask(), run.ask("b", 2)
    assert run.rest(N) is None
    run.kernel.arrived(first, 1)
    run.kernel.arrived(second, 2)
    assert run.rest(N - 1) is None
    assert run.rest(N + 3) == Deliver(first, 1)
    assert run.rest(N - 1) is None
    assert run.rest(N) == Deliver(second, 2)
    assert run.committed[2:] == [EffectOutcome(A.key, 1, forced=N + 3), EffectOutcome(B.key, 2, forced=AHEAD)]
    again = replay(*run.committed)
    first, second = again.ask(), again.ask("b", 2)
    assert again.rest(N + 2) is None
    assert again.rest(N + 3) == Deliver(first, 1)
    assert again.rest(N - 1) is None
    assert again.rest(N) == Deliver(second, 2)


@pytest.mark.parametrize(("how", "value"), [("done", "value"), ("fail", EffectFailed("value"))])
def test_settlement_comes_to_a_busy_program(how: str, value: Any) -> None:
    """The same program, killed, settled and resumed: it never rests."""
    run = Hand(ONCE, SettledItem(ONCE.key, how, "value"))
    token = run.ask(once=True)
    assert run.rest(N - 1) is None
    assert run.rest(N) == Deliver(token, value)


def test_strands_run_first_in_first_out() -> None:
    """A busy loop that waits for `to_thread(f)` wakes itself and gives way."""
    kernel = Kernel()
    for strand in ("loop", "thread", "loop"):
        kernel.wake(strand)
    assert kernel.next() == Run("loop")
    kernel.wake("loop")
    kernel.wake("other")
    kernel.remove("other")
    assert kernel.ready
    assert [kernel.next(), kernel.next()] == [Run("thread"), Run("loop")]
    assert not kernel.ready


def test_arrival_counts_once() -> None:
    """A worker that comes in the replay, and again after going live."""
    run = Hand()
    job = run.kernel.turn("main", "start")
    run.kernel.arrived(job)
    assert run.rest() == Deliver(job, None)
    run.kernel.arrived(job)
    assert run.rest() == Wait()
    other = run.kernel.turn("main", "start")
    run.kernel.arrived(other)
    run.kernel.arrived(other)
    assert run.rest() == Deliver(other, None)
    assert run.rest() == Wait()


def test_kernel_is_idle_until_something_arrives() -> None:
    run = Hand()
    assert run.kernel.is_idle
    run.kernel.wake("strand")
    assert not run.kernel.is_idle
    assert run.rest() == Run("strand")
    token = run.ask()
    run.rest()
    assert run.kernel.is_idle
    run.kernel.arrived(token, 1)
    assert not run.kernel.is_idle


def test_arrivals_of_one_batch_share_a_commit() -> None:
    run = Hand()
    tokens = [run.ask(), run.ask("b", 2)]
    assert run.rest() == Wait()
    for token in tokens:
        run.kernel.arrived(token, 0)
    action = run.kernel.next()
    assert isinstance(action, Commit)
    assert [type(item) for item in action.items] == [EffectOutcome, EffectOutcome]
    assert action.sync


# Away


def test_going_away_is_recorded_when_it_happens() -> None:
    """A thread computes 100 ms, another asks; killed before the first is back."""
    run = Hand()
    thread = run.kernel.born("main", "thread")
    assert run.kernel.away(thread)
    run.ask()
    assert run.rest() == Wait()
    assert run.committed == [Away("main>thread", 0), A._replace(births=1)]
    again = Hand(*run.committed)
    again.kernel.born("main", "thread")
    again.ask()
    back = again.kernel.act(thread)
    assert back is not None
    assert again.rest() == Deliver(back, None)
    assert A.key in [token.name for token in again.begun], "the effect is begun first"


def test_replay_waits_for_the_strand_that_is_away() -> None:
    """A thread in `SimpleQueue.get()`, another puts."""
    history = [Away("main>thread", 0), A, EffectOutcome(A.key, 1), Turn("back", "main>thread", 0), B]
    for steps in (None, N):
        run = replay(*(item._replace(forced=N) if steps and isinstance(item, Turn) else item for item in history))
        thread = run.kernel.born("main", "thread")
        assert run.kernel.away(thread)
        token = run.ask()
        assert run.rest() == Deliver(token, 1)
        assert run.rest(steps) == Wait()
        back = run.kernel.act(thread)
        assert run.rest(steps) == Deliver(back, None)


def test_away_is_granted_where_the_record_leaves_it_open() -> None:
    assert Kernel().away("main"), "the first thing that a program does"
    ends_at_rest = Hand(A)
    ends_at_rest.ask()
    assert not ends_at_rest.kernel.away("main"), "at the commit of its request each strand had come to rest"
    ends_with_delivery = Hand(A, EffectOutcome(A.key, 1), Turn("timer", "main", 0, forced=AHEAD))
    ends_with_delivery.ask()
    ends_with_delivery.kernel.turn("main", "timer")
    assert not ends_with_delivery.kernel.away("main")
    assert isinstance(ends_with_delivery.rest(), Deliver)
    assert ends_with_delivery.kernel.away("main"), "nothing that the program does after it is on record"


def test_draw_more_or_less_moves_no_away() -> None:
    history = [Away("main", 0, 1), A, EffectOutcome(A.key, 1)]
    run = replay(*history)
    assert run.kernel.act("main", draws=True) is None
    assert run.kernel.act("main") is not None
    without = replay(*history)
    assert without.kernel.act("main") is not None, "met at the act itself"
    assert without.kernel.act("main") is None


def test_strand_waits_for_each_return_before_its_act() -> None:
    """A thread computes, reads the clock and computes again, then takes a lock: without the clock."""
    back = Turn("back", "main", 0)
    run = replay(Away("main", 0), back, Drawn("main", "clock", 5), Away("main", 0, 1), back, Ended("end"))
    first = run.kernel.act("main")
    assert run.rest() == Deliver(first, None)
    second = run.kernel.returned("main")
    assert second is not None
    assert run.rest() == Deliver(second, None)
    assert run.kernel.returned("main") is None


# Cancellation


def test_effect_cancelled_before_it_is_begun_has_an_outcome() -> None:
    """`t = create_task(a()); await sleep(0); t.cancel()` while the loop is in a sync effect."""
    run = Hand()
    token = run.ask()
    run.kernel.cancel(token)
    assert run.rest() == Deliver(token, EffectCancelled())
    assert run.begun == []
    assert run.committed == [A, EffectOutcome(A.key, EffectCancelled())]


def test_cancelled_effect_is_waited_for() -> None:
    """`gather(a(), b())` of which one is cancelled and cleans up with an effect."""
    run = Hand()
    token = run.ask()
    assert run.rest() == Wait()
    run.kernel.cancel(token)
    assert run.rest() == Wait()
    assert run.stopped == [token]
    assert list(run.kernel.open) == [token]
    run.kernel.arrived(token, EffectCancelled())
    assert run.rest() == Deliver(token, EffectCancelled())


@pytest.mark.parametrize("request_", [A, ONCE])
def test_cancelled_effect_of_a_dead_process_is_not_executed(request_: Requested) -> None:
    run = Hand(request_)
    token = run.ask(once=request_.once)
    run.kernel.cancel(token)
    assert run.rest() == Deliver(token, EffectCancelled(unknown=True))
    assert run.begun == []


# What the program gives up


@pytest.mark.parametrize("is_begun", [True, False])
def test_effect_that_the_program_gave_up_has_an_outcome(is_begun: bool) -> None:
    run = Hand()
    token = run.ask()
    if is_begun:
        assert run.rest() == Wait()
    run.kernel.drop(token)
    run.ask("b", 2)
    run.kernel.arrived(token, "too late")
    assert run.rest() == Wait()
    assert run.committed == [A, EffectOutcome(A.key, EffectCancelled(), forced=APART), B]
    assert [one.name for one in run.begun] == [A.key] * is_begun + [B.key]
    again = replay(*run.committed)
    again.kernel.drop(again.ask())
    again.ask("b", 2)
    assert again.rest() == RecordOver()
    assert again.delivered == []


def test_outcome_that_is_here_is_written_when_the_program_gives_up() -> None:
    run = Hand()
    first, second, third = run.ask(), run.ask("b", 2), run.ask("c", 3)
    run.rest()
    run.kernel.arrived(first, 1)
    run.kernel.arrived(second, 2)
    assert run.rest() == Deliver(first, 1)
    run.kernel.drop(second)
    run.kernel.arrived(third, 3)
    run.kernel.drop(third)
    run.kernel.finish("end")
    assert run.rest() == Done()
    outcomes = [item for item in run.committed if isinstance(item, EffectOutcome)]
    assert [(item.value, item.forced) for item in outcomes] == [(1, 0), (2, AHEAD), (3, APART)]


def test_effect_given_up_by_a_dead_process_has_an_outcome() -> None:
    run = Hand(A)
    run.kernel.drop(run.ask())
    run.kernel.finish("end")
    assert run.rest() == Done()
    assert run.committed == [EffectOutcome(A.key, EffectCancelled(unknown=True), forced=APART), Ended("end")]


# Outcomes that the effect writes by itself


def test_outcome_that_its_effect_wrote_is_delivered_by_a_turn() -> None:
    """Written at any time, also while the program is busy; delivered after what had arrived before."""

    def program(run: Hand) -> list[Token]:
        return [run.ask(), run.ask("b", 2)]

    run = Hand()
    first, second = program(run)
    run.rest()
    run.kernel.arrived(first, 1)
    run.committed.append(EffectOutcome(B.key, 2, 7, APART))
    run.kernel.arrived(second, 2, time=9, is_written=True)
    assert run.rest(N + 5) == Deliver(first, 1)
    assert run.rest(N) == Deliver(second, 2)
    assert run.kernel.time == 9
    assert run.committed[2:] == [
        EffectOutcome(B.key, 2, 7, APART),
        EffectOutcome(A.key, 1, forced=N + 5),
        Turn("taken", "main", 1, 9, AHEAD),
    ]
    again = replay(*run.committed)
    first, second = program(again)
    assert again.rest(N) is None
    assert again.rest(N + 5) == Deliver(first, 1)
    assert again.rest() == Deliver(second, 2)
    assert again.kernel.time == 9


def test_outcome_that_its_effect_wrote_survives_a_death() -> None:
    run = Hand(ONCE, EffectOutcome(ONCE.key, 1, 7, APART))
    token = run.ask(once=True)
    assert run.rest() == Deliver(token, 1), "neither in doubt nor executed again"
    assert run.begun == []
    run.ask("b", 2)
    run.rest()
    assert run.committed == [Turn("taken", "main", 0), B]


def test_turn_of_an_effect_that_wrote_its_outcome_and_was_given_up_is_skipped() -> None:
    run = replay(A, EffectOutcome(A.key, 1, 7, APART), Turn("taken", "main", 0, 9), B, EffectOutcome(B.key, 2, 9))
    run.kernel.drop(run.ask())
    other = run.ask("b", 2)
    assert run.rest() == Deliver(other, 2)
    assert run.rest() == RecordOver()


def test_timer_of_a_loop_that_was_away_is_delivered_though_its_task_has_asked() -> None:
    """A loop that is away learns that it is only after the step in which its task asks."""
    run = replay(Away("main", 0), Turn("timer", "main", 0, 8), A, Turn("back", "main", 0), EffectOutcome(A.key, 1))
    timer, token, back = run.kernel.turn("main", "timer"), run.ask(), run.kernel.act("main")
    assert [run.rest(), run.rest(), run.rest()] == [Deliver(timer, None), Deliver(back, None), Deliver(token, 1)]


def test_timer_of_a_lane_leaves_the_outcome_that_its_effect_wrote() -> None:
    """Both turns are the first of their kind in the lane."""
    run = replay(A, EffectOutcome(A.key, 1, 7, APART), Turn("timer", "main", 0, 8), Turn("taken", "main", 0, 9))
    timer, token = run.kernel.turn("main", "timer"), run.ask()
    assert run.rest() == Deliver(timer, None)
    assert run.rest() == Deliver(token, 1)


# Wake-ups by code outside of every lane


def test_wake_up_of_a_lane_that_has_ended_is_skipped() -> None:
    """Data of a pipe came in two pieces, and comes in one."""
    run = replay(Turn("wake", "main>read", 0), Turn("wake", "main>read", 1), A, EffectOutcome(A.key, 1))
    assert run.rest() == Wait(), "the lane is still to start"
    lane = run.kernel.born("main", "read")
    first = run.kernel.turn(lane, "wake")
    assert run.rest() == Deliver(first, None)
    run.kernel.ended(lane)
    token = run.ask()
    assert run.rest() == Deliver(token, 1)


def test_wake_up_that_the_record_does_not_have_is_delivered() -> None:
    run = replay(Turn("wake", "main", 0), A, EffectOutcome(A.key, 1))
    first, timer = run.kernel.turn("main", "wake"), run.kernel.turn("main", "timer")
    assert run.rest() == Deliver(first, None)
    assert run.rest() == Wait(), "the timer may be a time-out of what is waited for"
    second = run.kernel.turn("main", "wake")
    assert run.rest() == Wait(), "the wake-up has not come"
    run.kernel.arrived(second)
    assert run.rest() == Deliver(second, None)
    assert run.kernel.stuck() is None
    assert run.rest() == Deliver(timer, None)
    assert isinstance(run.rest(), Diverged)


# What is listened to


def test_value_that_no_request_asks_for() -> None:
    run = Hand()
    order = run.kernel.listen("cancel")
    assert run.rest() == Wait()
    assert run.begun == [order]
    assert not run.kernel.open
    run.kernel.arrived(order, "stop")
    run.kernel.arrived(order, "stop again")
    assert run.rest() == Deliver(order, "stop")
    assert run.rest() == Wait()
    assert run.committed == [EffectOutcome("!cancel", "stop")]
    again = Hand(*run.committed)
    order = again.kernel.listen("cancel")
    assert again.rest() == Deliver(order, "stop")


def test_run_ends_without_what_it_listens_to() -> None:
    run = Hand()
    run.kernel.listen("cancel")
    run.rest()
    run.kernel.finish("end")
    assert run.rest() == Done()
    again = replay(*run.committed)
    again.kernel.listen("cancel")
    again.kernel.finish("end")
    assert again.rest() == Done()


# Checkpoints


def test_run_starts_at_a_checkpoint() -> None:
    def rest_of_program(run: Hand, root: str) -> None:
        token = run.ask(lane=root)
        run.rest()
        run.kernel.arrived(token, 2)
        assert run.rest() == Deliver(token, 2)
        run.kernel.finish("end")
        assert run.rest() == Done()

    run = Hand()
    token = run.ask()
    run.rest()
    run.kernel.arrived(token, 1)
    run.kernel.listen("cancel")
    assert not run.kernel.is_alone
    run.rest()
    assert run.kernel.is_alone
    root = run.kernel.checkpoint("main", "state")
    assert (root, run.kernel.root) == ("main@1", "main@1")
    rest_of_program(run, root)
    taken = CheckpointTaken("main", "state")
    after = [A._replace(key="main@1/a/0", lane="main@1"), EffectOutcome("main@1/a/0", 2), Ended("end")]
    assert run.committed == [A, EffectOutcome(A.key, 1), taken, *after]
    again = replay(*after, root=root, time=5)
    assert again.kernel.time == 5
    token = again.ask(lane=root)
    assert again.rest() == Deliver(token, 2)
    again.kernel.finish("end")
    assert again.rest() == Done()
    second = Hand(root="main@1")
    assert second.kernel.checkpoint("main@1", "state") == "main@2"


def test_new_checkpoint_is_committed_at_once() -> None:
    run = Hand()
    assert run.kernel.flush() is None
    run.kernel.checkpoint("main", "state")
    assert run.kernel.flush() == Live()
    assert run.kernel.flush() == Commit([CheckpointTaken("main", "state")], sync=True)
    run.kernel.committed(7)
    assert run.kernel.time == 7
    assert run.kernel.flush() is None
    again = Hand(CheckpointTaken("main", "state", 7))
    again.kernel.checkpoint("main", "state")
    assert again.kernel.time == 7
    assert again.kernel.flush() is None


def test_checkpoint_of_changed_code_is_committed_after_what_came_before_it() -> None:
    taken = CheckpointTaken("main", "state")
    run = accept(taken)
    run.kernel.note("main", "more")
    run.kernel.checkpoint("main", "state")
    assert run.kernel.flush() == Live()
    assert run.kernel.flush() == Commit([Dropped((7,)), Noted("main", "more"), taken], sync=True)


def test_checkpoint_is_compared() -> None:
    run = replay(CheckpointTaken("main", "state"), Ended("end"))
    with pytest.raises(Divergent):
        run.kernel.checkpoint("main", "other state")


def test_checkpoint_is_taken_alone() -> None:
    kernel = Kernel()
    child = kernel.born("main", "child")
    assert not kernel.is_alone
    kernel.ended(child)
    kernel.ended(child)
    assert kernel.is_alone
    kernel.wake("thread")
    assert not kernel.is_alone


# Streams

CHUNK = Chunk(A.key, 0, "c")


@pytest.mark.parametrize(
    ("after", "is_cut"),
    [([], False), ([Chunk(A.key, 1, "d")], False), ([B], True), ([Chunk(B.key, 0, "e")], True)],
    ids=["nothing", "another chunk", "a request", "a chunk of another stream"],
)
def test_stream_is_void_or_cut(after: list[Item], is_cut: bool) -> None:
    """`async for word in stream: await ask(word)`, killed."""
    before = [B] if after and isinstance(after[0], Chunk) and after[0].key == B.key else []
    run = Hand(A, *before, CHUNK, *after)
    stream = run.ask()
    if before:
        run.ask("b", 2)
    if is_cut:
        assert run.rest() == Deliver(stream, "c", False)
        if not before:
            run.ask("b", 2)
        while run.delivered[-1][1] != Cut():
            run.rest()
        assert stream not in run.begun
    else:
        assert run.rest() == Wait()
        assert run.delivered == []
        assert run.committed == [Began(A.key)]
        assert run.begun == [stream]


def test_chunks_before_a_second_execution_are_void() -> None:
    run = replay(A, CHUNK, Began(A.key), Chunk(A.key, 0, "new"), EffectOutcome(A.key, "end"))
    stream = run.ask()
    assert run.rest() == Deliver(stream, "new", False)
    assert run.rest() == Deliver(stream, "end")


# Doubt


def test_effect_in_doubt_stops_everything() -> None:
    run = Hand(ONCE)
    token = run.ask(once=True)
    run.ask("b", 2)
    assert run.rest() == EffectsInDoubt([token])
    assert run.begun == []
    assert run.committed == []


def test_retry_is_spent_by_an_item() -> None:
    """SettledItem `retry`, killed again."""
    history = [ONCE, SettledItem(ONCE.key, "retry")]
    run = Hand(*history)
    token = run.ask(once=True)
    assert run.rest() == Wait()
    assert run.begun == [token]
    assert run.committed == [Began(ONCE.key)]
    second = Hand(*history, *run.committed)
    token = second.ask(once=True)
    assert second.rest() == EffectsInDoubt([token])


def test_effect_that_was_never_begun_is_not_in_doubt() -> None:
    run = Hand(ONCE, may_repeat=lambda token: token.recorded == ONCE)
    token = run.ask(once=True)
    assert run.rest() == Wait()
    assert run.begun == [token]
    assert run.committed == [Began(ONCE.key)]


def test_token_names_the_recorded_request() -> None:
    run = Hand(ONCE)
    assert run.ask().recorded == ONCE
    assert run.ask("b", 2).recorded is None


def test_nothing_is_begun_before_the_history_is_over() -> None:
    run = Hand(A, EffectOutcome(A.key, 1), B)
    first = run.ask()
    assert run.rest() == Deliver(first, 1)
    other = run.ask("c", 3, lane=run.kernel.born("main", "child"))
    second = run.ask("b", 2)
    assert run.rest() == Wait()
    assert run.begun == [other, second]
    assert run.committed == [Requested("main>child/c/0", "main>child", "c", 3)]


def test_replay_of_a_prefix_ends_at_its_end() -> None:
    """A prefix has no request that is added."""
    run = replay(A, EffectOutcome(A.key, 1))
    run.ask()
    run.rest()
    run.ask("b", 2)
    assert run.rest() == RecordOver()


# Tolerant replays


def test_tolerant_replay_binds_a_request_to_another_recorded_one() -> None:
    asked: list[Any] = []

    def loosen(request: Requested, candidates: list[tuple[int, Requested]]) -> int | None:
        asked.append((request.key, [position for position, _ in candidates]))
        return candidates[-1][0] if request.name == "c" else None

    run = replay(A, B, EffectOutcome(A.key, 1), EffectOutcome(B.key, 2), Ended("end"), loosen=loosen)
    child = run.kernel.born("main", "child")
    other = run.ask("c", 3, lane=child)
    assert asked == [("main>child/c/0", [7, 10])]
    assert run.rest() == Deliver(other, 2), "out of order: the lane of the first request waits for it"
    first = run.ask()
    assert run.rest() == Deliver(first, 1)
    run.kernel.ended(child)
    run.kernel.finish("end")
    assert run.rest() == Done()
    assert len(asked) == 1


def test_replay_is_made_tolerant_before_its_first_act() -> None:
    run = replay(A, EffectOutcome(A.key, 1))
    run.kernel.tolerate(lambda request, unmade: next(position for position, _ in unmade))
    token = run.ask("other", 5)
    assert token.recorded == A
    assert run.rest() == Deliver(token, 1)


def test_tolerant_replay_diverges_if_nothing_answers() -> None:
    run = replay(A, EffectOutcome(A.key, 1), Ended("end"), loosen=lambda request, candidates: None)
    with pytest.raises(Divergent):
        run.ask("b", 2)
    waits = replay(A, EffectOutcome(A.key, 1), Ended("end"), loosen=lambda request, candidates: None)
    assert waits.rest() == Diverged("main", A, "waits for another lane", "removed", 7)


# Changed code


def accept(*history: Item) -> Hand:
    return Hand(*history, accepts=True)


def test_request_that_changed_code_does_not_make_is_dropped() -> None:
    """`await a(); await b(); await c()` without `b`."""
    c = Requested("main/c/0", "main", "c", 3)
    history = [A, EffectOutcome(A.key, 1), B, EffectOutcome(B.key, 2), c]
    run = accept(*history)
    first = run.ask()
    assert run.rest() == Deliver(first, 1)
    third = run.ask("c", 3)
    assert run.rest() == Wait()
    assert run.kernel.dropped == [13, 16]
    run.kernel.arrived(third, 3)
    assert run.rest() == Deliver(third, 3)
    run.kernel.finish("end")
    assert run.rest() == Done()
    assert run.committed == [Dropped((13, 16)), EffectOutcome(c.key, 3), Ended("end")]
    again = replay(*history, *run.committed)
    first = again.ask()
    assert again.rest() == Deliver(first, 1)
    third = again.ask("c", 3)
    assert again.rest() == Deliver(third, 3)
    again.kernel.finish("end")
    assert again.rest() == Done()


def test_changed_code_repeats_nothing_that_has_an_outcome() -> None:
    """`await a()` with `await new()` before it: the lane waits for `new` until the run is live."""
    run = accept(A, EffectOutcome(A.key, 1))
    new = run.ask("new", 9)
    assert run.rest() == Wait()
    assert run.begun == [new]
    run.kernel.arrived(new, 0)
    assert run.rest() == Deliver(new, 0)
    old = run.ask()
    assert run.rest() == Deliver(old, 1)
    assert run.begun == [new]
    changed = accept(A, EffectOutcome(A.key, 1))
    token = changed.ask(digest="other")
    assert changed.rest() == Wait()
    assert changed.begun == [token]


def test_changed_code_asks_again_for_an_effect_in_doubt() -> None:
    run = accept(ONCE)
    new = run.ask("new", 9)
    run.rest()
    run.kernel.arrived(new, 0)
    run.rest()
    token = run.ask(once=True)
    assert run.rest() == EffectsInDoubt([token])


@pytest.mark.parametrize("is_dropped", [True, False], ids=["not made again", "made again before"])
def test_retry_of_an_effect_that_changed_code_asks_for_again(is_dropped: bool) -> None:
    """Settled before the code was changed, or after the changed code was in doubt."""
    new = Requested("main/new/0", "main", "new", 9)
    history: list[Item] = [ONCE, SettledItem(ONCE.key, "retry")]
    if not is_dropped:
        out = EffectOutcome(new.key, 0)
        history = [ONCE, Dropped((7,)), new, out, ONCE, SettledItem(ONCE.key, "retry")]
    run = accept(*history)
    first = run.ask("new", 9)
    run.rest()
    run.kernel.arrived(first, 0)
    token = run.ask(once=True)
    while run.rest() != Wait():
        pass
    assert run.begun[-1] == token
    assert run.committed.count(Began(ONCE.key)) == 1


def test_busy_program_whose_code_changed_leaves_its_record() -> None:
    run = accept(A, EffectOutcome(A.key, 1))
    run.ask("new", 9)
    assert run.rest(1_000) is None
    assert run.kernel.stuck() is None
    assert run.rest(1_001) is None
    assert run.kernel.live
    assert run.kernel.dropped == [7, 10]


# Divergence


def ask_changed(run: Hand) -> None:
    run.ask(digest="other")


def ask_more(run: Hand) -> None:
    run.ask()
    run.rest()
    run.ask("b", 2)


def finish_early(run: Hand) -> None:
    run.kernel.finish("end")


def wait_for_nothing(run: Hand) -> None:
    run.kernel.turn("main", "wake")


def end_differently(run: Hand) -> None:
    run.ask()
    run.rest()
    run.kernel.finish("other end")


def start_child_first(run: Hand) -> None:
    child = run.kernel.born("main", "child")
    run.ask("c", 3, lane=child)


def end_lane(run: Hand) -> None:
    run.kernel.ended("main")


WHOLE = [A, EffectOutcome(A.key, 1), Ended("end")]
WITH_CHILD = [A, EffectOutcome(A.key, 1), Requested("main>child/c/0", "main>child", "other", 4), Ended("end")]


@pytest.mark.parametrize(
    ("history", "program", "report"),
    [
        (WHOLE, ask_changed, Diverged("main", A, A._replace(digest="other"), "changed", 7)),
        (WHOLE, ask_more, Diverged("main", "nothing", B, "added", None)),
        (WHOLE, finish_early, Diverged("main", A, "the agent ended", "removed", 7)),
        (WHOLE, wait_for_nothing, Diverged("main", A, "waits for ('wake', 'main', 0)", "removed", 7)),
        (WHOLE, end_differently, Diverged("main", WHOLE[2], Ended("other end"), "ended differently", 13)),
        (WHOLE, end_lane, Diverged("main", A, "ended", "removed", 7)),
        (WITH_CHILD, start_child_first, Diverged("main", A, "started main>child", "removed", 7)),
    ],
)
def test_divergence_names_lane_expected_and_actual(
    history: list[Item], program: Callable[[Hand], None], report: Diverged
) -> None:
    run = replay(*history)
    with suppress(Divergent):
        program(run)
    assert run.rest() == report
    with pytest.raises(Divergent):
        run.ask("another")


def test_busy_program_that_left_its_record_is_named() -> None:
    run = replay(A, EffectOutcome(A.key, 1))
    assert run.rest(1_000) is None
    assert run.kernel.stuck() == Diverged("main", A, "waits for another lane", "removed", 7)


def test_policy_is_no_part_of_a_request() -> None:
    run = replay(ONCE)
    run.ask(once=False)
    assert run.rest() == RecordOver()


def test_recorded_digest_compares_itself() -> None:
    class AnyDigest:
        __hash__ = None  # type: ignore[assignment]

        def __eq__(self, other: object) -> bool:
            return other != "other"

    for digest, is_same in (("any", True), ("other", False)):
        run = replay(A._replace(digest=AnyDigest()), EffectOutcome(A.key, 1), Ended(AnyDigest()))
        if is_same:
            run.ask(digest=digest)
            run.rest()
            run.kernel.finish(digest)
            assert run.rest() == Done()
        else:
            with pytest.raises(Divergent):
                run.ask(digest=digest)


def test_next_recorded_act_of_a_lane_is_shown() -> None:
    run = Hand(A, EffectOutcome(A.key, 1), B)
    assert [run.kernel.peek("main"), run.kernel.peek("main>child")] == [A, None]
    run.ask()
    assert run.kernel.peek("main") == B
    assert Kernel().peek("main") is None


def test_delivery_that_no_lane_waits_for_is_reported() -> None:
    turn = Turn("taken", "main", 0)
    assert replay(turn).rest() == Diverged("main", turn, "waits for another lane", "not awaited", 7)
    late = Turn("taken", "main>child", 0)
    assert replay(late).rest() == Diverged("main>child", late, "has ended, or was not started", "not awaited", 7)


def test_wake_up_from_outside_is_waited_for() -> None:
    """Code outside of every lane creates the turn only when it comes."""
    turn = Turn("wake", "main", 0, 5)
    run = replay(turn)
    assert run.rest() == Wait()
    assert run.rest(N) is None
    assert run.kernel.diverged is None
    token = run.kernel.turn("main", "wake")
    assert run.rest() == Deliver(token, None)
    assert run.kernel.time == 5


def test_wake_up_that_does_not_come_is_skipped_in_the_end() -> None:
    run = replay(Turn("wake", "main", 0), A)
    assert run.rest() == Wait()
    assert run.kernel.stuck() is None
    assert run.rest() == Diverged("main", A, "waits for another lane", "removed", 10)


def test_changed_code_drops_a_wake_up_that_has_not_come() -> None:
    run = accept(turn := Turn("wake", "main", 0), A, EffectOutcome(A.key, 1))
    assert run.rest() == Wait()
    assert run.kernel.live
    assert run.kernel.dropped == [position for position, _ in placed(turn, A, EffectOutcome(A.key, 1))]


# Sleeping more or less often


SLEPT = [Turn("timer", "main", 0, 5), Turn("timer", "main", 1, 9)]


@pytest.mark.parametrize("writable", [False, True])
@pytest.mark.parametrize("count", range(5))
def test_program_may_sleep_more_or_less_often(count: int, writable: bool) -> None:
    """`while not exists(path): sleep(0.05)`, and then a request."""
    run = Hand(*SLEPT, A, EffectOutcome(A.key, 1, 20), Ended("end"), writable=writable)
    for number in range(count):
        timer = run.kernel.turn("main", "timer", due=3 * (number + 1))
        assert run.rest() == Deliver(timer, None)
    assert run.kernel.time == [0, 5, 9, 9, 12][count]
    token = run.ask()
    assert run.rest() == Deliver(token, 1)
    run.kernel.finish("end")
    assert run.rest() == Done()
    assert run.committed == []


@pytest.mark.parametrize("kind", ["timer", "back", "pause"])
@pytest.mark.parametrize(("forced", "steps"), [(0, None), (0, 100_000), (N + 3, N + 3), (N + 3, N + 9), (AHEAD, N)])
def test_turn_that_no_lane_waits_for_is_skipped(kind: str, forced: int, steps: int | None) -> None:
    """At rest, or where a busy program had got it. A program that spins need not rest for one that came at rest."""
    run = replay(A, Turn(kind, "main", 0, 5, forced), EffectOutcome(A.key, 1, forced=forced))
    token = run.ask()
    if steps is not None:
        assert run.rest(N - 1) is None
    assert run.rest(steps) == Deliver(token, 1)
    assert run.rest() == RecordOver()


def test_delivery_that_came_at_rest_comes_to_a_program_that_spins_since_it_sleeps_less_often() -> None:
    run = replay(A, SLEPT[0], B, EffectOutcome(A.key, 1, 7), Ended("end"))
    token = run.ask()
    assert run.rest(100_000) is None, "it may still make the request and rest"
    run.ask("b", 2)
    assert run.rest(100_001) == Deliver(token, 1)
    other = replay(A, EffectOutcome(A.key, 1, 7), Ended("end"))
    other.ask()
    assert other.rest(100_001) is None, "nothing shows that it does not rest"


def test_busy_program_that_rests_after_all_gets_its_turn() -> None:
    run = replay(A, SLEPT[0], B, EffectOutcome(A.key, 1, 7))
    token = run.ask()
    assert run.rest(100_000) is None
    timer = run.kernel.turn("main", "timer")
    assert run.rest() == Deliver(timer, None)
    assert run.kernel.time == 5
    run.ask("b", 2)
    assert run.rest() == Deliver(token, 1)


def test_turn_does_not_end_a_later_wait_of_its_lane() -> None:
    """`sleep(1)`, not made again, before `wait_for(a(), 60)`."""
    run = replay(SLEPT[0], A, EffectOutcome(A.key, 1), B)
    token = run.ask()
    run.kernel.turn("main", "timer", due=60)
    assert run.rest() == Deliver(token, 1)


def test_strand_that_is_away_may_still_wait_for_its_turn() -> None:
    run = replay(Away("main>thread", 0), Turn("back", "main>thread", 0), Turn("timer", "main", 0), A)
    thread = run.kernel.born("main", "thread")
    assert run.kernel.away(thread)
    assert run.rest() == Wait()
    back = run.kernel.act(thread)
    assert run.rest() == Deliver(back, None)


def test_strand_that_does_not_reach_an_act_does_not_wait_there_later() -> None:
    """A thread takes one lock less, and was away before its second act."""
    thread = "main>thread"
    request = Requested(f"{thread}/a/0", thread, "a", 1)
    run = replay(Away(thread, 1), Turn("back", thread, 1), request, EffectOutcome(request.key, 1), Ended("end"))
    run.kernel.born("main", "thread")
    assert run.kernel.act(thread) is None
    token = run.ask(lane=thread)
    assert run.rest() == Deliver(token, 1)
    assert run.kernel.act(thread) is None


def test_recorded_deliveries_come_before_other_timers() -> None:
    run = replay(A, EffectOutcome(A.key, 1), B, EffectOutcome(B.key, 2))
    timer = run.kernel.turn("main", "timer")
    token = run.ask()
    assert run.rest() == Deliver(token, 1)
    assert run.rest() == Deliver(timer, None), "nothing else can let the lane go on"
    token = run.ask("b", 2)
    assert run.rest() == Deliver(token, 2)


def test_first_deadline_fires_first() -> None:
    """`async with timeout(60): await poll()`; of equal deadlines the first that was created."""
    run = replay(A, Ended("end"))
    timers = [run.kernel.turn("main", "timer", due=due) for due in (60, 5, 5)]
    assert [run.rest() for _ in timers] == [Deliver(timers[number], None) for number in (1, 2, 0)]
    assert run.kernel.time == 60
    assert isinstance(run.rest(), Diverged)


def test_timer_whose_turn_is_to_come_does_not_fire() -> None:
    child = Turn("timer", "main>child", 0, 50)
    run = replay(A, EffectOutcome(A.key, 1), child, Ended("end"))
    later = run.kernel.turn(run.kernel.born("main", "child"), "timer", due=1)
    timer = run.kernel.turn("main", "timer", due=2)
    assert run.rest() == Deliver(timer, None)
    token = run.ask()
    assert run.rest() == Deliver(token, 1)
    assert run.rest() == Deliver(later, None)
    assert run.kernel.time == 50


def test_timer_that_has_the_name_of_a_later_one_fires() -> None:
    """The recorded turn is that of a sleep after the request."""
    run = replay(A, EffectOutcome(A.key, 1), Turn("timer", "main", 0, 9), B, Ended("end"))
    timer = run.kernel.turn("main", "timer")
    assert run.rest() == Deliver(timer, None)
    token = run.ask()
    assert run.rest() == Deliver(token, 1)
    second = run.kernel.turn("main", "timer")
    assert run.rest() == Deliver(second, None)


def test_recorded_job_that_the_pool_is_not_given_is_skipped() -> None:
    """A cache is warm: the program has one job less, and its request is the recorded one."""
    run = replay(Turn("start", "main>fill", 0), A, EffectOutcome(A.key, 1), Ended("end"))
    token = run.ask()
    assert run.rest() == Deliver(token, 1)


def test_missing_job_is_reported_as_its_request() -> None:
    asked = Requested("main>job/a/0", "main>job", "a", 1)
    run = replay(Turn("start", "main>job", 0), asked, EffectOutcome(asked.key, 1), Ended("end"))
    assert run.rest() == Diverged("main>job", asked, "has ended, or was not started", "removed", 10)


def test_job_that_the_record_does_not_have_begins_before_a_divergence() -> None:
    run = replay(A, EffectOutcome(A.key, 1), Turn("start", "main>later", 0), Ended("end"))
    later = run.kernel.turn(run.kernel.born("main", "later"), "start")
    fill = run.kernel.turn(run.kernel.born("main", "fill"), "start")
    assert run.rest() == Deliver(fill, None)
    token = run.ask()
    assert run.rest() == Deliver(token, 1)
    assert run.rest() == Deliver(later, None)


def test_program_that_only_sleeps_has_diverged() -> None:
    run = replay(A, EffectOutcome(A.key, 1), B, Ended("end"))
    token = run.ask()
    assert run.rest() == Deliver(token, 1)
    for _ in range(10_000):
        run.kernel.turn("main", "timer")
        assert isinstance(run.rest(), Deliver)
    run.kernel.turn("main", "timer")
    assert run.rest() == Diverged("main", B, "waits for ('timer', 'main', 10000)", "removed", 13)


def test_missing_request_is_reported_rather_than_what_a_time_out_leads_to() -> None:
    """One task leaves a request out; another one waits with a time-out, and asks for something if it is over."""
    one = Requested("main>one/a/0", "main>one", "a", 1)
    run = replay(one, EffectOutcome(one.key, 1), Ended("end"))
    run.kernel.born("main", "one")
    other = run.kernel.born("main", "other")
    timer = run.kernel.turn(other, "timer", due=60)
    assert run.rest() == Deliver(timer, None)
    with pytest.raises(Divergent) as divergent:
        run.ask("c", 3, lane=other)
    assert divergent.value.diverged == Diverged("main>one", one, "waits for another lane", "removed", 7)


def test_changed_request_is_reported_after_more_sleeps() -> None:
    run = replay(A, EffectOutcome(A.key, 1), Ended("end"))
    run.kernel.turn("main", "timer")
    run.rest()
    with pytest.raises(Divergent) as divergent:
        run.ask(digest="other")
    assert divergent.value.diverged == Diverged("main", A, A._replace(digest="other"), "changed", 7)


def test_record_is_over_before_other_timers_fire() -> None:
    run = replay(A)
    run.ask()
    run.kernel.turn("main", "timer")
    assert run.rest() == RecordOver()


# Names


def test_lane_is_named_right_after_its_birth() -> None:
    kernel = Kernel()
    first = kernel.born("main", "task")
    assert kernel.rename(first, "fetch") == "main>fetch"
    second = kernel.born("main", "task")
    assert second == "main>task", "the name is free again"
    assert kernel.rename("main>fetch", "late") == "main>fetch", "others were started since"
    kernel.turn(second, "timer")
    assert kernel.rename(second, "fetch") == second, "it has done something"
    assert kernel.rename("main", "fetch") == "main"
    assert kernel.rename("main>nobody", "fetch") == "main>nobody"
    assert kernel.ask("main>fetch", Call("a", 1)).key == "main>fetch/a/0"


def test_keys_are_counted_by_lane_and_name() -> None:
    kernel = Kernel()
    child = kernel.born("main", "child")
    assert [kernel.name_request("main", "a")[1] for _ in range(2)] == ["main/a/0", "main/a/1"]
    assert kernel.ask("main", Call("a", 1)).key == "main/a/2"
    assert kernel.name_request(child, "a") == (child, "main>child/a/0")
    kernel.ended(child)
    assert kernel.living_lane(child) == "main"


# Memory


def test_lanes_that_ended_are_forgotten() -> None:
    kernel = Kernel()
    parent = kernel.born("main", "parent")
    names = set()
    for _ in range(1_000):
        child = kernel.born(parent, "child")
        names.add(child)
        kernel.ended(kernel.born(child, "grandchild"))
        kernel.ended(child)
    assert len(names) == 1_000
    kernel.ended(parent)
    assert kernel._lanes.names == ["main"]


def test_callback_that_outlives_its_lane_acts_for_the_lane_above() -> None:
    kernel = Kernel()
    child = kernel.born("main", "child")
    kernel.ended(kernel.born(child, "one"))
    kernel.ended(child)
    assert kernel.born(child, "one") == "main>one"
    assert kernel.ask(child, Call("a", 1)).key == "main/a/0"
    assert kernel.turn(f"{child}>one", "timer").name == ("timer", "main", 0)


# Draws, states and the clock


def test_draws_are_served_by_lane_and_site() -> None:
    run = Hand()
    assert [run.kernel.draw("main", "clock", lambda: 5), run.kernel.draw("main", "id", lambda: 6)] == [5, 6]
    run.kernel.note("main", "state")
    run.ask()
    run.rest()
    again = replay(*run.committed)
    assert again.kernel.draw("main", "id", lambda: 0) == 6
    assert again.kernel.draw("main", "clock", lambda: 0) == 5
    assert again.kernel.draw("main", "clock", lambda: 7) == 7
    assert again.kernel.drawn_anew == 1


def test_outcomes_have_the_time_of_their_commit() -> None:
    run = Hand()
    first, second = run.ask(), run.ask("b", 2)
    assert isinstance(run.kernel.next(), Live)
    assert isinstance(run.kernel.next(), Commit)
    run.kernel.committed(5)
    run.rest()
    assert run.kernel.time == 0, "requests do not move the clock"
    run.kernel.arrived(first, 1)
    run.kernel.arrived(second, 2)
    assert isinstance(run.kernel.next(), Commit)
    run.kernel.committed(7)
    assert run.rest() == Deliver(first, 1)
    assert run.kernel.time == 7
    run.ask("c", 3)
    assert isinstance(run.kernel.next(), Commit)
    run.kernel.committed(9)
    run.rest()
    assert run.delivered[-1] == (B.key, 2)
    assert run.kernel.time == 7, "the time of its own commit"


def test_clock_shows_the_last_delivery() -> None:
    run = Hand()
    timer, other = run.kernel.turn("main", "timer"), run.kernel.turn("main", "timer")
    run.kernel.arrived(timer, time=20)
    run.kernel.arrived(other, time=10)
    assert run.kernel.time == 0
    run.rest()
    run.rest()
    assert run.kernel.time == 20
