"""What the author of a host says about it, so that it can be tried."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from enum import Enum
from typing import NamedTuple

from reenact.core.scopes import ExecutionScope
from reenact.effect.hosts.contract import EffectHost, Settlement

TIMEOUT_SECONDS = 30.0


class Claim(Enum):
    """What a host claims of itself. Every host claims scopes; the rest is tried where it is claimed."""

    SCOPES = "takes scopes"
    AWAIT_EVENTS = "waits for events"
    DURABLE = "records outcomes and serves them"
    ORDERED = "hands outcomes over one at a time, in recorded order"
    SECOND_INSTANCE = "another instance can be made over the same data"
    LEASES = "several instances may work on the same scopes"
    STRICT = "can be told to serve the record alone"
    SETTLING = "takes an operator's word on an effect in doubt"


class EffectHostSubject:
    """To be subclassed: say how to make a host, and what there is beyond that."""

    claims: frozenset[Claim] = frozenset(Claim)

    def make_host(self) -> EffectHost:
        """A host over data of its own: nothing is recorded in it."""
        raise NotImplementedError("say how to make a host")

    def reopen(self, host: EffectHost) -> EffectHost:
        """Another instance over the same data, nothing in its caches. `host` is not used any more and has let go of its
        scopes: that process ended in good order."""
        raise NotImplementedError("say how to make a second instance")

    def after_crash(self, host: EffectHost) -> EffectHost:
        """Another instance over the same data, when the process of `host` is dead and known to be: whatever lease it
        held has expired."""
        return self.reopen(host)

    def rival(self, host: EffectHost, *, waits: bool) -> EffectHost:
        """Another worker beside a living `host`; while somebody else holds a scope it waits, or yields."""
        raise NotImplementedError("say how to make a rival")

    def expire_lease(self, host: EffectHost, scope: ExecutionScope) -> None:
        """Lets the lease that `host` holds on the scope end. `host` does not notice: it was stopped meanwhile."""
        raise NotImplementedError("say how a lease is made to expire")

    def strict(self, host: EffectHost) -> EffectHost:
        """Another instance over the same data that serves what is recorded and carries out nothing."""
        raise NotImplementedError("say how to make a strict instance")

    def settle(self, host: EffectHost, scope: ExecutionScope, replay_key: str, settlement: Settlement) -> None:
        raise NotImplementedError("say how an effect in doubt is settled")


class Case(NamedTuple):
    name: str
    needs: frozenset[Claim]
    run: Callable[[EffectHostSubject], Awaitable[None]]


CASES: dict[str, Case] = {}


def case(
    *needs: Claim,
) -> Callable[[Callable[[EffectHostSubject], Awaitable[None]]], Callable[[EffectHostSubject], Awaitable[None]]]:
    """Makes a function of the subject a case of the suite, under its own name."""

    def register(run: Callable[[EffectHostSubject], Awaitable[None]]) -> Callable[[EffectHostSubject], Awaitable[None]]:
        add_case(run.__name__, needs, run)
        return run

    return register


def host_case(
    *needs: Claim,
) -> Callable[[Callable[[EffectHost], Awaitable[None]]], Callable[[EffectHost], Awaitable[None]]]:
    """The same for a function of a fresh host."""

    def register(run: Callable[[EffectHost], Awaitable[None]]) -> Callable[[EffectHost], Awaitable[None]]:
        add_case(run.__name__, needs, lambda subject: run(subject.make_host()))
        return run

    return register


def add_case(name: str, needs: tuple[Claim, ...], run: Callable[[EffectHostSubject], Awaitable[None]]) -> None:
    """A case under a name of its own."""
    assert name not in CASES
    CASES[name] = Case(name, frozenset(needs), run)
