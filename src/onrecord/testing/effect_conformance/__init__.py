"""The suite that every effect host passes. For your own host, subclass it and define how to make one:

    class TestMyHost(EffectHostConformance):
        claims = frozenset({HostClaim.SCOPES, HostClaim.AWAIT_EVENTS, HostClaim.DURABLE, ...})

        def make_host(self):
            return MyHost(...)                 # nothing is recorded in it

        def reopen(self, host):
            return MyHost(...)                 # a second instance over the same data

and so on for its other claims: `EffectHostSubject` describes each hook. Without pytest, `broken_rules(subject)` returns
the cases that fail. The author of only a controller calls `effect_controller_durable_steps_replay` and
`effect_controller_concurrent_replay_deterministic` with a function that runs between recording and replaying.

Each case takes one sentence of `onrecord.hosts.contract` and tries to break it through the contract alone. A dying
process is an exception that no host may record as an outcome, followed by another instance over the same data.
"""

from onrecord.testing.effect_conformance import await_events, concurrency, durable_steps, leases, records, scopes
from onrecord.testing.effect_conformance.await_events import effect_host_await_events
from onrecord.testing.effect_conformance.builders import SCOPE, Calls, Died, code_of, envelope_of, step, tool
from onrecord.testing.effect_conformance.concurrency import effect_controller_concurrent_replay_deterministic
from onrecord.testing.effect_conformance.durable_steps import (
    effect_controller_durable_steps,
    effect_controller_durable_steps_replay,
    effect_host_durable_steps,
)
from onrecord.testing.effect_conformance.scopes import effect_host
from onrecord.testing.effect_conformance.subject import CASES, Case, EffectHostSubject, HostClaim
from onrecord.testing.effect_conformance.suite import EffectHostConformance, broken_rules, run_case

__all__ = [
    "CASES",
    "SCOPE",
    "Calls",
    "Case",
    "Died",
    "EffectHostConformance",
    "EffectHostSubject",
    "HostClaim",
    "await_events",
    "broken_rules",
    "code_of",
    "concurrency",
    "durable_steps",
    "effect_controller_concurrent_replay_deterministic",
    "effect_controller_durable_steps",
    "effect_controller_durable_steps_replay",
    "effect_host",
    "effect_host_await_events",
    "effect_host_durable_steps",
    "envelope_of",
    "leases",
    "records",
    "run_case",
    "scopes",
    "step",
    "tool",
]
