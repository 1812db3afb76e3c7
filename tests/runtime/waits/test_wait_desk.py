"""The desk's rules, on every kind of store."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from kit.stores import any_store
from kit.waits import TurnedClock, operations
from onrecord.core.events import Completed
from onrecord.core.wait_keys import Resolution, ResolveOutcome, WaitIdentity, WaitKey
from onrecord.errors import ClosedRun, InvalidInput, KeysUnavailable, NotFound, UnknownOrRevoked
from onrecord.journal.erasure import erase_value
from onrecord.journal.journal import Journal
from onrecord.journal.retention import retire_run
from onrecord.journal.verify import verify_run
from onrecord.runtime.secrets.keys import KeyRing
from onrecord.runtime.waits import WaitRegistry
from onrecord.runtime.waits.registry import RUN_ENDED
from onrecord.store.contract import Store

APPROVAL = WaitIdentity.named("approval")
YES = Resolution.ok({"ready": True})
UNKNOWN = ResolveOutcome.unknown_or_revoked()
SESSION = "session-1"


def set_event() -> threading.Event:
    event = threading.Event()
    event.set()
    return event


# --- keys ---


def test_a_key_is_stable(desk: WaitRegistry, cold_desk: Callable[[], WaitRegistry]) -> None:
    first = desk.key("run-1", APPROVAL, session=SESSION)
    assert desk.key("run-1", APPROVAL, session=SESSION) == first
    assert cold_desk().key("run-1", APPROVAL, session=SESSION).text == first.text


@any_store
def test_keys_differ_by_run_name_kind_and_ordinal(desk: WaitRegistry) -> None:
    keys = [
        desk.key("run-1", APPROVAL),
        desk.key("run-2", APPROVAL),
        desk.key("run-1", WaitIdentity.named("approval", 2)),
        desk.key("run-1", WaitIdentity.tool_completion("approval")),
        desk.key("run-1", WaitIdentity.process_signal("approval", 1)),
    ]
    assert len({key.text for key in keys}) == 5
    assert desk.resolve(keys[0], YES) == ResolveOutcome.accepted()
    assert [desk.peek(key) for key in keys[1:]] == [None] * 4


@any_store
def test_a_wait_belongs_to_one_session(desk: WaitRegistry) -> None:
    desk.key("run-1", APPROVAL, session=SESSION)
    for other in (None, "session-2"):
        with pytest.raises(InvalidInput) as caught:
            desk.key("run-1", APPROVAL, session=other)
        assert caught.value.code == "other_session"


def test_a_key_begins_its_run_and_the_run_goes_on(desk: WaitRegistry, store: Store) -> None:
    key = desk.key("run-1", APPROVAL)
    with Journal.open(store, "run-1") as journal:
        journal.append(Completed())
    assert verify_run(store, "run-1").valid
    assert desk.key("run-1", APPROVAL) == key


@any_store
def test_a_key_leaves_the_run_alone(desk: WaitRegistry, store: Store) -> None:
    with Journal.create(store, "run-1", facts={"agent": "tester"}) as journal:
        desk.key("run-1", APPROVAL)
        journal.append(Completed())
    assert journal.facts() == {"agent": "tester"}


@any_store
def test_no_key_of_a_run_that_cannot_wait(desk: WaitRegistry, store: Store) -> None:
    with Journal.create(store, "ended") as journal:
        journal.append(Completed())
    with pytest.raises(ClosedRun):
        desk.key("ended", APPROVAL)
    for run in ("operations", "", "no run", "a\0b"):
        with pytest.raises(InvalidInput):
            desk.key(run, APPROVAL)


# --- resolving ---


@any_store
def test_early_resolution_is_kept(desk: WaitRegistry, cold_desk: Callable[[], WaitRegistry]) -> None:
    key = desk.key("run-1", APPROVAL)
    assert desk.resolve(key, YES) == ResolveOutcome.accepted()
    assert desk.wait_blocking(key) == YES
    assert cold_desk().wait_blocking(key.text) == YES


def test_first_resolution_wins(desk: WaitRegistry, cold_desk: Callable[[], WaitRegistry]) -> None:
    key = desk.key("run-1", APPROVAL)
    assert desk.resolve(key, Resolution.ok("first")) == ResolveOutcome.accepted()
    learned = ResolveOutcome.already_resolved(Resolution.ok("first"))
    assert desk.resolve(key, Resolution.ok("second")) == learned
    assert cold_desk().resolve(key.text, Resolution.error("third")) == learned
    assert cold_desk().resolve(key.text, Resolution.ok("first")) == learned
    assert desk.wait_blocking(key) == Resolution.ok("first")


@pytest.mark.parametrize(
    "resolution",
    [
        Resolution.ok(),
        Resolution.ok([1, 1.5, "x", None, {"$type": "int"}, 2**70]),
        Resolution.error({"message": "no"}),
        Resolution.cancelled("not needed"),
    ],
)
@any_store
def test_resolutions_come_back_as_they_were(desk: WaitRegistry, resolution: Resolution) -> None:
    key = desk.key("run-1", APPROVAL)
    assert desk.resolve(key, resolution) == ResolveOutcome.accepted()
    assert desk.wait_blocking(key) == resolution


def test_a_conflict_is_noted_once_and_without_values(desk: WaitRegistry, store: Store) -> None:
    key = desk.key("run-1", APPROVAL)
    desk.resolve(key, Resolution.ok("first"))
    desk.resolve(key, Resolution.ok("first"))
    assert operations(store) == []
    for value in ("second", "third"):
        desk.resolve(key, Resolution.ok(value))
    ((operation, detail),) = operations(store)
    assert operation == "conflicting_resolution"
    assert detail == {
        "run": "run-1",
        "kind": "named",
        "name": "approval",
        "ordinal": 1,
        "resolution": "ok",
        "terminal": "ok",
    }


def test_a_late_resolution_goes_to_the_operations_journal(desk: WaitRegistry, store: Store) -> None:
    key = desk.key("run-1", APPROVAL)
    with Journal.open(store, "run-1") as journal:
        journal.append(Completed())
    expected = ResolveOutcome.already_resolved(Resolution.cancelled(RUN_ENDED))
    assert desk.resolve(key, YES) == expected
    assert desk.resolve(key, YES) == expected
    assert [name for name, _ in operations(store)] == ["late_resolution"]
    assert verify_run(store, "run-1").valid
    assert [event.kind for event in journal.scan()] == ["Completed"]


def test_a_removed_run_has_no_waits(desk: WaitRegistry, store: Store) -> None:
    key = desk.key("run-1", APPROVAL)
    with Journal.open(store, "run-1") as journal:
        journal.append(Completed())
    retire_run(store, "run-1", reason="test")
    assert desk.resolve(key, YES) == UNKNOWN


@any_store
def test_peek_looks_and_does_not_wait(desk: WaitRegistry) -> None:
    key = desk.key("run-1", APPROVAL)
    assert desk.peek(key) is None
    desk.resolve(key, YES)
    assert desk.peek(key) == YES
    with pytest.raises(UnknownOrRevoked):
        desk.peek("rwk1.x.y")


# --- cancel and time-out ---


def test_cancel_and_timeout_are_terminal(desk: WaitRegistry, cold_desk: Callable[[], WaitRegistry]) -> None:
    cancelled, timed_out = (desk.key("run-1", WaitIdentity.tool_completion(name)) for name in ("a", "b"))
    assert desk.wait_blocking(cancelled, cancel=set_event()) == Resolution.cancelled()
    assert desk.wait_blocking(timed_out, deadline=time.time()) == Resolution.timeout()
    for key, terminal in ((cancelled, Resolution.cancelled()), (timed_out, Resolution.timeout())):
        late = cold_desk().resolve(key.text, Resolution.ok("late"))
        assert late == ResolveOutcome.already_resolved(terminal)
        assert cold_desk().wait_blocking(key) == terminal


@any_store
def test_what_is_there_counts_before_cancel_and_deadline(desk: WaitRegistry) -> None:
    key = desk.key("run-1", APPROVAL)
    desk.resolve(key, YES)
    assert desk.wait_blocking(key, cancel=set_event(), deadline=0.0) == YES


@any_store
def test_a_deadline_is_a_time_of_day(store: Store, ring: KeyRing) -> None:
    clock = TurnedClock()
    desk = WaitRegistry(store, keyring=ring, sources=clock)
    key = desk.key("run-1", APPROVAL)
    deadline = clock.now / 1e6 + 86_400
    waited: list[Resolution] = []
    cancel = threading.Event()
    thread = threading.Thread(target=lambda: waited.append(desk.wait_blocking(key, deadline=deadline, cancel=cancel)))
    thread.start()
    clock.now += 86_400_000_000
    desk._notifier.wake(desk._ledger.address("run-1", APPROVAL.id))
    thread.join(20)
    assert waited == [Resolution.timeout()]


@any_store
def test_two_waiters_get_one_answer(desk: WaitRegistry) -> None:
    """One gives up at its deadline; the other learns that the wait is over."""
    key = desk.key("run-1", APPROVAL)
    waited: list[Resolution] = []
    thread = threading.Thread(target=lambda: waited.append(desk.wait_blocking(key)))
    thread.start()
    assert desk.wait_blocking(key, deadline=time.time() + 0.05) == Resolution.timeout()
    thread.join(20)
    assert waited == [Resolution.timeout()]


# --- sessions ---


def test_a_revoked_session_stays_revoked(desk: WaitRegistry, cold_desk: Callable[[], WaitRegistry]) -> None:
    before = desk.key("run-1", APPROVAL, session=SESSION)
    desk.revoke_session(SESSION)
    after = desk.key("run-2", APPROVAL, session=SESSION)
    for key in (before, after):
        for other in (desk, cold_desk()):
            assert other.resolve(key, YES) == UNKNOWN
            with pytest.raises(UnknownOrRevoked) as caught:
                other.wait_blocking(key)
            assert caught.value.code == "await_event_unknown_or_revoked"


def test_revoking_is_on_record_once_and_touches_nobody_else(desk: WaitRegistry, store: Store) -> None:
    other = desk.key("run-1", APPROVAL, session="session-2")
    none = desk.key("run-2", APPROVAL)
    for _ in range(3):
        desk.revoke_session(SESSION)
    assert operations(store) == [("session_revoked", {"session": SESSION})]
    assert desk.resolve(other, YES) == ResolveOutcome.accepted()
    assert desk.resolve(none, YES) == ResolveOutcome.accepted()


@any_store
def test_revoking_a_resolved_wait_hides_it(desk: WaitRegistry) -> None:
    key = desk.key("run-1", APPROVAL, session=SESSION)
    desk.resolve(key, YES)
    desk.revoke_session(SESSION)
    assert desk.resolve(key, YES) == UNKNOWN


def test_what_was_said_of_a_session_survives_erasure(desk: WaitRegistry, store: Store) -> None:
    """Also of the session's name: the row holds a digest of it."""
    key = desk.key("run-1", APPROVAL, session="correct horse battery")
    desk.cancel_session("correct horse battery")
    erase_value(store, "correct horse battery", reason="asked for")
    assert desk._ledger.count_cancellations("correct horse battery") == 1
    assert desk.resolve(key, YES) == UNKNOWN, "the wait went with the inbox that named its session"


