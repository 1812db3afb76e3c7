"""Equal values have equal digests; a state holds only data."""

from __future__ import annotations

import random
from enum import Enum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.journals import begin
from onrecord.core.canonical import canonical_bytes, stored_bytes
from onrecord.core.codec import decode, encode
from onrecord.core.events import ActionSucceeded, StateUpdated
from onrecord.core.matching import MatchRules
from onrecord.core.state import state_hash
from onrecord.errors import InvalidInput
from onrecord.journal.snapshots import take_snapshot
from onrecord.store.memory import MemoryStore


class Suit(Enum):
    HEARTS = 1
    SPADES = "♠"


KEYS = st.recursive(
    st.one_of(st.integers(), st.floats(), st.sampled_from(Suit), st.none(), st.binary(max_size=3), st.text(max_size=3)),
    lambda inner: st.one_of(st.tuples(inner, inner), st.frozensets(inner, max_size=2)),
    max_leaves=4,
)
DICTS: Any = st.recursive(
    st.one_of(st.integers(), st.text(max_size=3), st.none()),
    lambda inner: st.one_of(st.dictionaries(KEYS, inner, max_size=5), st.lists(inner, max_size=3)),
    max_leaves=8,
)


def shuffled(value: Any, order: random.Random) -> Any:
    if isinstance(value, list):
        return [shuffled(item, order) for item in value]
    if not isinstance(value, dict):
        return value
    names = list(value)
    order.shuffle(names)
    return {name: shuffled(value[name], order) for name in names}


@given(DICTS, st.randoms(use_true_random=False))
def test_equal_dicts_have_equal_digests_in_any_order(value: Any, order: random.Random) -> None:
    other = shuffled(value, order)
    assert state_hash(value) == state_hash(other)
    rules = MatchRules()
    one, two = (ActionSucceeded("a", output).content() for output in (value, other))
    assert rules.match_of("ActionSucceeded", one) == rules.match_of("ActionSucceeded", two)


@given(DICTS)
def test_the_stored_form_keeps_the_order(value: Any) -> None:
    tree = encode(value).tree
    assert stored_bytes(encode(decode(tree, loaded_classes=True)).tree) == stored_bytes(tree)


def test_other_values_of_equal_keys_differ() -> None:
    hashes = {state_hash(value) for value in ({1: "a", 2: "b"}, {1: "b", 2: "a"}, {1: "a"}, {"1": "a", "2": "b"})}
    assert len(hashes) == 4


def test_pairs_are_sorted_by_the_canonical_bytes_of_their_keys() -> None:
    pairs = encode({(2, 1): 0, 10: 1, 9: 2, None: {3: 0, 1: 0}}).tree
    assert canonical_bytes(pairs) == b'{"$dict":[[10,1],[9,2],[null,{"$dict":[[1,0],[3,0]]}],[{"$tuple":[2,1]},0]]}'


@pytest.mark.parametrize(
    "tree", [{"$dict": 3}, {"$dict": [[1]]}, {"$dict": [[2, 0], [1, 0]], "x": 1}, {"$$dict": [[2, 0], [1, 0]]}]
)
def test_only_well_formed_pairs_of_the_tag_are_sorted(tree: Any) -> None:
    assert b"[[1,0],[2,0]]" not in canonical_bytes(tree)


def test_deep_dicts_are_sorted_too() -> None:
    deep: Any = {2: 0, 1: 0}
    for _ in range(300):
        deep = [deep]
    assert b'{"$dict":[[1,0],[2,0]]}' in canonical_bytes(encode(deep).tree)


def test_a_state_with_an_object_that_is_no_data_is_refused_in_two_lines() -> None:
    journal = begin(MemoryStore())
    with pytest.raises(InvalidInput) as refused:
        journal.append(StateUpdated({"clients": [object()]}))
    error = refused.value
    assert error.code == "state_without_value"
    assert error.message.endswith("$.payload.clients[0] (builtins:object)")
    assert "\n" not in error.message
    assert error.hint.startswith("Keep only data")
    assert journal.head().seq == 0
    with pytest.raises(InvalidInput):
        take_snapshot(journal, journal._chain.reducer, {"lock": print}, 0)
    with pytest.raises(InvalidInput):
        state_hash(object())
    journal.append(StateUpdated({"error": ValueError("no")}))
