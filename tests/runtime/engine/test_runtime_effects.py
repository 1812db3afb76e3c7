"""Tools, steps and agents, sync and async: what is called, recorded, and handed over again."""

from __future__ import annotations

import asyncio
import warnings
from typing import Any

import pytest

import onrecord
from kit.runtime import (
    Died,
    broken_off,
    divergence_of,
    events,
    kinds,
    new_id,
    recorded_and_replayed,
    replay,
    requests,
    resume,
    run,
)
from onrecord.runtime.engine import boundary
from onrecord.runtime.scheduler.drivers.strands import RunEnded

calls: list[Any] = []


@pytest.fixture(autouse=True)
def no_calls() -> None:
    calls.clear()


@onrecord.tool
def send(to: str, text: str = "hello", *, urgent: bool = False) -> str:
    calls.append((to, text, urgent))
    return f"sent {text} to {to}"


@onrecord.tool
async def send_async(to: str, text: str = "hello") -> str:
    calls.append((to, text))
    await asyncio.sleep(0)
    return f"sent {text} to {to}"


@onrecord.step
def add(a: int, b: int) -> int:
    calls.append((a, b))
    return a + b


@onrecord.step
async def add_async(a: int, b: int) -> int:
    calls.append((a, b))
    return a + b


def test_a_sync_agent_is_recorded_and_replayed_without_a_call(memory: Any) -> None:
    @onrecord.agent
    def mailing(name: str) -> list[Any]:
        return [send(name), add(1, 2), send(name, "again", urgent=True)]

    result = recorded_and_replayed(mailing, "ann", store=memory)
    assert result == ["sent hello to ann", 3, "sent again to ann"]
    assert len(calls) == 3


def test_an_async_agent_is_recorded_and_replayed_without_a_call(memory: Any) -> None:
    @onrecord.agent
    async def mailing_async(name: str) -> list[Any]:
        return [await send_async(name), await add_async(1, 2), send(name)]

    result = recorded_and_replayed(mailing_async, "ann", store=memory)
    assert result == ["sent hello to ann", 3, "sent hello to ann"]
    assert len(calls) == 3


def test_one_request_and_one_result_for_each_effect(memory: Any) -> None:
    @onrecord.agent
    def twice() -> None:
        add(1, 2)
        add(3, 4)

    run_id = new_id()
    run(twice, store=memory, run_id=run_id)
    assert kinds(memory, run_id) == ["ActionRequested", "ActionSucceeded"] * 2 + ["Completed"]


def test_arguments_by_position_and_by_keyword_are_recorded_alike(memory: Any) -> None:
    how = ["position"]

    @onrecord.agent
    def adding() -> int:
        answer: int = add(1, 2) if how == ["position"] else add(b=2, a=1)
        return answer

    run_id = new_id()
    assert run(adding, store=memory, run_id=run_id) == 3
    assert requests(memory, run_id)[0].payload == {"a": 1, "b": 2}
    how[0] = "keyword"
    assert replay(adding, run_id, store=memory) == 3


def test_wrong_arguments_are_the_callers_error_and_leave_no_request(memory: Any) -> None:
    @onrecord.agent
    def wrong() -> str:
        try:
            return str(add(1))
        except TypeError:
            return "refused"

    run_id = new_id()
    assert run(wrong, store=memory, run_id=run_id) == "refused"
    assert kinds(memory, run_id) == ["Completed"]


def test_arguments_of_the_agent_come_back_by_position_and_by_keyword(memory: Any) -> None:
    @onrecord.agent
    def greeting(name: str, *, times: int = 1) -> str:
        return str(send(name, "hi" * times))

    run_id = new_id()
    result = greeting.run("ann", times=3, run_id=run_id, store=memory)
    assert greeting.replay(run_id, store=memory) == result == "sent hihihi to ann"


def test_an_inline_step_is_recorded_under_its_name(memory: Any) -> None:
    @onrecord.agent
    async def totals() -> Any:
        async def later(a: int) -> int:
            calls.append(a)
            return a

        return [onrecord.run_step("total", lambda a, b: a + b, 1, b=2), await onrecord.run_step("later", later, 7)]

    run_id = new_id()
    assert run(totals, store=memory, run_id=run_id) == [3, 7]
    assert [one.name for one in requests(memory, run_id)] == ["total", "later"]
    assert replay(totals, run_id, store=memory) == [3, 7]
    assert calls == [7]


def test_a_builtin_can_be_an_inline_step(memory: Any) -> None:
    @onrecord.agent
    def largest() -> Any:
        return [onrecord.run_step("largest", max, 1, 5, 3), onrecord.run_step("get", {"a": 1}.get, "a")]

    assert recorded_and_replayed(largest, store=memory) == [5, 1]


