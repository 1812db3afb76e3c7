"""Every path of a refused key: the same answer after the same work, one HMAC and one look-up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from kit.stores import CountingStore
from onrecord.core import wait_keys
from onrecord.core.events import Completed
from onrecord.core.wait_keys import Resolution, ResolveOutcome, WaitIdentity, WaitKey
from onrecord.errors import UnknownOrRevoked
from onrecord.journal.journal import Journal
from onrecord.journal.retention import retire_run
from onrecord.runtime.secrets.keys import KeyRing
from onrecord.runtime.waits import WaitRegistry
from onrecord.runtime.waits.http_endpoint import NO_SUCH_WAIT, WaitEndpoint, WaitRequest
from onrecord.store.contract import Store

APPROVAL = WaitIdentity.named("approval")
YES = Resolution.ok(True)


class Scene:
    def __init__(self, store: Store, ring: KeyRing) -> None:
        self.real = store
        self.store = CountingStore(store)
        self.ring = ring
        self.desk = WaitRegistry(self.store, keyring=ring)  # type: ignore[arg-type]
        self.good = self.desk.key("run-1", APPROVAL, session="session-1")

    def altered(self, **fields: Any) -> WaitKey:
        return msgspec.structs.replace(self.good, **fields)

    def of_another_namespace(self) -> WaitKey:
        return WaitRegistry(self.real, "other", keyring=self.ring).key("run-1", APPROVAL, session="session-1")

    def revoked(self) -> WaitKey:
        key = self.desk.key("run-2", APPROVAL, session="revoked")
        self.desk.revoke_session("revoked")
        return key

    def minted_after_revocation(self) -> WaitKey:
        self.desk.revoke_session("revoked")
        return self.desk.key("run-2", APPROVAL, session="revoked")

    def resolved_and_revoked(self) -> WaitKey:
        key = self.desk.key("run-2", APPROVAL, session="revoked")
        self.desk.resolve(key, YES)
        self.desk.revoke_session("revoked")
        return key

    def of_a_retired_secret(self) -> WaitKey:
        self.ring.rotate(overlap_seconds=0)
        self.ring.retire(self.good.key_id)
        return self.good

    def of_a_removed_run(self) -> WaitKey:
        with Journal.create(self.real, "gone") as journal:
            key = self.desk.key("gone", APPROVAL)
            journal.append(Completed())
        retire_run(self.real, "gone", reason="test")
        return key

    def never_made(self) -> WaitKey:
        return self.ring.sign(WaitKey("default", "run-1", None, "named", "other", 1, self.ring.current_id()))

    def moved_to_another_session(self) -> WaitKey:
        """Well signed and made, but for another session than the wait belongs to."""
        return self.ring.sign(msgspec.structs.replace(self.good, session="session-2"))

    def under_a_secret_that_did_not_make_it(self) -> WaitKey:
        made = self.ring.rotate()
        return self.ring.sign(msgspec.structs.replace(self.good, key_id=made.id))


CASES: dict[str, Callable[[Scene], WaitKey | str]] = {
    "unknown run": lambda scene: scene.altered(run="run-9"),
    "namespace": lambda scene: scene.altered(namespace="other"),
    "run": lambda scene: scene.altered(run="run-2"),
    "no session": lambda scene: scene.altered(session=None),
    "session": lambda scene: scene.altered(session="session-2"),
    "kind": lambda scene: scene.altered(kind="tool_completion"),
    "name": lambda scene: scene.altered(name="other"),
    "ordinal": lambda scene: scene.altered(ordinal=2),
    "key id": lambda scene: scene.altered(key_id="k0"),
    "signature": lambda scene: scene.altered(signature="A" * 43),
    "no signature": lambda scene: scene.altered(signature=""),
    "long signature": lambda scene: scene.altered(signature=scene.good.signature + "-tampered"),
    "signature beyond ASCII": lambda scene: scene.altered(signature="é" * 43),
    "version": lambda scene: scene.altered(version=2),
    "run that no store takes": lambda scene: scene.altered(run="a\0b"),
    "name that no store takes": lambda scene: scene.altered(name="\ud800"),
    "ordinal that is none": lambda scene: scene.altered(ordinal="1"),
    "text, signature cut": lambda scene: scene.good.text[:-1],
    "text, more behind it": lambda scene: scene.good.text + "x",
    "text, other signature": lambda scene: scene.good.text[:-2] + "AA",
    "text, no key": lambda scene: "nothing like a key",
    "text, empty": lambda scene: "",
    "text, huge": lambda scene: "rwk1." + "A" * 1_000_000,
    "text, not ASCII": lambda scene: "rwk1.é.é",
    "foreign namespace": Scene.of_another_namespace,
    "revoked": Scene.revoked,
    "minted after revocation": Scene.minted_after_revocation,
    "resolved, then revoked": Scene.resolved_and_revoked,
    "retired secret": Scene.of_a_retired_secret,
    "removed run": Scene.of_a_removed_run,
    "never made": Scene.never_made,
    "moved to another session": Scene.moved_to_another_session,
    "signed by another secret": Scene.under_a_secret_that_did_not_make_it,
}


@pytest.fixture
def scene(store: Store, ring: KeyRing) -> Scene:
    return Scene(store, ring)


@pytest.fixture
def hmacs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many were computed."""
    counted = [0]
    original = wait_keys.hmac_sha256

    def counting(secret: bytes, message: bytes) -> bytes:
        counted[0] += 1
        return original(secret, message)

    monkeypatch.setattr(wait_keys, "hmac_sha256", counting)
    return counted


@pytest.mark.parametrize("case", CASES)
def test_one_hmac_and_one_look_up(scene: Scene, hmacs: list[int], case: str) -> None:
    key = CASES[case](scene)
    rows = {run: scene.real.inbox("default", run) for run in ("run-1", "run-2", "operations")}

    def work() -> tuple[int, dict[str, int]]:
        done = hmacs[0], dict(scene.store.calls)
        hmacs[0] = 0
        scene.store.calls.clear()
        return done

    work()
    assert scene.desk.resolve(key, YES) == ResolveOutcome.unknown_or_revoked()
    assert work() == (1, {"inbox_find": 1})
    with pytest.raises(UnknownOrRevoked) as caught:
        scene.desk.peek(key)
    assert work() == (1, {"inbox_find": 1})
    with pytest.raises(UnknownOrRevoked):
        scene.desk.wait_blocking(key)
    hmacs_done, calls = work()
    calls.pop("inbox_since", None)  # of the thread that looks for others' writes; it asks the same for everybody
    assert (hmacs_done, calls) == (1, {"inbox_find": 1})
    assert (caught.value.code, str(caught.value)) == (
        "await_event_unknown_or_revoked",
        "this wait key is not known or was revoked",
    )
    if isinstance(key, str):
        path = "/waits/" + key if key else "/waits/"
        answer = WaitEndpoint(scene.desk).answer(WaitRequest("POST", path, ()), b'{"value": true}')
        assert answer == NO_SUCH_WAIT
        assert work() == (1, {"inbox_find": 1})
    assert {run: scene.real.inbox("default", run) for run in rows} == rows, "a refused key writes nothing"


def test_a_good_key_is_not_refused(scene: Scene) -> None:
    """The negative control of the above."""
    assert scene.desk.resolve(scene.good.text, YES) == ResolveOutcome.accepted()
