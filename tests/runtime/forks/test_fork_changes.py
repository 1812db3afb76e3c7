"""A fork goes another way from some event on: the alternate takes the place of the original, which it never had."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Any

import pytest

import onrecord
from kit.forks import Ledger, assert_verifies, entries, fork, kinds, moved, seqs
from kit.runtime import Died, new_id, replay, run
from kit.soak import SOAK
from onrecord.core.lane_names import sibling_name
from onrecord.core.wait_keys import Resolution
from onrecord.errors import BadPosition, Damaged, InvalidInput, NotFound, OnrecordError
from onrecord.journal.reader import JournalReader
from onrecord.runtime.api.wait import WaitFailed
from onrecord.runtime.engine.stops import NotCarriedOut, Suspended
from onrecord.runtime.forks.fork import AnotherAnswer, AnotherInput, AnotherModel
from onrecord.runtime.waits.registry import WaitRegistry
from onrecord.store.memory import MemoryStore

ledger = Ledger()
broken = [False]


@pytest.fixture(autouse=True)
def as_new() -> None:
    ledger.clear()
    broken[0] = False


@dataclasses.dataclass
class Order:
    number: int


@onrecord.tool(kind="model_call")
def think(model: str, prompt: str) -> str:
    ledger.did("think", model, prompt)
    return f"{model} on {prompt}"


@onrecord.tool
def mail(to: str, text: str) -> str:
    ledger.did("mail", to, text)
    return f"mailed {text}"


@onrecord.step
def look(page: int) -> int:
    ledger.did("look", page)
    return 10 * page


@onrecord.agent(name="fork.clerk")
def clerk(order: str) -> list[Any]:
    plan = think("small", order)
    onrecord.set_state({"plan": plan})
    word = think("small", f"word for {plan}")
    onrecord.set_state({"plan": plan, "word": word})
    return [plan, word, mail("bob", word), look(len(word)), onrecord.state()]


def recorded(store: Any, order: str = "A-1") -> str:
    name = new_id()
    clerk.run(order, run_id=name, store=store)
    ledger.clear()
    return name


# The alternate takes the place of the original


def test_the_original_answer_is_not_in_the_branch(memory: MemoryStore) -> None:
    parent = recorded(memory)
    original = seqs(memory, parent, "ActionSucceeded", "think")[1]
    branch = new_id("branch")
    got = clerk.fork(parent, change=AnotherAnswer(original, "hello"), live_tools=["mail"], fork_id=branch, store=memory)
    assert got == ["small on A-1", "hello", "mailed hello", 50, {"plan": "small on A-1", "word": "hello"}]
    assert ledger.lines == [("mail", "bob", "hello"), ("look", 5)]
    reader = JournalReader(memory, branch)
    link = reader.header.parent
    assert link is not None
    assert (link.run, link.seq, link.relation) == (parent, original - 1, "fork")
    own = "".join(str(one.event.content()) for one in entries(memory, branch))
    assert "word for small on A-1" in own, "the request that is answered is the branch's own"
    assert "small on word for" not in own, "the original answer is nowhere in the branch"
    assert (reader.facts() or {})["change"] == {"kind": "answer", "event": original, "request": original - 1}
    assert reader.event(2).event.content()["output"] == "hello"


@pytest.mark.parametrize("kind", ["memory", "sqlite", "postgres"])
def test_a_branch_stands_by_itself(kind: str, request: pytest.FixtureRequest, tmp_path: Any) -> None:
    url = {"memory": "memory://", "sqlite": str(tmp_path / "store.db")}.get(kind)
    opened = onrecord.open_store(url or request.getfixturevalue("database_url"))
    try:
        parent = recorded(opened)
        before = [one.event for one in entries(opened, parent)]
        original = seqs(opened, parent, "ActionSucceeded", "think")[0]
        branch = new_id("branch")
        got = clerk.fork(
            parent, change=AnotherAnswer(original, "other"), live_tools=["mail"], fork_id=branch, store=opened
        )
        ledger.clear()
        assert_verifies(opened, branch)
        assert clerk.replay(branch, store=opened) == got
        assert clerk.resume(branch, store=opened) == got
        assert not ledger.lines
        assert clerk.replay(parent, store=opened)[0] == "small on A-1", "the parent is what it was"
        assert [one.event for one in entries(opened, parent)] == before
        assert_verifies(opened, parent)
    finally:
        opened.close()


def test_the_state_of_a_branch_follows_the_alternate(memory: MemoryStore) -> None:
    parent = recorded(memory)
    branch = new_id("branch")
    original = seqs(memory, parent, "ActionSucceeded", "think")[0]
    clerk.fork(parent, change=AnotherAnswer(original, "P"), live_tools=["mail"], fork_id=branch, store=memory)
    states = [one.event.payload for one in entries(memory, branch) if one.kind == "StateUpdated"]
    assert states == [{"plan": "P"}, {"plan": "P", "word": "small on word for P"}]


def test_an_error_is_an_answer_too(memory: MemoryStore) -> None:
    @onrecord.agent(name="fork.careful")
    def careful() -> str:
        try:
            return mail("bob", "x")
        except ConnectionError as error:
            return f"not sent: {error}"

    parent = new_id()
    assert careful.run(run_id=parent, store=memory) == "mailed x"
    branch = new_id("branch")
    failing = AnotherAnswer(2, error=ConnectionError("refused"))
    assert careful.fork(parent, change=failing, fork_id=branch, store=memory) == "not sent: refused"
    assert careful.replay(branch, store=memory) == "not sent: refused"
    back = new_id("branch")
    assert careful.fork(branch, change=AnotherAnswer(2, "sent after all"), fork_id=back, store=memory) == (
        "sent after all"
    )
    assert ledger.count("mail") == 1, "the parent's"


def test_another_input_is_asked_for_and_on_record(memory: MemoryStore) -> None:
    parent = recorded(memory)
    asked = seqs(memory, parent, "ActionRequested", "think")[1]
    branch = new_id("branch")
    change = AnotherInput(asked, {"model": "small", "prompt": "changed"})
    got = clerk.fork(parent, change=change, live_tools=["mail"], fork_id=branch, store=memory)
    assert got[:3] == ["small on A-1", "small on changed", "mailed small on changed"]
    assert ledger.count("think", "small", "changed") == 1
    assert ledger.count("think") == 1
    requests = [one.event for one in entries(memory, branch) if one.kind == "ActionRequested"]
    assert requests[0].payload == {"model": "small", "prompt": "changed"}
    ledger.clear()
    assert clerk.replay(branch, store=memory) == got
    assert clerk.resume(branch, store=memory) == got
    for at in range(len(entries(memory, branch))):
        further = new_id("further")
        assert clerk.fork(branch, at, tail="mocked", fork_id=further, store=memory) == got
        assert clerk.replay(further, store=memory) == got
    assert not ledger.lines


def test_only_the_named_one_of_equal_requests_has_another_input(memory: MemoryStore) -> None:
    @onrecord.agent(name="fork.thrice")
    def thrice() -> list[int]:
        return [look(1), look(1), look(1)]

    parent = new_id()
    thrice.run(run_id=parent, store=memory)
    second = seqs(memory, parent, "ActionRequested", "look")[1]
    for at in (0, 1, 2):
        branch = new_id("branch")
        change = AnotherInput(second, {"page": 7})
        assert thrice.fork(parent, at, change=change, fork_id=branch, store=memory) == [10, 70, 10]
        assert thrice.replay(branch, store=memory) == [10, 70, 10]


def test_another_model_is_asked_behind_the_fork_only(memory: MemoryStore) -> None:
    parent = recorded(memory)
    branch = new_id("branch")
    change = AnotherModel("large")
    got = clerk.fork(parent, 2, change=change, live_tools=["mail"], fork_id=branch, store=memory)
    assert got[:2] == ["small on A-1", "large on word for small on A-1"]
    assert [line for line in ledger.lines if line[0] == "think"] == [("think", "large", "word for small on A-1")]
    payloads = [one.event.payload for one in entries(memory, branch) if one.kind == "ActionRequested"]
    assert payloads[0] == {"model": "large", "prompt": "word for small on A-1"}
    ledger.clear()
    assert clerk.replay(branch, store=memory) == got
    assert not ledger.lines
    for at in range(len(entries(memory, branch))):
        further = new_id("further")
        assert clerk.fork(branch, at, tail="mocked", fork_id=further, store=memory) == got
        assert clerk.replay(further, store=memory) == got
    assert not ledger.lines
    last = clerk.fork(branch, 0, change=AnotherModel("huge"), live_tools=["mail"], store=memory)
    assert last[:2] == ["small on A-1", "huge on word for small on A-1"]


def test_what_cannot_be_changed_is_said(memory: MemoryStore) -> None:
    parent = recorded(memory)
    state = seqs(memory, parent, "StateUpdated")[0]
    answer = seqs(memory, parent, "ActionSucceeded", "think")[0]
    for change in (AnotherAnswer(state, 1), AnotherInput(state, {}), AnotherInput(answer, {})):
        with pytest.raises(InvalidInput) as caught:
            clerk.fork(parent, change=change, store=memory)
        assert caught.value.code == "bad_change"
    for bad in (
        AnotherAnswer(0, 1),
        AnotherAnswer(-1, 1),
        AnotherAnswer(99, 1),
        AnotherInput(99, {}),
        AnotherInput(0, 1),
    ):
        with pytest.raises(BadPosition):
            clerk.fork(parent, change=bad, store=memory)
    assert len(memory.list_runs("default")) == 1, "nothing was begun"
    assert not ledger.lines


def test_an_input_that_does_not_fit_stops_before_anything_happens(memory: MemoryStore) -> None:
    parent = recorded(memory)
    asked = seqs(memory, parent, "ActionRequested", "think")[1]
    for payload in ("just a text", {"model": "small", "other": 1}, {"prompt": "x"}, None, [1]):
        with pytest.raises(OnrecordError):
            clerk.fork(parent, change=AnotherInput(asked, payload), store=memory)
    assert not ledger.lines


# Decisions


def test_another_decision(memory: MemoryStore) -> None:
    @onrecord.tool(idempotent=True)
    def ask_dana(order: str) -> None:
        ledger.did("asked", order)

    @onrecord.agent(name="fork.decided")
    def decided(order: str) -> str:
        ask_dana(order)
        try:
            said = onrecord.wait_for("approval")
        except WaitFailed as failed:
            return f"failed: {failed.value}"
        first, value = onrecord.wait_for_first("yes", "no")
        return f"{said} {first} {value} {onrecord.interrupt('really?')}"

    parent = new_id()
    handle = decided.start("A", run_id=parent, store=memory)
    from onrecord.core.wait_keys import WaitIdentity

    desk = WaitRegistry(memory)
    for name, value in (("approval", "granted"), ("yes", 1), ("interrupt@main", "sure")):
        desk.resolve(desk.key(parent, WaitIdentity.named(name, 1)).text, Resolution.ok(value))
    assert handle.result(timeout=30) == "granted yes 1 sure"
    waits, resolved = seqs(memory, parent, "WaitCreated"), seqs(memory, parent, "WaitResolved")
    interrupted = seqs(memory, parent, "Interrupted")[0]

    def forked(change: Any) -> str:
        branch = new_id("branch")
        got = decided.fork(parent, change=change, tail="mocked", fork_id=branch, store=memory)
        assert decided.replay(branch, store=memory) == got
        assert_verifies(memory, branch)
        return str(got)

    for seq in (waits[0], resolved[0]):
        assert forked(AnotherAnswer(seq, "denied")) == "denied yes 1 sure"
    assert forked(AnotherAnswer(waits[0], error=ValueError("lost"))) == "failed: lost"
    assert forked(AnotherAnswer(waits[1], {"winner": "no", "value": 2})) == "granted no 2 sure"
    assert forked(AnotherAnswer(interrupted, "rather not")) == "granted yes 1 rather not"
    with pytest.raises(InvalidInput) as caught:
        decided.fork(parent, change=AnotherAnswer(waits[1], "no"), store=memory)
    assert caught.value.code == "bad_change"
    assert ledger.names == {"asked": 1}


# Where a fork begins


def test_every_position_and_no_other(memory: MemoryStore) -> None:
    parent = recorded(memory)
    last = len(entries(memory, parent))
    whole = clerk.resume(parent, store=memory)
    for at in range(last):
        assert clerk.fork(parent, at, tail="mocked", store=memory) == whole
    assert clerk.fork(parent, tail="mocked", store=memory) == whole
    for bad in (-1, -5, last, last + 1, 10**18, 2**70, 1.5, "2", True, 1e3):
        with pytest.raises(BadPosition):
            clerk.fork(parent, bad, store=memory)  # type: ignore[arg-type]
    assert not ledger.lines


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_positions_beyond_what_a_database_counts(kind: str, request: pytest.FixtureRequest, tmp_path: Any) -> None:
    url = str(tmp_path / "store.db") if kind == "sqlite" else request.getfixturevalue("database_url")
    opened = onrecord.open_store(url)
    try:
        parent = recorded(opened)
        for bad in (10**18, 2**63, 2**70, -(2**70)):
            with pytest.raises(BadPosition):
                clerk.fork(parent, bad, store=opened)
            with pytest.raises(BadPosition):
                clerk.fork(parent, change=AnotherAnswer(bad, 1), store=opened)
    finally:
        opened.close()


def test_a_position_beside_the_changed_answer_is_refused(memory: MemoryStore) -> None:
    parent = recorded(memory)
    asked, answered = (seqs(memory, parent, kind, "think")[1] for kind in ("ActionRequested", "ActionSucceeded"))
    for at in (asked - 1, answered, answered + 1, 0):
        with pytest.raises(BadPosition):
            clerk.fork(parent, at, change=AnotherAnswer(answered, 1), store=memory)
    for at in (asked, asked + 1):
        with pytest.raises(BadPosition):
            clerk.fork(parent, at, change=AnotherInput(asked, {"model": "m", "prompt": "p"}), store=memory)
    assert not ledger.lines


def test_an_unknown_tail_and_an_unknown_run(memory: MemoryStore) -> None:
    parent = recorded(memory)
    with pytest.raises(InvalidInput):
        clerk.fork(parent, tail="wild", store=memory)
    with pytest.raises(NotFound):
        clerk.fork("nowhere", store=memory)
    with pytest.raises(NotFound):
        clerk.fork(parent, store=memory, namespace="elsewhere")
    assert len(memory.list_runs("default")) == 1


# Lanes


@onrecord.tool(kind="model_call")
async def ask(prompt: str) -> str:
    ledger.did("ask", prompt)
    await asyncio.sleep(0.001)
    return prompt.upper()


@onrecord.tool
async def note(text: str) -> str:
    ledger.did("note", text)
    return f"noted {text}"


@onrecord.agent(name="fork.lanes")
async def lanes(width: int) -> list[str]:
    async def branch(number: int) -> str:
        first = await ask(f"b{number}")
        second = await ask(f"{first} again")
        return await note(f"{number} {second}")

    found = await asyncio.gather(*(branch(number) for number in range(width)))
    return [*found, await note("end")]


def test_a_change_in_a_lane_below_leaves_the_others_alone(memory: MemoryStore) -> None:
    parent = new_id()
    whole = run(lanes, 3, run_id=parent, store=memory)
    for one in [one for one in entries(memory, parent) if one.kind == "ActionRequested" and "/ask/" in one.key]:
        branch = new_id("branch")
        change = AnotherAnswer(one.seq, "CHANGED")
        ledger.clear()
        got = fork(lanes, parent, change=change, live_tools=["note"], fork_id=branch, store=memory)
        number = sibling_name(one.lane)[1]
        again = one.key.endswith("/1")
        expected = "CHANGED" if again else "CHANGED AGAIN"
        assert got[number] == f"noted {number} {expected}"
        assert [text for at, text in enumerate(got) if at != number] == [
            text for at, text in enumerate(whole) if at != number
        ]
        ledger.clear()
        assert replay(lanes, branch, store=memory) == got
        assert not ledger.lines
        assert_verifies(memory, branch)


def test_forks_of_forks_of_forks(memory: MemoryStore) -> None:
    parent = new_id()
    run(lanes, 3, run_id=parent, store=memory)
    chain, change_at, expected = [parent], 0, []
    for depth in range(4):
        name = new_id("deep")
        # The last `note` of each is asked for in the run itself: it is what the next one answers otherwise.
        change_at = seqs(memory, chain[-1], "ActionRequested", "note")[-1]
        got = fork(lanes, chain[-1], change=AnotherAnswer(change_at, f"depth {depth}"), fork_id=name, store=memory)
        expected.append(got)
        assert got[-1] == f"depth {depth}"
        chain.append(name)
    ledger.clear()
    for name, got in zip(chain[1:], expected, strict=True):
        assert replay(lanes, name, store=memory) == got
        assert fork(lanes, name, tail="mocked", store=memory) == got
        assert_verifies(memory, name)
    assert not ledger.lines


def test_a_fork_in_the_middle_of_a_fork_of_a_fork(memory: MemoryStore) -> None:
    parent = new_id()
    whole = run(lanes, 3, run_id=parent, store=memory)
    ledger.clear()
    first = new_id("f")
    assert fork(lanes, parent, 4, tail="mocked", fork_id=first, store=memory) == whole
    for at in range(0, len(entries(memory, first)), 1 if SOAK else 4):
        second = new_id("f")
        assert fork(lanes, first, at, tail="mocked", fork_id=second, store=memory) == whole
        assert replay(lanes, second, store=memory) == whole
        for deeper in range(0, len(entries(memory, second)), 3 if SOAK else 5):
            third = new_id("f")
            assert fork(lanes, second, deeper, tail="mocked", fork_id=third, store=memory) == whole
            assert replay(lanes, third, store=memory) == whole
    assert not ledger.lines


# Runs that did not end well, or have not ended


@onrecord.tool
def charge(cents: int) -> str:
    ledger.did("charge", cents)
    if broken[0]:
        raise RuntimeError("no such account")
    return "charged"


@onrecord.agent(name="fork.billing")
def billing(cents: int) -> list[str]:
    return [think("small", "bill"), charge(cents), think("small", "bye")]


def test_a_failed_run_goes_on_with_the_failing_answer_dropped(memory: MemoryStore) -> None:
    broken[0] = True
    parent = new_id()
    with pytest.raises(RuntimeError):
        billing.run(5, run_id=parent, store=memory)
    failed = seqs(memory, parent, "ActionFailed")[0]
    broken[0] = False
    ledger.clear()
    branch = new_id("fixed")
    got = billing.fork(parent, failed - 1, live_tools=["charge"], fork_id=branch, store=memory)
    assert got == ["small on bill", "charged", "small on bye"]
    assert ledger.lines == [("charge", 5), ("think", "small", "bye")]
    assert billing.replay(branch, store=memory) == got
    assert kinds(memory, branch)[0] == "ActionRequested", "it asks in its own name"
    # Unnamed it is not tried again: the record has what came of it, which is an error.
    with pytest.raises(RuntimeError, match="no such account"):
        billing.fork(parent, failed - 1, store=memory)
    # At its end there is only the failure left.
    with pytest.raises(RuntimeError, match="no such account"):
        billing.fork(parent, store=memory)
    assert ledger.count("charge") == 1


@pytest.mark.parametrize("tail", ["live", "mocked"])
def test_a_fork_of_a_run_that_stands_still(memory: MemoryStore, tail: str) -> None:
    dying = [True]

    @onrecord.tool
    def send(text: str) -> str:
        ledger.did("send", text)
        if dying[0]:
            raise Died
        return f"sent {text}"

    @onrecord.agent(name=f"fork.still.{tail}")
    def still() -> list[str]:
        return [think("small", "a"), send("x")]

    parent = new_id()
    with pytest.raises(Died):
        still.run(run_id=parent, store=memory)
    dying[0] = False
    ledger.clear()
    branch = new_id("branch")
    with pytest.raises(NotCarriedOut):
        still.fork(parent, tail=tail, fork_id=branch, store=memory)
    assert not ledger.lines, "what its parent has begun is in doubt there, and not known here"
    assert still.resume(branch, tail="live", live_tools=["send"], store=memory) == ["small on a", "sent x"]
    assert ledger.lines == [("send", "x")]
    with pytest.raises(onrecord.InDoubt):
        still.resume(parent, store=memory)


def test_a_fork_of_a_run_that_is_being_carried(memory: MemoryStore) -> None:
    from onrecord.core.wait_keys import WaitIdentity

    @onrecord.agent(name="fork.carried")
    def carried() -> list[str]:
        return [think("small", "a"), onrecord.wait_for("word")]

    parent = new_id()
    handle = carried.start(run_id=parent, store=memory)
    while "WaitCreated" not in kinds(memory, parent):
        pass
    at = seqs(memory, parent, "WaitCreated")[0]
    branch = new_id("branch")
    assert carried.fork(parent, change=AnotherAnswer(at, "forked"), fork_id=branch, store=memory) == [
        "small on a",
        "forked",
    ]
    desk = WaitRegistry(memory)
    desk.resolve(desk.key(parent, WaitIdentity.named("word", 1)).text, Resolution.ok("own"))
    assert handle.result(timeout=30) == ["small on a", "own"]
    assert ledger.count("think") == 1


# The parent


class Changed:
    """A store in which one run is not what it was."""

    def __init__(self, store: Any, parent: str, how: str) -> None:
        self._store = store
        self._parent = parent
        self._how = how

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def run_row(self, namespace: str, run: str) -> Any:
        return self._store.run_row(namespace, run) if run != self._parent or self._how != "missing" else None

    def event(self, namespace: str, run: str, seq: int) -> Any:
        row = self._store.event(namespace, run, seq)
        if run != self._parent or row is None:
            return row
        if self._how == "truncated":
            return row if seq < 3 else None
        return row._replace(hash=bytes(32)) if self._how == "altered" else row


@pytest.mark.parametrize(
    ("how", "code"), [("missing", "missing_parent"), ("altered", "other_parent"), ("truncated", "other_parent")]
)
def test_without_its_parent_as_it_was_a_fork_is_refused(memory: MemoryStore, how: str, code: str) -> None:
    parent, branch, below = recorded(memory), new_id("branch"), new_id("below")
    with pytest.raises(Suspended):
        clerk.fork(parent, 5, tail="stopped", fork_id=branch, store=memory)
    with pytest.raises(Suspended):
        clerk.fork(branch, tail="stopped", fork_id=below, store=memory)
    store: Any = Changed(memory, parent, how)
    runs = len(memory.list_runs("default"))
    for name in (branch, below):
        for call in (clerk.resume, clerk.replay, clerk.fork, clerk.replay_live):
            with pytest.raises((NotFound, Damaged)) as caught:
                call(name, store=store)
            assert caught.value.code == code
            assert parent in caught.value.message
    assert len(memory.list_runs("default")) == runs, "nothing was begun"
    assert not ledger.lines
    assert clerk.resume(branch, tail="mocked", store=memory) == clerk.resume(parent, store=memory)


def test_a_fork_that_was_imported_without_its_parent(memory: MemoryStore) -> None:
    parent, branch = recorded(memory), new_id("branch")
    whole = clerk.fork(parent, 5, tail="mocked", fork_id=branch, store=memory)
    alone = MemoryStore()
    moved(memory, branch, alone)
    for call in (clerk.replay, clerk.fork, clerk.replay_live):
        with pytest.raises(NotFound) as caught:
            call(branch, store=alone)
        assert caught.value.code == "missing_parent"
    moved(memory, parent, alone)
    assert clerk.replay(branch, store=alone) == whole
    assert clerk.fork(branch, tail="mocked", store=alone) == whole
    assert not ledger.lines


# Imported runs


@onrecord.tool
def fetch(number: int) -> Any:
    ledger.did("fetch", number)
    return Order(number)


@onrecord.agent(name="fork.imported")
def imported(number: int) -> list[Any]:
    return [type(fetch(number)).__name__, look(1)]


@pytest.mark.parametrize("at", [0, 1, 2])
def test_a_fork_of_an_imported_run_has_plain_data(memory: MemoryStore, at: int) -> None:
    parent = new_id()
    assert imported.run(3, run_id=parent, store=memory)[0] == "Order"
    ledger.clear()
    other = MemoryStore()
    moved(memory, parent, other)
    got = imported.fork(parent, at, store=other)
    assert ledger.names.keys() <= {"look"}
    assert got[0] != "Order"


# What is carried over


def test_keys_of_the_callers_own_are_used_up_before_the_fork(memory: MemoryStore) -> None:
    @onrecord.agent(name="fork.keyed")
    def keyed() -> list[str]:
        first = mail.keyed("the only one", "bob", "x")
        between = think("small", "between")
        return [first, between, mail.keyed("the only one", "bob", "x")]

    parent = new_id()
    whole = keyed.run(run_id=parent, store=memory)
    ledger.clear()
    for at in range(len(entries(memory, parent))):
        assert keyed.fork(parent, at, tail="mocked", store=memory) == whole
    assert not ledger.lines
    branch = new_id("branch")
    assert keyed.fork(parent, 2, live_tools=["mail"], fork_id=branch, store=memory) == whole
    assert not ledger.count("mail"), "it was used before the fork"
    assert keyed.fork(parent, 0, live_tools=["mail"], store=memory) == whole
    assert ledger.count("mail") == 1


def test_what_is_shared_is_free_and_the_tail_is_counted(memory: MemoryStore) -> None:
    @onrecord.agent(name="fork.budgeted", policy=onrecord.Policy(budget=onrecord.Budget(calls=4)))
    def budgeted() -> list[Any]:
        got: list[Any] = []
        try:
            for page in range(9):
                got += [look(page)]
        except onrecord.BudgetExceeded:
            got.append("spent")
        return got

    parent = new_id()
    assert budgeted.run(run_id=parent, store=memory) == [0, 10, 20, 30, "spent"]
    ledger.clear()
    branch = new_id("branch")
    assert budgeted.fork(parent, 6, fork_id=branch, store=memory) == [0, 10, 20, 30, 40, 50, 60, "spent"]
    assert ledger.count("look") == 4
    assert budgeted.replay(branch, store=memory)[-1] == "spent"
    deeper = budgeted.fork(branch, 2, store=memory)
    assert deeper == [0, 10, 20, 30, 40, 50, 60, 70, "spent"]


def test_drawn_values_of_the_shared_part_stay(memory: MemoryStore) -> None:
    @onrecord.agent(name="fork.drawn")
    def drawn() -> list[Any]:
        first = onrecord.random()
        look(1)
        return [first, onrecord.uuid(), onrecord.now(), look(2)]

    parent = new_id()
    whole = drawn.run(run_id=parent, store=memory)
    for at in range(len(entries(memory, parent))):
        mocked = new_id("mocked")
        assert drawn.fork(parent, at, tail="mocked", fork_id=mocked, store=memory) == whole
        assert drawn.replay(mocked, store=memory) == whole
    live = new_id("live")
    got = drawn.fork(parent, 3, fork_id=live, store=memory)
    assert got[0] == whole[0]
    assert got[1] != whole[1], "behind the fork it is drawn anew"
    assert drawn.replay(live, store=memory) == got


def test_changed_code_may_drop_what_was_open_at_the_fork(memory: MemoryStore) -> None:
    parent = recorded(memory)
    asked = seqs(memory, parent, "ActionRequested", "mail")[0]
    branch = new_id("branch")
    with pytest.raises(OnrecordError):
        clerk.fork(parent, asked, tail="stopped", fork_id=branch, store=memory)

    @onrecord.agent(name="fork.clerk")
    def changed(order: str) -> list[Any]:
        plan = think("small", order)
        onrecord.set_state({"plan": plan})
        word = think("small", f"word for {plan}")
        onrecord.set_state({"plan": plan, "word": word})
        return [plan, "no mail any more"]

    try:
        got = changed.resume(branch, tail="live", accept_code=True, store=memory)
        assert got == ["small on A-1", "no mail any more"]
        assert changed.replay(branch, store=memory) == got
    finally:
        onrecord.agent(name="fork.clerk")(clerk.function)
    assert not ledger.count("mail")