def test_a_cancelled_session_goes_on(desk: WaitRegistry, cold_desk: Callable[[], WaitRegistry]) -> None:
    resolved, open_wait = (desk.key("run-1", WaitIdentity.named(name), session=SESSION) for name in ("a", "b"))
    other = desk.key("run-1", WaitIdentity.named("c"), session="session-2")
    desk.resolve(resolved, YES)
    for round_number in range(3):
        desk.cancel_session(SESSION)
        assert cold_desk().resolve(open_wait, YES).terminal == Resolution.cancelled("session_cancelled")
        assert desk.peek(resolved) == YES
        assert desk.peek(other) is None
        open_wait = desk.key("run-1", WaitIdentity.named("next", round_number + 1), session=SESSION)
        assert desk.peek(open_wait) is None
    assert desk.resolve(open_wait, YES) == ResolveOutcome.accepted()


def test_more_cancellations_than_are_looked_for_at_once(desk: WaitRegistry) -> None:
    for _ in range(40):
        desk.cancel_session(SESSION)
    key = desk.key("run-1", APPROVAL, session=SESSION)
    assert desk.peek(key) is None
    desk.cancel_session(SESSION)
    assert desk.peek(key) == Resolution.cancelled("session_cancelled")


# --- tampering ---


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("namespace", "other"),
        ("run", "run-2"),
        ("session", None),
        ("session", "session-2"),
        ("kind", "named"),
        ("name", "call-2"),
        ("ordinal", 2),
        ("key_id", "k0000000000000000"),
        ("signature", ""),
        ("version", 2),
    ],
)
@any_store
def test_tampering_with_any_field(desk: WaitRegistry, field: str, value: Any) -> None:
    """Though everything that the changed field points at exists: the wait of the other run, name, session, ordinal."""
    call = WaitIdentity.tool_completion
    key = desk.key("run-1", call("call-1"), session=SESSION)
    for run, identity, session in [
        ("run-2", call("call-1"), SESSION),
        ("run-1", call("call-2"), SESSION),
        ("run-1", call("call-1", 2), SESSION),
        ("run-1", WaitIdentity.named("call-1"), SESSION),
    ]:
        desk.key(run, identity, session=session)
    tampered = msgspec.structs.replace(key, **{field: value})
    assert desk.resolve(tampered, YES) == UNKNOWN
    with pytest.raises(UnknownOrRevoked) as caught:
        desk.wait_blocking(tampered)
    assert caught.value.code == "await_event_unknown_or_revoked"
    assert desk.peek(key) is None


