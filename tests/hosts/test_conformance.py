"""Every host of ours against the suite that we ship."""

from __future__ import annotations

import pytest

from kit.host_subjects import JournalHostSubject
from onrecord.hosts.contract import Durability, EffectHost
from onrecord.hosts.in_process import InProcessEffectHost
from onrecord.hosts.recording_host import RecordingEffectHost
from onrecord.testing.effect_conformance import CASES, EffectHostConformance, HostClaim, run_case


@pytest.mark.parametrize("name", sorted(CASES))
def test_journal_host(subject: JournalHostSubject, name: str) -> None:
    assert CASES[name].needs <= subject.claims, "the journal-backed host claims everything"
    run_case(subject, CASES[name])


class TestInProcessHost(EffectHostConformance):
    claims = frozenset({HostClaim.SCOPES, HostClaim.AWAIT_EVENTS})

    def make_host(self) -> EffectHost:
        return InProcessEffectHost()


class TestRecordingHost(EffectHostConformance):
    claims = frozenset({HostClaim.SCOPES})

    def make_host(self) -> EffectHost:
        return RecordingEffectHost()


def test_durability_is_advertised(subject: JournalHostSubject) -> None:
    host = subject.make_host()
    memory = subject.new_url().startswith("memory:")
    assert host.durability is (Durability.PROCESS if memory else Durability.FULL)
    assert host.supports_durable_effects
    for other in (InProcessEffectHost(), RecordingEffectHost()):
        assert other.durability is Durability.NONE
        assert not other.supports_durable_effects


def test_every_claim_is_tried() -> None:
    assert {claim for case in CASES.values() for claim in case.needs} == set(HostClaim)
