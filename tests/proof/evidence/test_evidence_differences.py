"""Differences under their digest: found again, hashed again, and within reach of erasure and retention."""

from __future__ import annotations

import pytest

from kit.evidence import recorded_run
from onrecord.core.hashing import artifact_address, render
from onrecord.errors import Damaged, NotFound
from onrecord.journal.erasure import erase_value
from onrecord.journal.retention import retirable_runs, retire_run
from onrecord.journal.verify import verify_run
from onrecord.proof.evidence import fetch_difference, keep_difference
from onrecord.store.contract import Store
from onrecord.store.memory import MemoryStore


@pytest.mark.parametrize("data", [b"", b"small", bytes(200_000)], ids=len)
def test_a_difference_is_found_by_its_digest(store: Store, data: bytes) -> None:
    digest = keep_difference(store, "default", data, runs=["r1", "r2"])
    assert digest == render(artifact_address(data))
    assert fetch_difference(store, "default", digest) == data
    assert keep_difference(store, "default", data) == digest
    for row in store.list_runs("default"):
        assert verify_run(store, row.header.run, deep=True).verdict == "VALID"


def test_another_namespace_and_an_unknown_digest_find_nothing(memory: MemoryStore) -> None:
    digest = keep_difference(memory, "tenant-a", b"data")
    for namespace, asked in (("tenant-b", digest), ("tenant-a", "sha256:" + "0" * 64), ("tenant-a", "../x")):
        with pytest.raises(NotFound) as refused:
            fetch_difference(memory, namespace, asked)
        assert refused.value.code == "unknown_difference"


def test_what_is_fetched_is_hashed_again(memory: MemoryStore) -> None:
    from kit.journals import Altered

    digest = keep_difference(memory, "default", b"data")
    altered = Altered(memory, artifacts={artifact_address(b"data"): b"date"})
    with pytest.raises(Damaged) as refused:
        fetch_difference(altered, "default", digest)  # type: ignore[arg-type]
    assert refused.value.code == "bad_artifact"


def test_erasing_a_value_takes_the_differences_that_quote_it(store: Store) -> None:
    recorded_run(store, answer="Ada Lovelace")
    digest = keep_difference(store, "default", b'{"expected": "Ada Lovelace"}', runs=["r1"])
    other = keep_difference(store, "default", b"harmless")
    erase_value(store, "Ada Lovelace", reason="asked for")
    with pytest.raises(NotFound):
        fetch_difference(store, "default", digest)
    assert fetch_difference(store, "default", other) == b"harmless"
    hexed = digest.removeprefix("sha256:").encode()
    for row in store.list_runs("default"):
        kept = row.header.header + b"".join(e.link + (e.content or b"") for e in store.scan("default", row.header.run))
        assert hexed not in kept, "no name made from the digest is left to guess against"


def test_differences_are_retired_like_runs(memory: MemoryStore) -> None:
    digest = keep_difference(memory, "default", b"data")
    (found,) = retirable_runs(memory, keep_newest=0)
    retire_run(memory, found.run, reason="old")
    with pytest.raises(NotFound):
        fetch_difference(memory, "default", digest)
