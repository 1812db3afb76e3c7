"""Compare two lists of attestations: missing, unexpected, repeated or reordered ids, and changed contents.

An id is only a name. The digest binds the content, and a given content is hashed again: an attestation whose content
does not match its digest is *forged*, whatever its id. With neither a digest nor a content only the ids can be
compared; those are listed as unverified.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from typing import Any

from onrecord.analysis.compare.sequence_alignment import align, find_hunks
from onrecord.analysis.compare.trees import find_moved_items, tree_digest
from onrecord.core.hashing import artifact_address, parse_hash, render
from onrecord.errors import InvalidInput, InvalidValue


class _Absent:
    def __repr__(self) -> str:
        return "ABSENT"


ABSENT = _Absent()
"""Marks an attestation without content. None is a content."""


@dataclasses.dataclass(frozen=True, slots=True)
class Attestation:
    """An attestation to compare. `content` is a plain tree or an artifact's bytes."""

    id: str
    digest: str | None = None
    content: Any = ABSENT

    def __post_init__(self) -> None:
        if not isinstance(self.id, str) or not self.id:
            raise InvalidInput("an attestation has an id", code="bad_attestation")
        if self.digest is not None:
            try:
                parse_hash(self.digest)
            except InvalidValue:
                raise InvalidInput(
                    "the digest of an attestation is `sha256:` and 64 hex digits", code="bad_attestation"
                ) from None

    @classmethod
    def of(cls, id: str, content: Any) -> Attestation:  # noqa: A002 - it is the id
        return cls(id, content_digest(content), content)

    @property
    def forged(self) -> bool:
        return self.digest is not None and self.content is not ABSENT and content_digest(self.content) != self.digest

    @property
    def says(self) -> str | None:
        """Return the digest of the content, or None if only the id is known."""
        if self.digest is None and self.content is not ABSENT:
            return content_digest(self.content)
        return self.digest

    def to_data(self) -> dict[str, Any]:
        return {"id": self.id, "digest": self.says}


def content_digest(content: Any) -> str:
    return render(artifact_address(content)) if isinstance(content, bytes) else tree_digest(content)


@dataclasses.dataclass(frozen=True, slots=True)
class AttestationDiff:
    """Lists of ids by finding.

    `duplicate` occurs more often than recorded, `changed` has another content under the same id, `reordered` has
    another position among the ids of both sides. `unverified` has an equal id but no content to compare; it breaks
    nothing.
    """

    expected: tuple[str, ...]
    actual: tuple[str, ...]
    missing: tuple[str, ...] = ()
    unexpected: tuple[str, ...] = ()
    reordered: tuple[str, ...] = ()
    duplicate: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    forged: tuple[str, ...] = ()
    unverified: tuple[str, ...] = ()

    @property
    def findings(self) -> dict[str, tuple[str, ...]]:
        """Return the ids of each kind of finding that occurs."""
        kinds = ("missing", "unexpected", "reordered", "duplicate", "changed", "forged")
        return {kind: getattr(self, kind) for kind in kinds if getattr(self, kind)}

    @property
    def equal(self) -> bool:
        return not self.findings

    def to_data(self) -> dict[str, Any]:
        data: dict[str, Any] = {"equal": self.equal, "expected": list(self.expected), "actual": list(self.actual)}
        data |= {kind: list(ids) for kind, ids in self.findings.items()}
        return data | ({"unverified": list(self.unverified)} if self.unverified else {})


def compare_attestations(expected: list[Attestation], actual: list[Attestation]) -> AttestationDiff:
    left, right = [each.id for each in expected], [each.id for each in actual]
    counts, other_counts = Counter(left), Counter(right)
    changed, unverified = _compare_contents(expected, actual)
    return AttestationDiff(
        expected=tuple(left),
        actual=tuple(right),
        missing=tuple((counts - other_counts).elements()),
        unexpected=tuple(name for name in right if name not in counts),
        reordered=_find_reordered(left, right),
        duplicate=tuple(name for name in (other_counts - counts).elements() if name in counts),
        changed=changed,
        forged=tuple(dict.fromkeys(each.id for each in [*expected, *actual] if each.forged)),
        unverified=unverified,
    )


def _compare_contents(
    expected: list[Attestation], actual: list[Attestation]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the ids whose contents differ and the ids whose contents are unknown."""
    digests: dict[str, set[str | None]] = {}
    other_digests: dict[str, set[str | None]] = {}
    for side, attestations in ((digests, expected), (other_digests, actual)):
        for each in attestations:
            side.setdefault(each.id, set()).add(each.says)
    both = [name for name in digests if name in other_digests]
    known = [name for name in both if digests[name] != {None} and other_digests[name] != {None}]
    changed = [name for name in known if digests[name] != other_digests[name]]
    unverified = [name for name in both if None in digests[name] | other_digests[name] and name not in changed]
    return tuple(changed), tuple(unverified)


def _find_reordered(left: list[str], right: list[str]) -> tuple[str, ...]:
    """Return the ids of both sides whose first positions have to move to turn one order into the other."""
    both = set(left) & set(right)
    numbers = {name: number for number, name in enumerate(dict.fromkeys(left))}
    left_numbers = [numbers[name] for name in dict.fromkeys(left) if name in both]
    right_numbers = [numbers[name] for name in dict.fromkeys(right) if name in both]
    moved = find_moved_items(
        find_hunks(align(left_numbers, right_numbers), len(left_numbers), len(right_numbers)),
        left_numbers,
        right_numbers,
    )
    names = list(numbers)
    return tuple(names[left_numbers[i]] for i in sorted(moved)) or _find_reordered_repeats(left, right)


def _find_reordered_repeats(left: list[str], right: list[str]) -> tuple[str, ...]:
    """Return the ids that differ position by position, as `a b a` and `a a b` do: same counts, same first positions."""
    if left != right and Counter(left) == Counter(right):
        return tuple(dict.fromkeys(name for name, other in zip(left, right, strict=True) if name != other))
    return ()


def extract_attestations(value: Any) -> tuple[Any, list[Attestation]]:
    """Return the output without its `attestation_ids` and `attestations`, and the attestations they hold."""
    if not isinstance(value, dict):
        return value, []
    rest = dict(value)
    found: list[Attestation] = []
    ids = value.get("attestation_ids")
    if isinstance(ids, list) and all(isinstance(name, str) and name for name in ids):
        found += [Attestation(name) for name in ids]
        del rest["attestation_ids"]
    held = value.get("attestations")
    if isinstance(held, list):
        try:
            found += [Attestation(each["id"], each.get("digest"), each.get("content", ABSENT)) for each in held]
            del rest["attestations"]
        except (InvalidInput, KeyError, TypeError, AttributeError):
            pass  # another kind of value under that name: compared like any other value
    return rest, found
