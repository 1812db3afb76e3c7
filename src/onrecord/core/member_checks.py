"""Check the members of an event that readers rely on (docs/format.md, section 7).

A check looks at decoded values and names the first bad member. Members that the format does not name are allowed and
kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from onrecord.core.program_records import COMMAND, INPUT, is_command_request, is_input_request, is_look, is_written_file
from onrecord.core.shapes import Check, Shape, is_count, is_hash, is_object, is_text, list_of, object_of, one_of


def _is_schedule(value: Any) -> bool:
    return type(value) is list and all(map(is_count, value)) and value == sorted(value)


def _is_amount(value: Any) -> bool:
    return type(value) in (int, float) and bool(0 <= value < float("inf"))


META: dict[str, Check] = {
    "births": is_count,
    "site": Shape({"file": is_text, "line": is_count, "function": is_text}),
    "traceback": is_text,
    "redacted": list_of(is_text),
}
"""The members of `meta` that the format names. All others are the writer's own."""

FACTS: dict[str, Check] = {
    "tags": is_object,
    "parent_policy": one_of("wait", "cancel", "abandon"),
    "tolerance": is_object,
    "code_pin": Shape({"digest": is_hash}, {"version": is_text}),
}
"""The facts that the format names for every writer. All others are the writer's own."""

_DECIDED: dict[str, Check] = {"by": is_text, "why": is_text}
_CHECKS: dict[str, dict[str, Check]] = {
    "AttemptRecorded": {"latency_us": is_count},
    "EffectSettled": _DECIDED,
    "Resumed": _DECIDED,
    "WaitResolved": _DECIDED,
    "WaitCreated": {"schema": is_object},
    "InputSent": {"size": is_count, "digest": is_hash, "signal": is_count},
    "OutputPrinted": {"stream": is_text, "size": is_count, "digest": is_hash},
    "FilesObserved": {"looks": list_of(is_look)},
    "FilesWritten": {"files": list_of(is_written_file)},
    "BudgetReserved": {"amounts": object_of(_is_amount)},
    "RunReleased": {"epoch": is_count, "due": _is_schedule},
    "KeyRotated": {"purpose": is_text, "key": is_text, "previous": is_text, "reason": is_text},
    "CheckpointPublished": {
        **{"origin": is_text, "size": is_count, "root": is_hash, "note": is_text},
        "witnesses": list_of(is_text),
    },
}
_PAYLOADS: dict[str, Check] = {COMMAND: is_command_request, INPUT: is_input_request}
CHECKED_KINDS = frozenset({*_CHECKS, "ActionRequested"})


def find_member_problem(kind: str, members: Mapping[str, Any]) -> str | None:
    """Return what is wrong with the decoded members of an event, or None. Missing members are not looked for."""
    if "meta" in members and (problem := _find_meta_problem(members["meta"])) is not None:
        return problem
    if kind == "ActionRequested":
        effect = members.get("effect")
        check = _PAYLOADS.get(effect) if type(effect) is str else None
        if check is None or check(members.get("payload")):
            return None
        return f"the payload of a request of the effect kind `{effect}` is not well formed"
    for name, check in _CHECKS.get(kind, {}).items():
        if name in members and not check(members[name]):
            return f"`{name}` of a {kind} event is not well formed"
    if kind == "InputSent" and ("signal" in members) == ("digest" in members):
        return "an InputSent event has either the digest of bytes or a signal"
    return None


def find_fact_problem(facts: Mapping[str, Any]) -> str | None:
    """Return what is wrong with the decoded facts of a run, or None."""
    if "meta" in facts:
        problem = _find_meta_problem(facts["meta"])
        if problem is not None:
            return problem
        if "hash_seed" in facts["meta"] and not is_count(facts["meta"]["hash_seed"]):
            return "`meta.hash_seed` is not well formed"
    for name, check in FACTS.items():
        if name in facts and not check(facts[name]):
            return f"the fact `{name}` is not well formed"
    return None


def _find_meta_problem(meta: Any) -> str | None:
    if type(meta) is not dict or not meta or not all(type(name) is str for name in meta):
        return "`meta` is not an object with members"
    for name, check in META.items():
        if name in meta and not check(meta[name]):
            return f"`meta.{name}` is not well formed"
    return None
