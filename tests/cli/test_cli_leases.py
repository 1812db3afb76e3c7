"""Whether somebody holds a run, looked at in every kind of store that outlives a process."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from onrecord.journal.journal import Journal
from onrecord.journal.sources import SystemSources
from onrecord.reports.status import is_held, standing_of
from onrecord.store.contract import Store
from onrecord.store.factory import open_store


@pytest.fixture(params=["sqlite", "postgres"])
def kept(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    url = str(tmp_path / "s.db") if request.param == "sqlite" else request.getfixturevalue("database_url")
    store = open_store(url)
    yield store
    store.close()


class Somebody(SystemSources):
    def __init__(self, holder: str) -> None:
        self._holder = holder

    def holder(self) -> str:
        return self._holder


def status(store: Store, run: str) -> str:
    row = store.run_row("default", run)
    assert row is not None
    return standing_of(store, "default", row).status


def test_held_until_released(kept: Store) -> None:
    journal = Journal.create(kept, "one")
    assert is_held(kept, "default", "one")
    assert status(kept, "one") == "running"
    epoch = kept.run_row("default", "one")
    journal.release()
    assert not is_held(kept, "default", "one")
    assert status(kept, "one") == "interrupted"
    assert kept.run_row("default", "one") == epoch, "looking claims nothing"


def test_an_expired_lease_holds_nothing(kept: Store) -> None:
    Journal.create(kept, "one", lease_seconds=0.01)
    time.sleep(0.02)
    assert not is_held(kept, "default", "one")


@pytest.mark.parametrize("instance", ["", "/an-instance"])
def test_a_dead_holder_of_this_machine_holds_nothing(kept: Store, instance: str) -> None:
    here = SystemSources().holder().split("/")
    while os.path.exists(f"/proc/{here[3]}"):
        here[3] = str(int(here[3]) + 7919)
    Journal.create(kept, "one", sources=Somebody("/".join(here) + instance))
    assert not is_held(kept, "default", "one")


def test_a_holder_of_another_machine_is_believed(kept: Store) -> None:
    Journal.create(kept, "one", sources=Somebody("boot/elsewhere/pid:[1]/1/1"))
    assert is_held(kept, "default", "one")


def test_an_unknown_run_is_held_by_nobody(kept: Store, memory: Store) -> None:
    assert not is_held(kept, "default", "missing")
    assert not is_held(memory, "default", "missing")
