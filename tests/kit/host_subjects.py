"""The hosts of this project as subjects of the conformance suite."""

from __future__ import annotations

import asyncio
import itertools
import tempfile
from collections.abc import Awaitable, Iterator
from pathlib import Path
from typing import Any

import pytest

from onrecord.hosts.contract import EffectHost, Settlement
from onrecord.hosts.decision import Busy
from onrecord.hosts.envelopes import RuntimeEffectEnvelope
from onrecord.hosts.journal_backed import JournalEffectHost
from onrecord.hosts.scopes import ExecutionScope, run_id
from onrecord.journal.reader import JournalReader
from onrecord.runtime.secrets.keys import KeyRing
from onrecord.store.contract import Store
from onrecord.store.factory import open_store
from onrecord.testing.effect_conformance import SCOPE, Calls, EffectHostSubject, code_of


class JournalHostSubject(EffectHostSubject):
    """Over stores made by `new_url`; instances over the same data are instances over another handle of the store."""

    def __init__(self, folder: Path, new_url: Any) -> None:
        self.folder = folder
        self.new_url = new_url
        self.stores: list[Store] = []
        self.keyring = KeyRing(folder / "keys.json")

    def host(self, store: Store, **options: Any) -> JournalEffectHost:
        return JournalEffectHost(store, keyring=self.keyring, **options)

    def make_host(self) -> EffectHost:
        return self.host(self.opened(self.new_url()))

    def opened(self, url: str) -> Store:
        store = open_store(url)
        self.stores.append(store)
        return store

    def another(self, host: EffectHost) -> Store:
        """The same data through another handle; a memory store has but one."""
        assert isinstance(host, JournalEffectHost)
        return host.store if host.store.url.startswith("memory:") else self.opened(host.store.private_url)

    def reopen(self, host: EffectHost) -> EffectHost:
        give_up_leases(host)
        return self.host(self.another(host))

    def rival(self, host: EffectHost, *, waits: bool) -> EffectHost:
        return self.host(self.another(host), busy=Busy.WAIT if waits else Busy.YIELD)

    def strict(self, host: EffectHost) -> EffectHost:
        return self.host(self.another(host), strict=True)

    def expire_lease(self, host: EffectHost, scope: ExecutionScope) -> None:
        assert isinstance(host, JournalEffectHost)
        give_up_lease(host.store, run_id(host.namespace, scope))

    def settle(self, host: EffectHost, scope: ExecutionScope, replay_key: str, settlement: Settlement) -> None:
        assert isinstance(host, JournalEffectHost)
        host.settle(scope, replay_key, settlement)

    def close(self) -> None:
        for store in self.stores:
            store.close()


def give_up_lease(store: Store, run: str) -> None:
    """As when it expires: the holder does not notice, and the next one gets the next epoch."""
    row = store.run_row("default", run)
    if row is not None:
        store.release("default", run, row.epoch)


def give_up_leases(host: EffectHost) -> None:
    assert isinstance(host, JournalEffectHost)
    for row in host.store.list_runs("default"):
        give_up_lease(host.store, row.header.run)


_numbers = itertools.count()


def url_maker(kind: str, folder: Path, request: pytest.FixtureRequest) -> Any:
    if kind == "memory":
        return lambda: "memory://"
    if kind == "sqlite":
        return lambda: str(folder / f"store-{next(_numbers)}.db")
    server = request.getfixturevalue("postgres_server")
    return lambda: server.url(server.fresh_database())


def subject_over(kind: str, request: pytest.FixtureRequest) -> Iterator[JournalHostSubject]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        subject = JournalHostSubject(folder, url_maker(kind, folder, request))
        yield subject
        subject.close()


RUN = run_id("default", SCOPE)


def run(work: Awaitable[None]) -> None:
    """A scene, with a guard against hanging."""

    async def guarded() -> None:
        async with asyncio.timeout(30):
            await work

    asyncio.run(guarded())


def journal_of(host: JournalEffectHost) -> list[Any]:
    return list(JournalReader(host.store, RUN).scan())


async def ends_with(host: JournalEffectHost, envelope: RuntimeEffectEnvelope, calls: Calls, code: str) -> None:
    assert await code_of(host.scoped(SCOPE).execute_effect(envelope, calls.forbidden())) == code
