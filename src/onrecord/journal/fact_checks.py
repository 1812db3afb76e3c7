"""The facts of a header, checked: of a run in a store and of one in a file alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from reenact.core.codec import decode
from reenact.core.hashing import commitment, render
from reenact.core.links import Header
from reenact.core.matching import MatchRules
from reenact.core.packing import unpack
from reenact.core.sharing import Fetch, expand
from reenact.errors import Damaged, ReenactError
from reenact.journal.verifying import Problem
from reenact.store.contract import HeaderRow


def check_facts(
    row: HeaderRow,
    header: Header,
    *,
    fetch_nodes: Fetch,
    artifact: Callable[[bytes], bytes],
    erased_by_right: Callable[[int], bool],
    problems: list[Problem],
) -> dict[str, Any] | None:
    """The decoded facts; empty once erased, None when they are not what the header commits to, which is then a problem
    at seq 0."""
    if row.content is None or row.salt is None or row.match is None:
        if row.content is not None or row.salt is not None or row.match is not None:
            problems.append(Problem(0, "failure", "bad_content", "the facts are half erased"))
        elif not erased_by_right(0):
            message = "the facts are missing and no erasure is on record"
            problems.append(Problem(0, "failure", "missing_content", message))
        return {}
    try:
        stored = unpack(row.content)
        if render(commitment(row.salt, row.match, stored)) != header.content:
            raise Damaged("the facts do not match the header", code="bad_content")
        tree = expand(stored, fetch_nodes)
        facts = decode(tree, loaded_classes=not row.imported, artifact=artifact)
        rules = rules_of(facts)
        if rules.id != header.rules or rules.match("Header", tree) != row.match:
            raise Damaged("the match rules are not those the header names", code="bad_rules")
    except ReenactError as error:
        problems.append(Problem(0, "failure", error.code, error.message))
        return None
    except (AttributeError, TypeError, ValueError):
        problems.append(Problem(0, "failure", "bad_content", "the facts are not well formed"))
        return None
    return facts if isinstance(facts, dict) else None


def rules_of(facts: dict[str, Any] | None) -> MatchRules:
    """The match rules that facts name; the base rules where there are none, or where the facts are erased."""
    return MatchRules([(str(kind), str(pointer)) for kind, pointer in (facts or {}).get("volatile") or []])
