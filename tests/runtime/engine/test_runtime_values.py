"""Results come back as the types they were; errors as the errors they were; what has no value says so."""

from __future__ import annotations

import asyncio
import enum
import io
import math
import sys
from collections import OrderedDict, defaultdict
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from pathlib import PurePosixPath
from typing import Any, NamedTuple
from uuid import UUID

import pydantic
import pytest

import onrecord
from kit.runtime import Died, broken_off, kinds, new_id, recorded_and_replayed, replay, resume, run
from onrecord.errors import InvalidInput
from onrecord.runtime.api.wait import parse_duration


class Colour(enum.Enum):
    RED = "red"
    BLUE = 2


class Level(enum.IntEnum):
    LOW = 1


@dataclass(frozen=True)
class Money:
    amount: Decimal
    currency: str = "EUR"


@dataclass
class Basket:
    owner: str
    items: list[Money] = field(default_factory=list)
    tags: set[str] = field(default_factory=set)


class Point(NamedTuple):
    x: int
    y: int


class Order(pydantic.BaseModel):
    number: int
    placed: datetime
    lines: list[str] = []


VALUES = [
    None,
    True,
    0,
    -(2**70),
    1.0,
    -0.0,
    math.inf,
    "",
    "text \udc80 \x00 ü",
    b"\x00\xff",
    bytearray(b"ab"),
    (1, "two", (3.0,)),
    [1, [2, (3,)]],
    {"b": 1, "a": 2},
    {1: "one", (2, 3): "pair", None: 0},
    {"$opaque": 1},
    {1, 2, 3},
    frozenset({"a"}),
    Decimal("1.10"),
    datetime(2024, 2, 29, 12, 30, 1, 5, tzinfo=UTC),
    datetime(2024, 2, 29, 12, 30, tzinfo=timezone(timedelta(hours=5, minutes=30))),
    datetime(2024, 2, 29),
    date(2024, 2, 29),
    time(1, 2, 3),
    timedelta(days=-1, microseconds=7),
    UUID(int=7),
    Colour.RED,
    Colour.BLUE,
    Level.LOW,
    Money(Decimal("2.50")),
    Basket("ann", [Money(Decimal(1))], {"x"}),
    Point(1, 2),
    Order(number=7, placed=datetime(2024, 1, 1, tzinfo=UTC), lines=["a"]),
    {"nested": [Money(Decimal(1)), {"order": Point(1, 2)}]},
    complex(1, 2),
    Fraction(1, 3),
    range(3),
    OrderedDict(a=1),
    PurePosixPath("/a/b"),
]


@onrecord.tool
def give(index: int) -> Any:
    return VALUES[index]


@onrecord.tool
async def give_async(index: int) -> Any:
    return VALUES[index]


@pytest.mark.parametrize("index", range(len(VALUES)), ids=lambda index: f"{index}-{type(VALUES[index]).__name__}")
def test_a_result_comes_back_as_the_type_it_was(memory: Any, index: int) -> None:
    got: list[Any] = []

    @onrecord.agent
    async def giving(number: int) -> str:
        got.append((give(number), await give_async(number)))
        return f"{got[-1]!r}"

    recorded_and_replayed(giving, index, store=memory)
    for pair in got:
        for value in pair:
            assert type(value) is type(VALUES[index])
            assert repr(value) == repr(VALUES[index]) or value == VALUES[index]
    assert repr(got[0]) == repr(got[1])


def test_nan_comes_back(memory: Any) -> None:
    @onrecord.step
    def not_a_number() -> float:
        return math.nan

    @onrecord.agent
    def asking_nan() -> bool:
        return math.isnan(not_a_number())

    assert recorded_and_replayed(asking_nan, store=memory) is True