def test_a_tool_may_be_a_method(memory: Any) -> None:
    class Mailer:
        def __init__(self, sender: str) -> None:
            self.sender = sender

        @onrecord.tool
        def send(self, to: str) -> str:
            calls.append(to)
            return f"{self.sender} to {to}"

        @onrecord.tool
        async def send_async(self, to: str) -> str:
            calls.append(to)
            return f"{self.sender} to {to}"

        @staticmethod
        @onrecord.tool
        def plain(to: str) -> str:
            return to

    @onrecord.agent
    async def by_method() -> Any:
        mailer = Mailer("bob")
        return [mailer.send("ann"), await mailer.send_async("eve"), mailer.plain("x"), mailer.send.keyed("k", "joe")]

    assert recorded_and_replayed(by_method, store=memory) == ["bob to ann", "bob to eve", "x", "bob to joe"]
    assert calls == ["ann", "eve", "joe"]


def test_a_tool_keeps_the_name_and_text_of_its_function() -> None:
    @onrecord.tool
    def documented(a: int) -> int:
        """What it does."""
        return a

    assert (documented.__name__, documented.__doc__) == ("documented", "What it does.")


def test_two_tools_of_one_name_in_different_places_do_not_collide(memory: Any) -> None:
    def made(value: int) -> Any:
        @onrecord.tool
        def of_one_name() -> int:
            return value

        return of_one_name

    first, second = made(1), made(2)

    @onrecord.agent
    def both() -> list[int]:
        return [first(), second(), first()]

    assert recorded_and_replayed(both, store=memory) == [1, 2, 1]


# Outside of a run


def test_the_warning_about_an_effect_outside_of_a_run_names_the_callers_line() -> None:
    @onrecord.tool
    def outside_line(a: int) -> int:
        return a

    with pytest.warns(UserWarning, match="outside_line") as caught:
        outside_line(1)
    assert caught[0].filename == __file__


def test_an_effect_outside_of_a_run_is_done_and_says_so_once() -> None:
    @onrecord.tool
    def outside_tool(a: int) -> int:
        return a

    with pytest.warns(UserWarning, match="outside_tool was called outside of a run") as caught:
        assert outside_tool(1) == 1
    assert len(caught) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert outside_tool(2) == 2


def test_an_async_effect_outside_of_a_run_is_done_and_says_so_once() -> None:
    @onrecord.tool
    async def outside_async(a: int) -> int:
        return a

    async def main() -> list[int]:
        return [await outside_async(1), await outside_async(2)]

    with pytest.warns(UserWarning, match="outside_async was called outside") as caught:
        assert asyncio.run(main()) == [1, 2]
    assert len(caught) == 1


def test_an_effect_outside_of_a_run_is_refused_in_strict_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boundary, "strict_outside", True)
    with pytest.raises(onrecord.OnrecordError) as caught:
        send("ann")
    assert caught.value.code == "outside_run"
    assert "record" in caught.value.hint
    assert calls == []


# An effect inside an effect


def test_an_effect_inside_an_effect_is_part_of_it(memory: Any) -> None:
    @onrecord.tool
    def outer() -> int:
        return int(add(1, 2)) + int(add(3, 4))

    @onrecord.agent
    def nesting() -> int:
        return int(outer())

    run_id = new_id()
    assert run(nesting, store=memory, run_id=run_id) == 10
    assert [one.name for one in requests(memory, run_id)] == ["outer"]
    assert replay(nesting, run_id, store=memory) == 10
    assert len(calls) == 2


def test_what_an_effect_starts_belongs_to_it(memory: Any) -> None:
    @onrecord.tool
    async def fans_out() -> list[int]:
        first = asyncio.create_task(add_async(1, 2))
        return [await first, await asyncio.to_thread(add, 3, 4), *await asyncio.gather(add_async(5, 6))]

    @onrecord.agent
    async def fanning() -> Any:
        return [await fans_out(), await add_async(0, 0)]

    run_id = new_id()
    assert run(fanning, store=memory, run_id=run_id) == [[3, 7, 11], 0]
    assert [one.name for one in requests(memory, run_id)] == ["fans_out", "add_async"]
    assert replay(fanning, run_id, store=memory) == [[3, 7, 11], 0]


# After the end


def test_an_effect_after_the_runs_end_is_refused(memory: Any) -> None:
    late: list[Any] = []

    @onrecord.agent
    async def leaving() -> str:
        async def straggler() -> None:
            await released.wait()
            try:
                await add_async(1, 2)
            except BaseException as error:
                late.append(error)

        late.append(asyncio.create_task(straggler()))
        return "gone"

    async def main() -> None:
        await leaving.run(run_id=run_id, store=memory)
        released.set()
        await late[0]

    run_id = new_id()
    released = asyncio.Event()
    asyncio.run(main())
    assert isinstance(late[1], RunEnded)
    assert calls == []
    assert kinds(memory, run_id)[-1] == "Completed"


