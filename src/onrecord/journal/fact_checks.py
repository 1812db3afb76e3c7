"""Check the facts of a header, for a run in a store and for a recording file."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from onrecord.core.codec import decode
from onrecord.core.hashing import commitment, render
from onrecord.core.links import Header
from onrecord.core.matching import MatchRules
from onrecord.core.member_checks import find_fact_problem
from onrecord.core.merkle import Fetch, expand
from onrecord.core.packing import unpack
from onrecord.errors import Damaged, OnrecordError
from onrecord.journal.findings import Problem
from onrecord.store.contract import HeaderRow


def check_facts(
    row: HeaderRow,
    header: Header,
    *,
    fetch_nodes: Fetch,
    artifact: Callable[[bytes], bytes],
    is_erasure_recorded: Callable[[int], bool],
    problems: list[Problem],
) -> dict[str, Any] | None:
    """Return the decoded facts, empty if erased. If they contradict the header, add a problem and return None."""
    if row.content is None or row.salt is None or row.match is None:
        if row.content is not None or row.salt is not None or row.match is not None:
            problems.append(Problem(0, "failure", "bad_content", "the facts are half erased"))
        elif not is_erasure_recorded(0):
            message = "the facts are missing and no erasure is on record"
            problems.append(Problem(0, "failure", "missing_content", message))
        return {}
    try:
        stored = unpack(row.content)
        if render(commitment(row.salt, row.match, stored)) != header.content:
            raise Damaged("the facts do not match the header", code="bad_content")
        tree = expand(stored, fetch_nodes)
        facts = decode(tree, loaded_classes=not row.imported, artifact=artifact)
        problem = find_fact_problem(facts)
        if problem is not None:
            raise Damaged(problem, code="bad_content")
        rules = rules_of(facts)
        if rules.id != header.rules or rules.match("Header", tree) != row.match:
            raise Damaged("the match rules are not those the header names", code="bad_rules")
    except OnrecordError as error:
        problems.append(Problem(0, "failure", error.code, error.message))
        return None
    except (AttributeError, TypeError, ValueError):
        problems.append(Problem(0, "failure", "bad_content", "the facts are not well formed"))
        return None
    return facts if isinstance(facts, dict) else None


def rules_of(facts: dict[str, Any] | None) -> MatchRules:
    """Return the match rules named in the facts; the base rules if there are none or the facts are erased."""
    return MatchRules([(str(kind), str(pointer)) for kind, pointer in (facts or {}).get("volatile") or []])
