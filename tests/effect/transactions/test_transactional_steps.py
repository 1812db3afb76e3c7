"""Steps that write to the store's own database: what is recorded, what is undone, and who is told."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import reenact
from reenact.effect.stopping import OutsideRun
from reenact.errors import InvalidInput, OutcomeUnknown, StoreUnavailable
from reenact.journal.verify import verify_run
from reenact.store.memory import MemoryStore
from reenact.store.opening import open_store


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    url = str(tmp_path / "store.db") if request.param == "sqlite" else request.getfixturevalue("database_url")
    opened: Any = open_store(url)
    creating.run(store=opened)
    yield opened
    opened.close()


@pytest.fixture
def sqlite(tmp_path: Path) -> Iterator[Any]:
    opened: Any = open_store(str(tmp_path / "own.db"))
    creating.run(store=opened)
    yield opened
    opened.close()


class TooMuch(Exception):
    pass


@reenact.step(transactional=True)
def create(db: Any) -> None:
    db.execute("CREATE TABLE paid(what TEXT UNIQUE)")


@reenact.agent
def creating() -> None:
    create()


@reenact.step(transactional=True)
def pay(db: Any, what: str, /, *, times: int = 1) -> int:
    db.execute(f"INSERT INTO paid VALUES('{what}')")
    return len(db.execute("SELECT what FROM paid").fetchall()) * times


@reenact.step(transactional=True)
async def pay_later(db: Any, what: str) -> str:
    await asyncio.sleep(0)
    db.execute(f"INSERT INTO paid VALUES('{what}')")
    return what


@reenact.step
async def think(what: str) -> str:
    await asyncio.sleep(0)
    return what


@reenact.step(transactional=True)
def look(db: Any) -> list[str]:
    return [row[0] for row in db.execute("SELECT what FROM paid ORDER BY what").fetchall()]


@reenact.agent
def looking() -> list[str]:
    found: list[str] = look()
    return found


def paid(store: Any) -> list[str]:
    found: list[str] = looking.run(store=store)
    return found


def events(store: Any, run: str) -> list[Any]:
    return [one.event for one in reenact.JournalReader(store, run).scan()]


def kinds(store: Any, run: str) -> list[str]:
    return [event.kind for event in events(store, run)]


def awaited(made: Any) -> Any:
    async def wait() -> Any:
        return await made

    return asyncio.run(wait())


def test_the_connection_is_no_part_of_what_is_recorded(store: Any) -> None:
    @reenact.agent
    def paying() -> list[int]:
        return [pay("a"), pay("b", times=10)]

    assert paying.run(run_id="r", store=store) == [1, 20]
    requests = [event for event in events(store, "r") if event.kind == "ActionRequested"]
    assert [event.payload for event in requests] == [{"what": "a"}, {"what": "b", "times": 10}]
    assert paying.replay("r", store=store) == [1, 20]
    assert paid(store) == ["a", "b"]
    assert verify_run(store, "r").valid


def test_an_error_undoes_the_rows_and_is_the_outcome(store: Any) -> None:
    @reenact.step(transactional=True)
    def overpay(db: Any) -> None:
        db.execute("INSERT INTO paid VALUES('too much')")
        raise TooMuch("9")

    @reenact.agent
    def paying() -> Any:
        try:
            overpay()
        except TooMuch as error:
            return [str(error), pay("enough")]

    assert paying.run(run_id="r", store=store) == ["9", 1]
    assert paying.replay("r", store=store) == ["9", 1]
    assert kinds(store, "r")[:2] == ["ActionRequested", "ActionFailed"]
    assert paid(store) == ["enough"]


def test_an_error_of_the_database_is_the_outcome_too(store: Any) -> None:
    @reenact.agent
    def paying() -> str:
        pay("a")
        try:
            pay("a")
        except Exception as error:
            return type(error).__name__
        return "paid twice"

    first = paying.run(run_id="r", store=store)
    assert first in ("ConstraintError", "UniqueViolation")
    assert paying.replay("r", store=store) == first
    assert paid(store) == ["a"]


@pytest.mark.parametrize("is_async", [False, True])
def test_each_attempt_is_a_transaction_of_its_own(store: Any, is_async: bool) -> None:
    tries: list[int] = []

    def once(db: Any) -> int:
        tries.append(len(tries))
        db.execute(f"INSERT INTO paid VALUES('try {len(tries)}')")
        if len(tries) < 3:
            raise ConnectionError(f"try {len(tries)}")
        return len(tries)

    async def once_async(db: Any) -> int:
        return once(db)

    step: Any = reenact.step(
        once_async if is_async else once, name="once", transactional=True, retry=reenact.Retry(delay_seconds=0)
    )

    @reenact.agent
    def paying() -> int:
        found: int = step()
        return found

    @reenact.agent
    async def paying_async() -> int:
        found: int = await step()
        return found

    agent: Any = paying_async if is_async else paying
    made = agent.run(run_id="r", store=store)
    assert (awaited(made) if is_async else made) == 3
    expected = ["ActionRequested", *["AttemptRecorded"] * 3, "ActionSucceeded", "Completed"]
    assert kinds(store, "r") == expected
    attempts = [event for event in events(store, "r") if event.kind == "AttemptRecorded"]
    assert [event.status for event in attempts] == ["retried", "retried", "succeeded"]
    assert paid(store) == ["try 3"]


def test_a_method_gets_its_instance_and_the_connection(sqlite: Any) -> None:
    class Shop:
        def __init__(self, name: str) -> None:
            self.name = name

        @reenact.step(transactional=True)
        def pay(self, db: Any, what: str) -> str:
            db.execute(f"INSERT INTO paid VALUES('{self.name} {what}')")
            return self.name

    @reenact.agent
    def paying() -> str:
        found: str = Shop("corner").pay("bread")
        return found

    assert paying.run(run_id="r", store=sqlite) == "corner"
    assert events(sqlite, "r")[0].payload == {"what": "bread"}
    assert paid(sqlite) == ["corner bread"]


# Who is refused


def test_outside_of_a_run_there_is_no_transaction() -> None:
    with pytest.raises(OutsideRun):
        pay("a")
    with pytest.raises(OutsideRun):
        pay.keyed("key", "a")


def test_inside_an_effect_there_is_none_either(sqlite: Any) -> None:
    @reenact.step
    def outer() -> None:
        pay("a")

    @reenact.agent
    def paying() -> str:
        try:
            outer()
        except OutsideRun as refusal:
            return refusal.code
        return ""

    assert paying.run(store=sqlite) == "outside_run"
    assert paid(sqlite) == []


def test_a_store_without_transactions_is_refused_before_anything_is_recorded() -> None:
    store = MemoryStore()

    @reenact.agent
    def paying() -> str:
        try:
            pay("a")
        except InvalidInput as refusal:
            return refusal.code
        return ""

    assert paying.run(run_id="r", store=store) == "no_transactions"
    assert kinds(store, "r") == ["Completed"]


def test_what_cannot_be_such_a_step() -> None:
    async def yields(db: Any) -> Any:
        yield db

    def keywords(*, db: Any) -> None: ...

    for function, options in ((lambda: None, {}), (keywords, {}), (yields, {}), (lambda db: None, {"timeout": 1.0})):
        with pytest.raises(InvalidInput) as refusal:
            reenact.step(function, transactional=True, **options)
        assert refusal.value.code == "bad_transactional_step"


def test_the_stores_own_tables_are_refused_as_an_outcome(store: Any) -> None:
    own = "SELECT * FROM events" if store.url.startswith("sqlite") else "SELECT * FROM reenact.events"

    @reenact.step(transactional=True)
    def meddle(db: Any) -> None:
        db.execute(own)

    @reenact.agent
    def meddling() -> str:
        try:
            meddle()
        except reenact.ReenactError as refusal:
            return refusal.code
        return ""

    assert meddling.run(store=store) == "not_in_transaction"


# When the store fails


class Faulty:
    """Lets one transaction of a store end in a way that its caller is not to see again."""

    def __init__(self, store: Any, failure: Exception, *, happened: bool) -> None:
        self._transact, self._failure, self._happened = store.transact, failure, happened
        store.transact = self.transact

    def transact(self, work: Any) -> None:
        failure, self._failure = self._failure, None  # type: ignore[assignment]
        if failure is None or self._happened:
            self._transact(work)
        elif isinstance(failure, OutcomeUnknown):
            self._undone(work)
        if failure is not None:
            raise failure

    def _undone(self, work: Any) -> None:
        class Undone(Exception):
            pass

        def inside(connection: Any) -> Any:
            work(connection)
            raise Undone

        with pytest.raises(Undone):
            self._transact(inside)


@pytest.mark.parametrize("happened", [True, False])
def test_an_unknown_result_is_looked_up(store: Any, happened: bool) -> None:
    @reenact.agent
    def paying() -> list[int]:
        return [pay("a"), pay("b"), pay("c")]

    Faulty(store, OutcomeUnknown("who knows"), happened=happened)
    assert paying.run(run_id="r", store=store) == [1, 2, 3]
    assert paying.replay("r", store=store) == [1, 2, 3]
    assert kinds(store, "r").count("ActionSucceeded") == 3
    assert paid(store) == ["a", "b", "c"]
    assert verify_run(store, "r").valid


def test_a_store_that_cannot_be_reached_is_no_outcome(store: Any) -> None:
    @reenact.agent
    def paying() -> int:
        try:
            found: int = pay("a")
        except Exception:  # not the agent's to handle
            return -1
        return found

    Faulty(store, StoreUnavailable("gone for lunch"), happened=False)
    with pytest.raises(StoreUnavailable, match="lunch"):
        paying.run(run_id="r", store=store)
    assert kinds(store, "r") == ["ActionRequested"]
    assert paying.resume("r", store=store) == 1
    assert paid(store) == ["a"]


@pytest.mark.parametrize("is_async", [False, True])
def test_a_process_that_lost_the_run_writes_nothing(store: Any, is_async: bool) -> None:
    holder: list[Any] = []

    def work(db: Any) -> None:
        db.execute("INSERT INTO paid VALUES('zombie')")

    async def work_async(db: Any) -> None:
        work(db)

    step: Any = reenact.step(work_async if is_async else work, name="work", transactional=True)

    def lose() -> None:
        holder.append(reenact.JournalReader(store, "r").store.run_row("default", "r"))
        store.release("default", "r", holder[0].epoch)
        store.claim("default", "r", "somebody else", 60)

    @reenact.agent
    def paying() -> None:
        lose()
        step()

    @reenact.agent
    async def paying_async() -> None:
        lose()
        await step()

    with pytest.raises(reenact.ReenactError) as stopped:
        if is_async:
            awaited(paying_async.run(run_id="r", store=store))
        else:
            paying.run(run_id="r", store=store)
    assert stopped.value.code == "superseded"
    assert paid(store) == []


# Beside other effects


def test_lanes_come_back_in_the_recorded_order(store: Any) -> None:
    @reenact.agent
    async def mixing() -> list[str]:
        order: list[str] = []

        async def one(number: int) -> None:
            for turn in range(3):
                what = f"{number}.{turn}"
                order.append(await (pay_later if (number + turn) % 2 else think)(what))
                if turn == 1:
                    await reenact.sleep(0.001)

        await asyncio.gather(*(one(number) for number in range(6)))
        return order

    for round_ in range(3):
        first = awaited(mixing.run(run_id=f"r{round_}", store=store))
        assert awaited(mixing.replay(f"r{round_}", store=store)) == first
        emptying.run(store=store)


@reenact.step(transactional=True)
def empty(db: Any) -> None:
    db.execute("DELETE FROM paid")


@reenact.agent
def emptying() -> None:
    empty()


def test_threads_of_an_agent(store: Any) -> None:
    @reenact.agent
    def paying() -> list[str]:
        order: list[str] = []

        def one(number: int) -> None:
            for turn in range(2):
                pay(f"{number}.{turn}")
                order.append(f"{number}.{turn}")

        threads = [threading.Thread(target=one, args=(number,)) for number in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return sorted(order)

    assert paying.run(run_id="r", store=store) == paid(store)
    assert paying.replay("r", store=store) == paid(store)
    assert verify_run(store, "r").valid


def test_a_step_that_the_agent_gives_up_is_there_or_not_but_the_record_knows(store: Any) -> None:
    @reenact.agent
    async def hurried() -> str:
        try:
            async with asyncio.timeout(0):
                await pay_later("late")
        except TimeoutError:
            return "given up"
        return "paid"

    first = awaited(hurried.run(run_id="r", store=store))
    assert awaited(hurried.replay("r", store=store)) == first
    recorded = kinds(store, "r").count("ActionSucceeded")
    assert len(paid(store)) == recorded


def test_many_runs_in_one_loop(store: Any) -> None:
    @reenact.agent
    async def paying(number: int) -> str:
        await think("first")
        found: str = await pay_later(f"run {number}")
        return found

    async def all_of_them() -> list[str]:
        return list(await asyncio.gather(*(paying.run(number, store=store) for number in range(8))))

    assert asyncio.run(all_of_them()) == [f"run {number}" for number in range(8)] == paid(store)


def test_a_key_of_the_callers_own(store: Any) -> None:
    @reenact.agent
    def paying() -> list[int]:
        return [pay.keyed("the one payment", "a"), pay.keyed("the one payment", "a")]

    assert paying.run(run_id="r", store=store) == [1, 1]
    assert paid(store) == ["a"]