def test_the_agent_gets_the_decoded_value_while_recording_too(memory: Any) -> None:
    """What does not survive the record shows at once, not after a crash."""
    kept = [1, 2]
    same: list[bool] = []

    @onrecord.step
    def shared() -> list[int]:
        return kept

    @onrecord.agent
    def sharing() -> list[int]:
        got: list[int] = shared()
        same.append(got is kept)
        got.append(3)
        return got

    assert recorded_and_replayed(sharing, store=memory) == [1, 2, 3]
    assert same == [False, False]
    assert kept == [1, 2]


def test_a_declared_type_shapes_what_comes_back(memory: Any) -> None:
    @onrecord.step
    def declared() -> dict[str, list[Money]]:
        return {"all": [Money(Decimal("1.5"))]}

    @onrecord.agent
    def declaring() -> Any:
        return declared()["all"][0].amount

    assert recorded_and_replayed(declaring, store=memory) == Decimal("1.5")


def test_agents_take_and_give_such_values_too(memory: Any) -> None:
    @onrecord.agent
    def shopping(basket: Basket, *, at: datetime) -> tuple[Any, ...]:
        return (basket, at, give(0))

    run_id = new_id()
    basket = Basket("ann", [Money(Decimal(1))], {"x"})
    at = datetime(2024, 1, 1, tzinfo=UTC)
    result = shopping.run(basket, at=at, run_id=run_id, store=memory)
    assert shopping.replay(run_id, store=memory) == result == (basket, at, None)
    again = shopping.resume(run_id, store=memory)
    assert again == result
    assert type(again) is tuple


def test_arguments_that_have_no_value_are_recorded_by_type_and_match(memory: Any) -> None:
    @onrecord.step
    def through(client: Any, amount: int) -> int:
        return amount

    @onrecord.agent
    def with_client() -> int:
        return int(through(io.BytesIO(b"a client"), 3))

    assert recorded_and_replayed(with_client, store=memory) == 3


def test_a_default_dict_of_a_result_is_usable(memory: Any) -> None:
    @onrecord.step
    def counting() -> dict[str, int]:
        counts: defaultdict[str, int] = defaultdict(int)
        counts["a"] += 1
        return counts

    @onrecord.agent
    def counted() -> Any:
        return dict(counting())

    assert recorded_and_replayed(counted, store=memory) == {"a": 1}


# What has no value


class Client:
    def __init__(self) -> None:
        self.socket = io.BytesIO()

    def ask(self) -> str:
        return "asked"


@onrecord.step
def connect() -> Client:
    return Client()


@onrecord.step
def connect_among_others() -> dict[str, Any]:
    return {"client": Client(), "n": 1}


def test_a_client_object_is_handed_over_while_recording(memory: Any) -> None:
    @onrecord.agent
    def connected() -> str:
        client: Client = connect()
        return client.ask()

    run_id = new_id()
    assert run(connected, store=memory, run_id=run_id) == "asked"
    with pytest.raises(onrecord.NotReplayable) as caught:
        replay(connected, run_id, store=memory)
    assert (caught.value.code, caught.value.exit_status) == ("not_replayable", 7)
    assert "connect" in caught.value.message
    assert "Client" in caught.value.message, "whoever has to mend it is told what was in the way"
    assert caught.value.hint


@pytest.mark.parametrize("is_async", [False, True])
def test_a_result_without_a_value_cannot_be_swallowed_by_the_agent(memory: Any, is_async: bool) -> None:
    """A replay that went on with an `except Exception` would show a behaviour that never was."""

    @onrecord.agent
    def careful() -> str:
        try:
            return str(connect_among_others()["client"].ask())
        except Exception:
            return "fell back"

    @onrecord.agent
    async def careful_async() -> str:
        await asyncio.sleep(0)
        try:
            return str(connect_among_others()["client"].ask())
        except Exception:
            return "fell back"

    agent = careful_async if is_async else careful
    run_id = new_id()
    assert run(agent, store=memory, run_id=run_id) == "asked"
    with pytest.raises(onrecord.NotReplayable):
        replay(agent, run_id, store=memory)


