"""Leases and the inbox of a run."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

import pytest

from onrecord.errors import NotFound, StaleEpoch
from onrecord.store.contract import Store
from onrecord.testing.store_contract.builders import NS, Writer, at_once, header_row
from onrecord.testing.store_contract.hooks import StoreHooks


class LeasesAndInbox(StoreHooks):
    # Leases

    def test_first_claim_is_epoch_one(self, store: Store, writer: Writer) -> None:
        claim = store.claim(NS, "run-1", "me", 60)
        assert (claim.epoch, claim.holder, claim.granted) == (1, "me", True)

    def test_holder_renews_under_its_epoch(self, store: Store, writer: Writer, cold: Callable[[], Store]) -> None:
        store.claim(NS, "run-1", "me", 60)
        claim = cold().claim(NS, "run-1", "me", 60)
        assert (claim.epoch, claim.granted) == (1, True)

    def test_held_run_is_not_given_away(self, store: Store, writer: Writer, cold: Callable[[], Store]) -> None:
        store.claim(NS, "run-1", "me", 60)
        claim = cold().claim(NS, "run-1", "you", 60)
        assert (claim.epoch, claim.holder, claim.granted) == (1, "me", False)

    def test_superseding_takes_only_the_one_named(self, store: Store, writer: Writer) -> None:
        store.claim(NS, "run-1", "me", 60)
        assert not store.claim(NS, "run-1", "you", 60, superseding="somebody").granted
        claim = store.claim(NS, "run-1", "you", 60, superseding="me")
        assert (claim.epoch, claim.holder, claim.granted) == (2, "you", True)

    def test_lease_expires(self, store: Store, writer: Writer) -> None:
        store.claim(NS, "run-1", "me", 0.05)
        time.sleep(0.1)
        claim = store.claim(NS, "run-1", "you", 60)
        assert (claim.epoch, claim.holder, claim.granted) == (2, "you", True)
        writer.epoch = 1
        with pytest.raises(StaleEpoch):
            writer.fill(1)

    def test_renewal_prolongs(self, store: Store, writer: Writer) -> None:
        store.claim(NS, "run-1", "me", 0.05)
        store.claim(NS, "run-1", "me", 60)
        time.sleep(0.1)
        assert not store.claim(NS, "run-1", "you", 60).granted

    def test_release_frees_the_run(self, store: Store, writer: Writer) -> None:
        epoch = store.claim(NS, "run-1", "me", 60).epoch
        store.release(NS, "run-1", epoch)
        claim = store.claim(NS, "run-1", "you", 60)
        assert (claim.epoch, claim.granted) == (2, True)

    def test_release_of_an_old_epoch_does_nothing(self, store: Store, writer: Writer) -> None:
        store.claim(NS, "run-1", "me", 60)
        store.claim(NS, "run-1", "you", 60, superseding="me")
        store.release(NS, "run-1", 1)
        assert not store.claim(NS, "run-1", "me", 60).granted

    def test_release_keeps_the_epoch(self, store: Store, writer: Writer) -> None:
        writer.epoch = store.claim(NS, "run-1", "me", 60).epoch
        store.release(NS, "run-1", writer.epoch)
        writer.fill(1)
        assert store.run_row(NS, "run-1").epoch == 1  # type: ignore[union-attr]

    def test_who_holds_a_run_can_be_seen_without_claiming_it(
        self, store: Store, writer: Writer, cold: Callable[[], Store]
    ) -> None:
        assert store.holder(NS, "run-1") is None
        epoch = store.claim(NS, "run-1", "me", 60).epoch
        assert store.holder(NS, "run-1") == cold().holder(NS, "run-1") == "me"
        assert store.claim(NS, "run-1", "me", 60).epoch == epoch
        store.release(NS, "run-1", epoch)
        assert store.holder(NS, "run-1") is None
        assert store.holder(NS, "unknown") is None
        assert store.holder("elsewhere", "run-1") is None

    def test_a_lease_that_has_ended_has_no_holder(self, store: Store, writer: Writer) -> None:
        store.claim(NS, "run-1", "me", 0.05)
        time.sleep(0.1)
        assert store.holder(NS, "run-1") is None

    def test_unknown_run_cannot_be_claimed(self, store: Store) -> None:
        with pytest.raises(NotFound):
            store.claim(NS, "unknown", "me", 60)

    # Inbox

    def test_inbox_numbers_ascend_in_each_run(self, store: Store, cold: Callable[[], Store]) -> None:
        for run in ("a", "b"):
            store.create_run(NS, header_row(run))
            for number in (1, 2, 3):
                row = store.inbox_put(NS, run, f"key-{number}", bytes([number]), number * 10)
                assert row == (number, f"key-{number}", bytes([number]), number * 10)
        other = cold()
        assert [row.number for row in other.inbox(NS, "b")] == [1, 2, 3]
        assert [row.number for row in other.inbox(NS, "b", after=2)] == [3]
        assert other.inbox(NS, "b", after=3) == []
        assert other.inbox(NS, "unknown") == []

    def test_first_writer_wins(self, store: Store, writer: Writer, cold: Callable[[], Store]) -> None:
        first = store.inbox_put(NS, "run-1", "key", b"first", 1)
        assert cold().inbox_put(NS, "run-1", "key", b"second", 2) == first
        assert store.inbox_put(NS, "run-1", "next", b"", 3).number == 2
        assert [row.payload for row in store.inbox(NS, "run-1")] == [b"first", b""]

    def test_inbox_of_unknown_run_is_refused(self, store: Store) -> None:
        with pytest.raises(NotFound):
            store.inbox_put(NS, "unknown", "key", b"", 1)

    def test_first_writer_wins_among_threads(self, store: Store, writer: Writer) -> None:
        for round_number in range(max(1, self.race_rounds // 10)):
            results = at_once(
                [partial(store.inbox_put, NS, "run-1", f"key-{round_number}", bytes([me]), me) for me in range(4)]
            )
            assert len(set(results)) == 1
        numbers = [row.number for row in store.inbox(NS, "run-1")]
        assert numbers == list(range(1, len(numbers) + 1))