# Explicit keys


def test_an_explicit_key_is_used_as_it_stands(memory: Any) -> None:
    @onrecord.agent
    def keyed() -> Any:
        return send.keyed("invoice-7", "ann")

    run_id = new_id()
    run(keyed, store=memory, run_id=run_id)
    link = [one for one in onrecord.JournalReader(memory, run_id).scan() if one.event.kind == "ActionRequested"]
    assert link[0].event.action_id == "invoice-7"
    assert replay(keyed, run_id, store=memory) == "sent hello to ann"


def test_explicit_keys_in_another_order_are_moved_requests(memory: Any) -> None:
    order = ["a", "b"]

    @onrecord.agent
    def ordered() -> dict[str, Any]:
        return {name: add.keyed(f"key-{name}", 1, ord(name)) for name in order}

    run_id = new_id()
    run(ordered, store=memory, run_id=run_id)
    order.reverse()
    parted = divergence_of(lambda: replay(ordered, run_id, store=memory))
    assert parted.code == "moved_request"
    assert parted.where["key"] == "key-b"
    assert len(calls) == 2


def test_the_same_key_with_other_input_is_refused_before_anything_runs(memory: Any) -> None:
    amount = [10]

    @onrecord.agent
    def paying() -> Any:
        add.keyed("pay", amount[0], 0)
        raise Died

    run_id = broken_off(paying, store=memory)
    amount[0] = 99
    parted = divergence_of(lambda: resume(paying, run_id, store=memory))
    assert parted.code == "conflicting_request"
    assert parted.where["path"] == "/payload/a"
    assert parted.where["expected"]["payload"]["a"] == 10
    assert parted.where["actual"]["payload"]["a"] == 99
    assert __file__ in parted.where["line"]
    assert calls == [(10, 0)]
    amount[0] = 10
    with pytest.raises(Died):  # the old code makes it resumable again
        resume(paying, run_id, store=memory)


def test_the_same_key_with_other_input_within_a_run_is_refused_before_it_runs(memory: Any) -> None:
    @onrecord.agent
    def paying_twice() -> Any:
        return [add.keyed("pay", 1, 1), add.keyed("pay", 2, 2)]

    run_id = new_id()
    with pytest.raises(onrecord.OnrecordError) as caught:
        run(paying_twice, store=memory, run_id=run_id)
    assert caught.value.code == "effect_conflict"
    assert calls == [(1, 1)]


def test_the_same_key_with_the_same_input_is_answered_once(memory: Any) -> None:
    @onrecord.agent
    def paying_again() -> Any:
        return [add.keyed("pay", 1, 1), add.keyed("pay", 1, 1)]

    assert recorded_and_replayed(paying_again, store=memory) == [2, 2]
    assert calls == [(1, 1)]


def test_the_same_key_at_the_same_time_is_carried_out_once(memory: Any) -> None:
    @onrecord.agent
    async def paying_at_once() -> Any:
        found = await asyncio.gather(*(add_async.keyed("pay", 1, 1) for _ in range(3)), return_exceptions=True)
        return [getattr(one, "code", one) for one in found]

    assert recorded_and_replayed(paying_at_once, store=memory) == [2, "effect_conflict", "effect_conflict"]
    assert calls == [(1, 1)]


def test_the_idempotency_key_is_the_same_for_every_attempt_and_process(memory: Any) -> None:
    seen: list[str] = []

    @onrecord.step(retry=onrecord.Retry(attempts=2, delay_seconds=0))
    def charging() -> str:
        seen.append(onrecord.idempotency_key())
        if len(seen) == 1:
            raise ConnectionError
        if len(seen) == 2:
            raise Died
        return "charged"

    @onrecord.agent
    def charging_agent() -> Any:
        return charging()

    run_id = broken_off(charging_agent, store=memory)
    assert resume(charging_agent, run_id, store=memory) == "charged"
    assert len(seen) == 3
    assert len(set(seen)) == 1


def test_there_is_no_idempotency_key_outside_of_an_effect() -> None:
    with pytest.raises(onrecord.OnrecordError) as caught:
        onrecord.idempotency_key()
    assert caught.value.code == "outside_effect"


# The record block


def test_a_block_is_recorded_as_a_run(memory: Any) -> None:
    run_id = new_id()
    with onrecord.record("nightly", run_id=run_id, store=memory):
        add(1, 2)
    assert kinds(memory, run_id) == ["ActionRequested", "ActionSucceeded", "Completed"]
    assert onrecord.JournalReader(memory, run_id).facts() == {"recording": "nightly"}


