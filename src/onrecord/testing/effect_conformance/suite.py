"""The suite as a pytest class, and as a function for use without pytest."""

from __future__ import annotations

import asyncio

import pytest

# Imported to register their cases.
from onrecord.testing.effect_conformance import await_events, concurrency, durable_steps, leases, records, scopes
from onrecord.testing.effect_conformance.builders import Died
from onrecord.testing.effect_conformance.subject import CASES, TIMEOUT_SECONDS, Case, EffectHostSubject

__all__ = ["EffectHostConformance", "await_events", "concurrency", "durable_steps", "leases", "records", "scopes"]


class EffectHostConformance(EffectHostSubject):
    """Base class with one test for each claimed case; see the package."""

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        if "case" in metafunc.fixturenames:
            claimed = [case for case in CASES.values() if case.needs <= self.claims]
            metafunc.parametrize("case", claimed, ids=[case.name for case in claimed])

    def test_case(self, case: Case) -> None:
        run_case(self, case)


def run_case(subject: EffectHostSubject, case: Case, timeout_seconds: float = TIMEOUT_SECONDS) -> None:
    """Run a case and raise what it found. A case that does not end fails too."""

    async def run() -> None:
        async with asyncio.timeout(timeout_seconds):
            await case.run(subject)

    try:
        asyncio.run(run())
    except Died:
        raise AssertionError("the end of a process was recorded and served as an outcome") from None


def broken_rules(subject: EffectHostSubject, timeout_seconds: float = TIMEOUT_SECONDS) -> dict[str, BaseException]:
    """Return the claimed cases that fail, with their errors."""
    found: dict[str, BaseException] = {}
    for case in CASES.values():
        if case.needs <= subject.claims:
            try:
                run_case(subject, case, timeout_seconds)
            except Exception as error:
                found[case.name] = error
    return found
