"""Hosts that are broken on purpose: the suite has to notice each, and by the case that is there for it.

They are one host that keeps its records in a table and no journal, so that the suite is seen to try the contract.
"""

from __future__ import annotations

import pytest

from kit.table_host import FAULTS, TableHostSubject
from onrecord.testing.effect_conformance import broken_rules

CAUGHT_BY = {
    "executes_before_recording": "effect_controller_records_the_request_before_the_effect",
    "ignores_envelope_hash": "effect_controller_same_key_other_input_is_refused",
    "does_not_fence": "effect_host_zombie_cannot_finalize",
    "loses_early_resolutions": "effect_host_await_event_accepts_early_resolution",
    "serves_by_position": "effect_controller_concurrent_replay_deterministic_cold",
    "two_outcomes_in_one_turn": "effect_controller_delivers_one_outcome_at_a_time",
    "repeats_unknown_tools": "effect_controller_records_the_request_before_the_effect",
    "forgets_messages": "effect_controller_durable_steps_replay",
    "sleeps_anew": "effect_controller_sleep_keeps_its_due_time",
    "takes_death_for_an_outcome": "effect_controller_records_the_request_before_the_effect",
    "serves_in_asking_order": "effect_controller_serves_in_the_recorded_order",
    "blank_scopes": "effect_host_rejects_missing_scope_ids",
    "forgets_revocations": "effect_host_await_event_key_minted_after_revoke_opens_nothing",
    "retries_errors": "effect_controller_replayed_error_is_the_same_error",
    "forgets_at_restart": "effect_controller_recorded_outcome_survives_the_crash",
    "rivals_do_not_wait": "effect_host_busy_rival_yields",
}


def test_the_host_is_sound_when_nothing_is_broken() -> None:
    assert broken_rules(TableHostSubject()) == {}


def test_every_fault_has_its_case() -> None:
    assert set(CAUGHT_BY) == FAULTS


@pytest.mark.parametrize("fault", sorted(CAUGHT_BY))
def test_broken_host_is_caught(fault: str) -> None:
    broken = broken_rules(TableHostSubject(fault), timeout_seconds=4.0)
    assert CAUGHT_BY[fault] in broken, f"{fault} was not caught by its own case, only by {sorted(broken)}"