def test_a_block_that_fails_is_recorded_as_failed(memory: Any) -> None:
    run_id = new_id()
    with pytest.raises(KeyError), onrecord.record("nightly", run_id=run_id, store=memory):
        add(1, 2)
        raise KeyError("x")
    ended = events(memory, run_id)[-1]
    assert ended.kind == "Failed"
    assert isinstance(ended.error, KeyError)


def test_a_block_around_asyncio_run_records_what_happens_in_it(memory: Any) -> None:
    async def main() -> list[int]:
        return await asyncio.gather(add_async(1, 2), add_async(3, 4))

    run_id = new_id()
    with onrecord.record("loop", run_id=run_id, store=memory):
        assert asyncio.run(main()) == [3, 7]
    assert len(requests(memory, run_id)) == 2


def test_a_block_inside_a_running_loop_records_what_happens_in_it(memory: Any) -> None:
    async def main() -> Any:
        with onrecord.record("inside", run_id=run_id, store=memory):
            one = await add_async(1, 2)
            more = await asyncio.gather(add_async(3, 4), add_async(5, 6))
        await asyncio.sleep(0)  # the loop goes on as before
        return [one, *more]

    run_id = new_id()
    assert asyncio.run(main()) == [3, 7, 11]
    assert len(requests(memory, run_id)) == 3
    assert kinds(memory, run_id)[-1] == "Completed"


# Ended runs


def test_resuming_a_completed_run_gives_its_result_again(memory: Any) -> None:
    @onrecord.agent
    def done_once() -> Any:
        return {"total": add(1, 2)}

    run_id = new_id()
    run(done_once, store=memory, run_id=run_id)
    assert resume(done_once, run_id, store=memory) == {"total": 3}
    assert len(calls) == 1


def test_resuming_a_failed_run_raises_its_error_again(memory: Any) -> None:
    @onrecord.agent
    async def failing_once() -> Any:
        await add_async(1, 2)
        raise LookupError("not there")

    run_id = new_id()
    with pytest.raises(LookupError):
        run(failing_once, store=memory, run_id=run_id)
    with pytest.raises(LookupError, match="not there"):
        resume(failing_once, run_id, store=memory)
    with pytest.raises(LookupError, match="not there"):
        replay(failing_once, run_id, store=memory)
    assert len(calls) == 1


def test_a_run_of_another_agent_is_not_taken_for_ones_own(memory: Any) -> None:
    @onrecord.agent
    def one_agent() -> Any:
        add(1, 2)
        raise Died

    @onrecord.agent
    def other_agent() -> Any:
        return add(1, 2)

    run_id = broken_off(one_agent, store=memory)
    for again in (resume, replay):
        with pytest.raises(onrecord.OnrecordError) as caught:
            again(other_agent, run_id, store=memory)
        assert caught.value.code == "other_agent"


def test_an_unknown_run_is_an_error(memory: Any) -> None:
    @onrecord.agent
    def never_run() -> Any:
        return add(1, 2)

    for again in (resume, replay):
        with pytest.raises(onrecord.OnrecordError) as caught:
            again(never_run, "no-such-run", store=memory)
        assert caught.value.code == "unknown_run"


def test_any_loaded_agent_is_found_by_its_run(memory: Any) -> None:
    @onrecord.agent(store=memory)
    def found_again() -> Any:
        return add(1, 2)

    run_id = new_id()
    run(found_again, store=memory, run_id=run_id)
    assert onrecord.replay(run_id, store=memory) == 3
    assert onrecord.resume(run_id, store=memory) == 3


@pytest.mark.parametrize("again", [2, 4])
def test_one_draw_more_or_less_is_no_divergence(memory: Any, again: int) -> None:
    draws = 3

    @onrecord.agent
    def drawing() -> str:
        for _ in range(draws):
            onrecord.random()
        return "done"

    name = new_id()
    run(drawing, run_id=name, store=memory)
    draws = again
    assert replay(drawing, name, store=memory) == "done"


def test_outcomes_and_requests_of_effects_that_run_once_wait_for_the_disk(
    memory: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[tuple[str, bool]] = []
    append = memory.append

    def watched(namespace: str, run_id: str, events: Any, *, sync: bool = True, **options: Any) -> Any:
        synced.extend((event.kind, sync) for event in events)
        return append(namespace, run_id, events, sync=sync, **options)

    monkeypatch.setattr(memory, "append", watched)

    @onrecord.agent
    def both() -> Any:
        return [add(1, 2), send("ann")]

    run(both, store=memory, run_id=new_id())
    assert synced == [
        ("ActionRequested", False),
        ("ActionSucceeded", True),
        ("ActionRequested", True),
        ("ActionSucceeded", True),
        ("Completed", True),
    ]