@any_store
def test_a_tampered_signature(desk: WaitRegistry) -> None:
    key = desk.key("run-1", APPROVAL)
    for signature in (key.signature + "-tampered", key.signature[::-1], "é", key.signature.swapcase()):
        assert desk.resolve(msgspec.structs.replace(key, signature=signature), YES) == UNKNOWN


def test_a_key_of_another_namespace(desk: WaitRegistry, store: Store, ring: KeyRing) -> None:
    other = WaitRegistry(store, "other", keyring=ring)
    key = other.key("run-1", APPROVAL)
    desk.key("run-1", APPROVAL)
    assert desk.resolve(key, YES) == UNKNOWN
    assert other.resolve(key, YES) == ResolveOutcome.accepted()


@any_store
def test_a_well_signed_key_of_a_wait_that_was_never_made(desk: WaitRegistry, ring: KeyRing) -> None:
    desk.key("run-1", APPROVAL)
    forged = ring.sign(WaitKey("default", "run-1", None, "named", "other", 1, ring.current_id()))
    assert desk.resolve(forged, YES) == UNKNOWN


# --- secrets ---


@any_store
def test_rotation_with_overlap(desk: WaitRegistry, ring: KeyRing, cold_desk: Callable[[], WaitRegistry]) -> None:
    old = desk.key("run-1", APPROVAL)
    ring.rotate(overlap_seconds=0)
    new = cold_desk().key("run-1", WaitIdentity.named("other"))
    assert new.key_id != old.key_id
    assert cold_desk().key("run-1", APPROVAL) == old, "the secret is pinned with the wait"
    assert desk.resolve(old, YES) == ResolveOutcome.accepted()
    ring.retire(old.key_id)
    assert cold_desk().resolve(old, YES) == UNKNOWN
    assert cold_desk().resolve(new, YES) == ResolveOutcome.accepted()


