"""Processes killed between request, effect, outcome and acknowledgement, for every kind of effect, on real stores.

Whether an effect was carried out is told by a ledger outside: a file that each effect appends a line to.
"""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from kit.effect_commands import COMMAND_EXAMPLES
from kit.host_subjects import url_maker
from kit.soak import SOAK
from onrecord.core.wait_keys import Resolution, WaitIdentity
from onrecord.hosts.contract import LocalExecutor
from onrecord.hosts.envelopes import (
    AwaitEvent,
    RuntimeEffectCommand,
    RuntimeEffectEnvelope,
    RuntimeEffectOutcome,
    Sleep,
)
from onrecord.hosts.journal_backed import JournalEffectHost
from onrecord.hosts.outcomes import IN_DOUBT
from onrecord.hosts.scopes import run_id
from onrecord.journal.verify import verify_run
from onrecord.runtime.secrets.keys import KeyRing
from onrecord.store.contract import Store
from onrecord.store.factory import open_store
from onrecord.testing.effect_conformance import SCOPE, code_of, envelope_of
from onrecord.testing.store_contract import in_child

POINTS = ["before_request", "before_effect", "after_effect", "after_outcome"]
COMMANDS = [
    *(command for command in COMMAND_EXAMPLES if not isinstance(command, Sleep | AwaitEvent)),
    Sleep(seconds=0.02),
    AwaitEvent(wait="named", name="approval"),
]


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class Scene:
    def __init__(self, url: str, folder: Path, command: RuntimeEffectCommand) -> None:
        self.url, self.ledger = url, folder / "ledger"
        self.ledger.touch()
        self.keys = folder / "keys.json"
        self.envelope = envelope_of(command, "effect")
        self.stores: list[Store] = []

    def opened(self) -> Store:
        self.stores.append(open_store(self.url))
        return self.stores[-1]

    def close(self) -> None:
        for store in self.stores:
            store.close()

    @property
    def carried_out(self) -> int:
        return len(self.ledger.read_text().splitlines())

    def host(self, point: str) -> JournalEffectHost:
        async def nap(seconds: float) -> None:
            self.effect(point)

        host = JournalEffectHost(self.opened(), keyring=KeyRing(self.keys), sleep=nap)
        if isinstance(self.envelope.command, AwaitEvent):
            self.resolve(host)
            waiting = host.desk.wait

            async def wait(*arguments: Any, **more: Any) -> Resolution:
                resolution = await waiting(*arguments, **more)
                self.effect(point)
                return resolution

            host.desk.wait = wait  # type: ignore[method-assign]
        return host

    def resolve(self, host: JournalEffectHost) -> None:
        async def resolve() -> None:
            key = await host.await_event_key(SCOPE, WaitIdentity.named("approval"))
            await host.resolve_await_event(key, Resolution.ok("approved"))

        asyncio.run(resolve())

    def effect(self, point: str) -> None:
        if point == "before_effect":
            die()
        with self.ledger.open("a") as ledger:
            ledger.write("done\n")
        if point == "after_effect":
            die()

    def execute(self, point: str) -> RuntimeEffectOutcome:
        async def carry_out(envelope: RuntimeEffectEnvelope) -> RuntimeEffectOutcome:
            self.effect(point)
            return RuntimeEffectOutcome(envelope.kind, "value")

        async def work() -> RuntimeEffectOutcome:
            host = self.host_ready
            async with asyncio.timeout(20):
                return await host.scoped(SCOPE).execute_effect(self.envelope, LocalExecutor.testing(carry_out))

        self.host_ready = self.host(point)
        if point == "before_request":
            die()
        outcome = asyncio.run(work())
        if point == "after_outcome":
            die()
        return outcome

    def code(self) -> str:
        async def work() -> str:
            unused = LocalExecutor.testing(lambda _: pytest.fail("an unknown effect was repeated"))
            return await code_of(self.host("").scoped(SCOPE).execute_effect(self.envelope, unused))

        return asyncio.run(work())


CASES = [
    (command, point, kind)
    for row, command in enumerate(COMMANDS)
    for column, point in enumerate(POINTS)
    for kind in ("sqlite", "postgres")
    if SOAK or ((row + column) % 2 == 0 if kind == "sqlite" else column == row % 4)
]


@pytest.mark.parametrize(("command", "point", "kind"), CASES, ids=lambda case: getattr(case, "kind", case))
def test_killed(
    command: RuntimeEffectCommand, point: str, kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    scene = Scene(url_maker(kind, tmp_path, request)(), tmp_path, command)
    scene.opened()
    scene.close()
    assert in_child(lambda: scene.execute(point)) == -signal.SIGKILL
    before = scene.carried_out
    assert before == (1 if point in ("after_effect", "after_outcome") else 0)
    in_doubt = point in ("before_effect", "after_effect") and not command.may_repeat
    if in_doubt:
        assert scene.code() == IN_DOUBT
        assert scene.carried_out == before, "an unknown effect is not repeated"
    else:
        first = scene.execute("")
        again = scene.execute("")
        assert first == again
        assert scene.carried_out == before + (0 if point == "after_outcome" else 1)
    report = verify_run(scene.opened(), run_id("default", SCOPE))
    scene.close()
    assert report.valid
    assert report.orphans == ([1] if in_doubt else [])
