"""Two lists of attestations compared: which are missing, unexpected, more than once or in another order, and whether
each still says what it said.

An id is only a name. What an attestation says is bound by its digest, and a content that is at hand is hashed again:
one that does not give the digest it comes with is *forged*, whatever its id. Where neither a digest nor a content is
given only the ids can be compared; those are listed as unverified.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from typing import Any

from reenact.core.hashing import artifact_address, parse_hash, render
from reenact.errors import InvalidInput, InvalidValue
from reenact.replays.comparing.alignment import aligned, hunks_of
from reenact.replays.comparing.trees import moved_items, tree_digest


class _Absent:
    def __repr__(self) -> str:
        return "ABSENT"


ABSENT = _Absent()
"""No content is at hand; None is a content."""


@dataclasses.dataclass(frozen=True, slots=True)
class Attestation:
    """`content` is a plain tree, or bytes as an artifact has them."""

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
        """The digest of what it says; None when nothing but its id is known."""
        if self.digest is None and self.content is not ABSENT:
            return content_digest(self.content)
        return self.digest

    def to_data(self) -> dict[str, Any]:
        return {"id": self.id, "digest": self.says}


def content_digest(content: Any) -> str:
    return render(artifact_address(content)) if isinstance(content, bytes) else tree_digest(content)


@dataclasses.dataclass(frozen=True, slots=True)
class AttestationDiff:
    """Lists of ids. `duplicate` are there more often than recorded, `changed` say something else under the same id,
    `reordered` stand elsewhere among the others; `unverified` are equal as far as their ids go and do not break
    anything.
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
        """What is wrong, by kind; empty when nothing is."""
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
    changed, unverified = _contents(expected, actual)
    return AttestationDiff(
        expected=tuple(left),
        actual=tuple(right),
        missing=tuple((counts - other_counts).elements()),
        unexpected=tuple(name for name in right if name not in counts),
        reordered=_reordered(left, right),
        duplicate=tuple(name for name in (other_counts - counts).elements() if name in counts),
        changed=changed,
        forged=tuple(dict.fromkeys(each.id for each in [*expected, *actual] if each.forged)),
        unverified=unverified,
    )


def _contents(expected: list[Attestation], actual: list[Attestation]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Ids under which the two sides do not say the same, and ids of which that is not known."""
    said: dict[str, set[str | None]] = {}
    other_said: dict[str, set[str | None]] = {}
    for side, attestations in ((said, expected), (other_said, actual)):
        for each in attestations:
            side.setdefault(each.id, set()).add(each.says)
    both = [name for name in said if name in other_said]
    known = [name for name in both if said[name] != {None} and other_said[name] != {None}]
    changed = [name for name in known if said[name] != other_said[name]]
    unverified = [name for name in both if None in said[name] | other_said[name] and name not in changed]
    return tuple(changed), tuple(unverified)


def _reordered(left: list[str], right: list[str]) -> tuple[str, ...]:
    """Ids that have to be taken out and put in elsewhere, of those that both sides have, each by its first place."""
    both = set(left) & set(right)
    numbers = {name: number for number, name in enumerate(dict.fromkeys(left))}
    here = [numbers[name] for name in dict.fromkeys(left) if name in both]
    there = [numbers[name] for name in dict.fromkeys(right) if name in both]
    moved = moved_items(hunks_of(aligned(here, there), len(here), len(there)), here, there)
    names = list(numbers)
    return tuple(names[here[i]] for i in sorted(moved)) or _repeats_reordered(left, right)


def _repeats_reordered(left: list[str], right: list[str]) -> tuple[str, ...]:
    """`a b a` became `a a b`: nothing came or went and first places are the same, yet the order is not."""
    if left != right and Counter(left) == Counter(right):
        return tuple(dict.fromkeys(name for name, other in zip(left, right, strict=True) if name != other))
    return ()


def attestations_in(value: Any) -> tuple[Any, list[Attestation]]:
    """The attestations an output names under `attestation_ids` or holds under `attestations`, and the output
    without."""
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
            pass  # something else of that name: compared as any other value
    return rest, found