def test_a_lost_secret_is_named_and_the_wait_issued_again(
    desk: WaitRegistry, store: Store, key_file: Any, cold_desk: Callable[[], WaitRegistry]
) -> None:
    old = desk.key("run-1", APPROVAL, session=SESSION)
    key_file.unlink()
    with pytest.raises(KeysUnavailable) as caught:
        desk.key("run-1", APPROVAL, session=SESSION)
    assert caught.value.code == "wait_secret_missing"
    assert "reissue" in caught.value.hint
    assert desk.resolve(old, YES) == UNKNOWN
    new = desk.reissue("run-1", APPROVAL)
    assert new.key_id != old.key_id
    assert cold_desk().key("run-1", APPROVAL, session=SESSION) == new
    assert [name for name, _ in operations(store)] == ["wait_reissued"]
    assert desk.resolve(old, YES) == UNKNOWN
    assert desk.resolve(new, YES) == ResolveOutcome.accepted()


@any_store
def test_issuing_again_what_is_not_lost_changes_nothing(desk: WaitRegistry) -> None:
    key = desk.key("run-1", APPROVAL)
    assert desk.reissue("run-1", APPROVAL) == key
    with pytest.raises(NotFound):
        desk.reissue("run-1", WaitIdentity.named("never made"))


def test_secrets_are_not_in_the_store(desk: WaitRegistry, store: Store, ring: KeyRing) -> None:
    key = desk.key("run-1", APPROVAL, session=SESSION)
    desk.resolve(key, YES)
    desk.revoke_session(SESSION)
    ring.rotate(store=store)
    written = b"".join(
        row.payload + row.key.encode() for run in ("run-1", "operations") for row in store.inbox("default", run)
    )
    assert key.signature.encode() not in written
    secrets = ring._load().secrets
    assert len(secrets) == 2
    for secret in secrets.values():
        assert secret not in written
        assert secret.hex().encode() not in written