def test_a_result_without_a_value_stops_a_resume_and_does_not_end_the_run(memory: Any) -> None:
    alive = [False]

    @onrecord.agent
    def reconnecting() -> str:
        client: Client = connect()
        if not alive[0]:
            raise Died
        return client.ask()

    run_id = broken_off(reconnecting, store=memory)
    alive[0] = True
    with pytest.raises(onrecord.NotReplayable):
        resume(reconnecting, run_id, store=memory)
    assert kinds(memory, run_id) == ["ActionRequested", "ActionSucceeded"]


# Errors


class PaymentRefused(Exception):
    def __init__(self, code: int, *, amount: Decimal) -> None:
        super().__init__(f"refused with {code}")
        self.code = code
        self.amount = amount


class Overdrawn(PaymentRefused):
    pass


@onrecord.step
def pay(kind: str) -> None:
    if kind == "refused":
        raise PaymentRefused(7, amount=Decimal("1.10"))
    if kind == "overdrawn":
        raise Overdrawn(8, amount=Decimal(2))
    if kind == "chained":
        try:
            raise ConnectionResetError(104, "reset")
        except ConnectionResetError as error:
            raise RuntimeError("could not pay") from error
    if kind == "os":
        open("/nonexistent/file")  # noqa: SIM115
    if kind == "group":
        raise ExceptionGroup("two", [ValueError("a"), PaymentRefused(1, amount=Decimal(1))])
    if kind == "noted":
        problem = ValueError("bad")
        problem.add_note("while paying")
        raise problem
    if kind == "cancelled":
        raise asyncio.CancelledError("inside")
    raise KeyError(kind)


@onrecord.step
async def pay_async(kind: str) -> None:
    pay.function(kind)


def _described(error: BaseException | None) -> Any:
    if error is None:
        return None
    members = {name: value for name, value in vars(error).items() if not name.startswith("__")}
    group = [_described(one) for one in error.exceptions] if isinstance(error, ExceptionGroup) else None
    args = None if group else error.args
    return [type(error), str(error), args, members, group, _described(error.__cause__)]


@pytest.mark.parametrize("how", ["sync", "async"])
@pytest.mark.parametrize("kind", ["refused", "overdrawn", "chained", "os", "group", "noted", "other"])
def test_an_error_comes_back_as_it_was(memory: Any, kind: str, how: str) -> None:
    seen: list[Any] = []

    @onrecord.agent
    async def paying(what: str) -> str:
        try:
            await pay_async(what) if how == "async" else pay(what)
        except (PaymentRefused, RuntimeError, OSError, ExceptionGroup, ValueError, KeyError) as error:
            seen.append(_described(error))
            return type(error).__name__
        return "paid"

    recorded_and_replayed(paying, kind, store=memory)
    assert seen[0] == seen[1]
    assert seen[0][0] is not Exception


def test_except_works_on_resume(memory: Any) -> None:
    dies = [True]

    @onrecord.agent
    def paying_on() -> Any:
        try:
            pay("overdrawn")
        except PaymentRefused as refused:
            if dies[0]:
                raise Died from None
            return (type(refused).__name__, refused.code, refused.amount, str(refused))
        return None

    run_id = broken_off(paying_on, store=memory)
    dies[0] = False
    assert resume(paying_on, run_id, store=memory) == ("Overdrawn", 8, Decimal(2), "refused with 8")


def test_an_uncaught_error_is_the_end_and_comes_back(memory: Any) -> None:
    @onrecord.agent
    def failing() -> None:
        pay("refused")

    run_id = new_id()
    for attempt in (run, replay, resume):
        with pytest.raises(PaymentRefused) as caught:
            attempt(failing, run_id=run_id, store=memory)
        assert caught.value.amount == Decimal("1.10")
    assert kinds(memory, run_id) == ["ActionRequested", "ActionFailed", "Failed"]


