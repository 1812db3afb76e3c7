"""Steps that write to the store's own database: what is recorded, what is undone, and who is told."""

from __future__ import annotations

from typing import Any

import pytest

import onrecord
from kit.transaction_steps import TooMuch, awaited, events, kinds, paid, pay
from onrecord.errors import InvalidInput
from onrecord.journal.verify import verify_run
from onrecord.runtime.engine.stops import OutsideRun
from onrecord.store.memory import MemoryStore


def test_the_connection_is_no_part_of_what_is_recorded(store: Any) -> None:
    @onrecord.agent
    def paying() -> list[int]:
        return [pay("a"), pay("b", times=10)]

    assert paying.run(run_id="r", store=store) == [1, 20]
    requests = [event for event in events(store, "r") if event.kind == "ActionRequested"]
    assert [event.payload for event in requests] == [{"what": "a"}, {"what": "b", "times": 10}]
    assert paying.replay("r", store=store) == [1, 20]
    assert paid(store) == ["a", "b"]
    assert verify_run(store, "r").valid


def test_an_error_undoes_the_rows_and_is_the_outcome(store: Any) -> None:
    @onrecord.step(transactional=True)
    def overpay(db: Any) -> None:
        db.execute("INSERT INTO paid VALUES('too much')")
        raise TooMuch("9")

    @onrecord.agent
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
    @onrecord.agent
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

    step: Any = onrecord.step(
        once_async if is_async else once, name="once", transactional=True, retry=onrecord.Retry(delay_seconds=0)
    )

    @onrecord.agent
    def paying() -> int:
        found: int = step()
        return found

    @onrecord.agent
    async def paying_async() -> int:
        found: int = await step()
        return found

    agent: Any = paying_async if is_async else paying
    made = agent.run(run_id="r", store=store)
    assert (awaited(made) if is_async else made) == 3
    expected = ["ActionRequested", *["AttemptRecorded"] * 3, "ActionSucceeded", "TurnTaken", "Completed"]
    assert kinds(store, "r") == expected
    attempts = [event for event in events(store, "r") if event.kind == "AttemptRecorded"]
    assert [event.status for event in attempts] == ["retried", "retried", "succeeded"]
    assert paid(store) == ["try 3"]


def test_a_method_gets_its_instance_and_the_connection(sqlite: Any) -> None:
    class Shop:
        def __init__(self, name: str) -> None:
            self.name = name

        @onrecord.step(transactional=True)
        def pay(self, db: Any, what: str) -> str:
            db.execute(f"INSERT INTO paid VALUES('{self.name} {what}')")
            return self.name

    @onrecord.agent
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
    @onrecord.step
    def outer() -> None:
        pay("a")

    @onrecord.agent
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

    @onrecord.agent
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
            onrecord.step(function, transactional=True, **options)
        assert refusal.value.code == "bad_transactional_step"


def test_the_stores_own_tables_are_refused_as_an_outcome(store: Any) -> None:
    own = "SELECT * FROM events" if store.url.startswith("sqlite") else "SELECT * FROM onrecord.events"

    @onrecord.step(transactional=True)
    def meddle(db: Any) -> None:
        db.execute(own)

    @onrecord.agent
    def meddling() -> str:
        try:
            meddle()
        except onrecord.OnrecordError as refusal:
            return refusal.code
        return ""

    assert meddling.run(store=store) == "not_in_transaction"


def test_the_connection_is_dead_once_the_step_has_returned(store: Any) -> None:
    kept: list[Any] = []

    @onrecord.step(transactional=True)
    def keep(db: Any) -> int:
        kept[:] = [db, db.execute("SELECT what FROM paid")]
        return 1

    @onrecord.agent
    def keeping() -> list[Any]:
        found: list[Any] = [keep()]
        for use in (lambda: kept[0].execute("DELETE FROM paid"), lambda: kept[1].fetchall()):
            try:
                use()
            except InvalidInput as refusal:
                found.append(refusal.code)
        return [*found, pay("a")]

    assert keeping.run(run_id="r", store=store) == [1, "transaction_over", "transaction_over", 1]
    assert verify_run(store, "r").valid
    assert paid(store) == ["a"]
