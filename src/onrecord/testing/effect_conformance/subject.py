"""The hooks with which the author of a host describes it to the suite."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from enum import Enum
from typing import NamedTuple

from onrecord.hosts.contract import EffectHost, Settlement
from onrecord.hosts.scopes import ExecutionScope

TIMEOUT_SECONDS = 30.0


class HostClaim(Enum):
    """A claim of a host. Every host claims scopes; the other claims are tested if made."""

    SCOPES = "takes scopes"
    AWAIT_EVENTS = "waits for events"
    DURABLE = "records outcomes and serves them"
    ORDERED = "delivers outcomes one at a time, in recorded order"
    SECOND_INSTANCE = "allows another instance over the same data"
    LEASES = "several instances may work on the same scopes"
    STRICT = "can serve only the record"
    SETTLING = "accepts an operator's decision on an effect in doubt"


class EffectHostSubject:
    """Base class: override the hooks that make a host and test its claims."""

    claims: frozenset[HostClaim] = frozenset(HostClaim)

    def make_host(self) -> EffectHost:
        """Return a host over its own data, with nothing recorded."""
        raise NotImplementedError("override make_host")

    def reopen(self, host: EffectHost) -> EffectHost:
        """Return another instance over the same data, with empty caches.

        `host` is not used any more and has released its scopes: its process ended normally.
        """
        raise NotImplementedError("override reopen")

    def after_crash(self, host: EffectHost) -> EffectHost:
        """Return another instance over the same data after the process of `host` died. Its leases have expired."""
        return self.reopen(host)

    def rival(self, host: EffectHost, *, waits: bool) -> EffectHost:
        """Return another worker beside a living `host`. While a scope is held, it waits or yields."""
        raise NotImplementedError("override rival")

    def expire_lease(self, host: EffectHost, scope: ExecutionScope) -> None:
        """Expire the lease of `host` on the scope. `host` does not notice, as if it was stopped meanwhile."""
        raise NotImplementedError("override expire_lease")

    def strict(self, host: EffectHost) -> EffectHost:
        """Return another instance over the same data that serves the record and executes nothing."""
        raise NotImplementedError("override strict")

    def settle(self, host: EffectHost, scope: ExecutionScope, replay_key: str, settlement: Settlement) -> None:
        raise NotImplementedError("override settle")


class Case(NamedTuple):
    name: str
    needs: frozenset[HostClaim]
    run: Callable[[EffectHostSubject], Awaitable[None]]


CASES: dict[str, Case] = {}


def case(
    *needs: HostClaim,
) -> Callable[[Callable[[EffectHostSubject], Awaitable[None]]], Callable[[EffectHostSubject], Awaitable[None]]]:
    """Register a function of the subject as a case of the suite, under its own name."""

    def register(run: Callable[[EffectHostSubject], Awaitable[None]]) -> Callable[[EffectHostSubject], Awaitable[None]]:
        add_case(run.__name__, needs, run)
        return run

    return register


def host_case(
    *needs: HostClaim,
) -> Callable[[Callable[[EffectHost], Awaitable[None]]], Callable[[EffectHost], Awaitable[None]]]:
    """Register a function of a new host as a case of the suite, under its own name."""

    def register(run: Callable[[EffectHost], Awaitable[None]]) -> Callable[[EffectHost], Awaitable[None]]:
        add_case(run.__name__, needs, lambda subject: run(subject.make_host()))
        return run

    return register


def add_case(name: str, needs: tuple[HostClaim, ...], run: Callable[[EffectHostSubject], Awaitable[None]]) -> None:
    """Register a case under the given name."""
    assert name not in CASES
    CASES[name] = Case(name, frozenset(needs), run)