def test_a_class_that_no_longer_exists_becomes_a_clear_stand_in(memory: Any) -> None:
    import gc

    def raise_one() -> None:
        made = type("ShortLived", (LookupError,), {"__module__": "a_module_that_went"})
        raise made("gone")

    @onrecord.step
    def short_lived() -> None:
        raise_one()

    seen: list[str] = []

    @onrecord.agent
    def meeting() -> str:
        try:
            short_lived()
        except Exception as error:
            seen.append(repr(error))
        return "met"

    run_id = new_id()
    run(meeting, store=memory, run_id=run_id)
    gc.collect()
    assert replay(meeting, run_id, store=memory) == "met"
    assert "gone" in seen[1]
    assert "ShortLived" in seen[1]


def test_an_error_that_cannot_be_rebuilt_still_shows_class_and_message(memory: Any) -> None:
    class Picky(Exception):
        def __init__(self, handle: Any) -> None:
            super().__init__("picky", handle)
            self.handle = handle

    @onrecord.step
    def picky() -> None:
        raise Picky(io.BytesIO())

    seen: list[str] = []

    @onrecord.agent
    def picking() -> str:
        try:
            picky()
        except Exception as error:
            seen.append(f"{type(error).__name__} {error}")
        return "picked"

    assert recorded_and_replayed(picking, store=memory) == "picked"
    assert all("Picky" in one or "picky" in one for one in seen)


def test_an_effect_that_is_cancelled_inside_comes_back_as_that(memory: Any) -> None:
    @onrecord.agent
    async def cancelled_inside() -> str:
        try:
            await pay_async("cancelled")
        except asyncio.CancelledError:
            return "cancelled"
        return "paid"

    assert recorded_and_replayed(cancelled_inside, store=memory) == "cancelled"


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("was_reachable", [False, True])
def test_an_error_whose_class_is_gone_stops_a_replay_unless_nobody_could_find_it(
    memory: Any, monkeypatch: pytest.MonkeyPatch, is_async: bool, was_reachable: bool
) -> None:
    class Refused(ValueError):
        def __init__(self, code: int) -> None:
            super().__init__(f"refused with {code}")
            self.code = code

    Refused.__qualname__ = "Refused"
    if was_reachable:
        monkeypatch.setattr(sys.modules[__name__], "Refused", Refused, raising=False)

    @onrecord.step
    def refusing() -> None:
        raise Refused(7)

    @onrecord.step
    async def refusing_later() -> None:
        raise Refused(7)

    def told(error: Any) -> list[Any]:
        return [str(error), error.code]

    @onrecord.agent
    def catching() -> Any:
        try:
            refusing()
        except ValueError as error:
            return told(error)

    @onrecord.agent
    async def catching_later() -> Any:
        try:
            await refusing_later()
        except ValueError as error:
            return told(error)

    agent, run_id = catching_later if is_async else catching, new_id()
    assert run(agent, store=memory, run_id=run_id) == ["refused with 7", 7]
    monkeypatch.delattr(sys.modules[__name__], "Refused", raising=was_reachable)
    if was_reachable:
        with pytest.raises(
            onrecord.NotReplayable, match=r"the class test_runtime_values:Refused of the result of refus"
        ):
            replay(agent, run_id, store=memory)
    else:
        assert replay(agent, run_id, store=memory) == ["refused with 7", 7]


@pytest.mark.parametrize("duration", [float("nan"), float("inf"), "soon", "1x", [1]])
def test_a_duration_that_is_none_is_refused(duration: Any) -> None:
    with pytest.raises(InvalidInput):
        parse_duration(duration)


@pytest.mark.parametrize("attempts", [0, -1, 1.5, float("nan")])
def test_attempts_are_whole_numbers(attempts: Any) -> None:
    with pytest.raises(InvalidInput):
        onrecord.Retry(attempts=attempts)