# --- first of several, signals ---


def test_first_of_several(desk: WaitRegistry, cold_desk: Callable[[], WaitRegistry]) -> None:
    keys = [desk.key("run-1", WaitIdentity.named(name)) for name in ("a", "b", "c")]
    desk.resolve(keys[2], Resolution.ok("third"))
    desk.resolve(keys[1], Resolution.ok("second"))
    first = desk.wait_first_blocking(keys)
    assert (first.winner, first.resolution) == (keys[2], Resolution.ok("third"))
    lost = Resolution.lost(keys[2].wait_id)
    assert first.losers == ((keys[0], lost), (keys[1], Resolution.ok("second")))
    assert desk.resolve(keys[0], YES) == ResolveOutcome.already_resolved(lost)
    assert cold_desk().wait_first_blocking([key.text for key in keys]) == first


@pytest.mark.parametrize("first", [0, 1])
@any_store
def test_the_winner_is_written_before_the_losers(
    desk: WaitRegistry, monkeypatch: pytest.MonkeyPatch, first: int
) -> None:
    """A process that dies in between is followed by one that finds the same winner."""
    keys = [desk.key("run-1", WaitIdentity.named(name)) for name in ("a", "b")]
    winner, loser = keys[first], keys[1 - first]
    desk.resolve(winner, YES)
    original = desk._ledger.end

    def die(*_: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(desk._ledger, "end", die)
    with pytest.raises(KeyboardInterrupt):
        desk.wait_first_blocking(keys)
    monkeypatch.setattr(desk._ledger, "end", original)
    desk.resolve(loser, Resolution.ok("late"))
    found = desk.wait_first_blocking(keys)
    assert (found.winner, found.losers) == (winner, ((loser, Resolution.ok("late")),))


@pytest.mark.parametrize("first", [0, 1, 2])
@any_store
def test_the_first_is_the_one_that_was_resolved_first(desk: WaitRegistry, first: int) -> None:
    keys = [desk.key("run-1", WaitIdentity.named(name)) for name in ("a", "b", "c")]
    for number in (0, 1, 2):
        desk.resolve(keys[(first + number) % 3], Resolution.ok(number))
    assert desk.wait_first_blocking(keys).winner == keys[first]


@any_store
def test_first_of_several_with_a_deadline(desk: WaitRegistry) -> None:
    keys = [desk.key("run-1", WaitIdentity.named(name)) for name in ("a", "b")]
    first = desk.wait_first_blocking(keys, deadline=0.0)
    assert first.resolution == Resolution.timeout()
    assert [desk.peek(key) for key in keys] == [Resolution.timeout()] * 2


@any_store
def test_first_of_several_needs_waits_of_one_run(desk: WaitRegistry) -> None:
    one, other = desk.key("run-1", APPROVAL), desk.key("run-2", APPROVAL)
    for keys in ([], [one, other], [one, one]):
        with pytest.raises(InvalidInput):
            desk.wait_first_blocking(keys)


def test_signals_have_ordinals(desk: WaitRegistry, cold_desk: Callable[[], WaitRegistry]) -> None:
    desk.key("run-1", APPROVAL)
    third = desk.key("run-1", WaitIdentity.process_signal("tick", 3))
    assert [desk.signal("run-1", "tick", value) for value in ("a", "b")] == [1, 2]
    assert cold_desk().signal("run-1", "tick", "c") == 3
    assert desk.signal("run-1", "tock", "x") == 1
    assert desk.wait_blocking(third) == Resolution.ok("c")
    for ordinal, value in ((1, "a"), (2, "b")):
        assert desk.wait_blocking(desk.key("run-1", WaitIdentity.process_signal("tick", ordinal))) == Resolution.ok(
            value
        )
    assert [desk.signal("run-1", "tick", n) for n in range(40)][-1] == 43
    assert cold_desk().signal("run-1", "tick") == 44


@any_store
def test_a_late_signal(desk: WaitRegistry, store: Store) -> None:
    with Journal.create(store, "run-1") as journal:
        journal.append(Completed())
    with pytest.raises(ClosedRun):
        desk.signal("run-1", "tick")
    assert [name for name, _ in operations(store)] == ["late_signal"]
    with pytest.raises(NotFound):
        desk.signal("unknown", "tick")


def test_asyncio_tasks_wait_too(desk: WaitRegistry) -> None:
    async def scene() -> None:
        keys = [desk.key("run-1", WaitIdentity.named("a", number)) for number in range(1, 8)]
        stop = asyncio.Event()
        waits = [
            asyncio.create_task(desk.wait(keys[0])),
            asyncio.create_task(desk.wait(keys[1], cancel=stop)),
            asyncio.create_task(desk.wait(keys[2], deadline=time.time() + 0.1)),
            asyncio.create_task(desk.wait_first(keys[3:5])),
        ]
        await asyncio.sleep(0.05)
        desk.resolve(keys[0], YES)
        desk.resolve(keys[4], YES)
        stop.set()
        first = await waits[3]
        assert [await wait for wait in waits[:3]] == [YES, Resolution.cancelled(), Resolution.timeout()]
        assert (first.winner, first.losers[0][1].status) == (keys[4], "lost")
        suspended = asyncio.create_task(desk.wait(keys[5]))
        await asyncio.sleep(0.05)
        suspended.cancel()
        with pytest.raises(asyncio.CancelledError):
            await suspended
        assert desk.peek(keys[5]) is None, "a task that is cancelled only stops waiting"
        revoked = desk.key("run-1", WaitIdentity.named("b"), session=SESSION)
        waiting = asyncio.create_task(desk.wait(revoked))
        await asyncio.sleep(0.05)
        desk.revoke_session(SESSION)
        with pytest.raises(UnknownOrRevoked):
            await waiting
        assert desk._notifier.count_waiters() == 0

    asyncio.run(scene())
