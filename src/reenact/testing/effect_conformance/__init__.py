"""The suite every effect host passes. For a host of your own, subclass and say how to make one:

    class TestMyHost(EffectHostConformance):
        claims = frozenset({Claim.SCOPES, Claim.AWAIT_EVENTS, Claim.DURABLE, ...})

        def make_host(self):
            return MyHost(...)                 # nothing is recorded in it

        def reopen(self, host):
            return MyHost(...)                 # a second instance over the same data

and so on for what else it claims: `EffectHostSubject` says what each hook has to do. Without pytest,
`broken_rules(subject)` returns the cases that fail. The author of a controller alone calls
`effect_controller_durable_steps_replay` and `effect_controller_concurrent_replay_deterministic`, giving a function that
is called between recording and replaying.

Rules: each case takes one sentence of `reenact.effect.hosts.contract` and tries to break it through the contract alone.
A dying process is an exception that no host may take for an outcome, followed by another instance over the same data.
"""

from reenact.testing.effect_conformance import await_events, concurrency, durable_steps, leases, records, scopes
from reenact.testing.effect_conformance.await_events import effect_host_await_events
from reenact.testing.effect_conformance.builders import SCOPE, Calls, Died, code_of, envelope_of, step, tool
from reenact.testing.effect_conformance.concurrency import effect_controller_concurrent_replay_deterministic
from reenact.testing.effect_conformance.durable_steps import (
    effect_controller_durable_steps,
    effect_controller_durable_steps_replay,
    effect_host_durable_steps,
)
from reenact.testing.effect_conformance.scopes import effect_host
from reenact.testing.effect_conformance.subject import CASES, Case, Claim, EffectHostSubject
from reenact.testing.effect_conformance.suite import EffectHostConformance, broken_rules, run_case

__all__ = [
    "CASES",
    "SCOPE",
    "Calls",
    "Case",
    "Claim",
    "Died",
    "EffectHostConformance",
    "EffectHostSubject",
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
