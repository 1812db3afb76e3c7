"""The quick ways to a match digest give what the long way gives."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onrecord.core.canonical import canonical_bytes
from onrecord.core.codec import encode
from onrecord.core.hashing import match_digest
from onrecord.core.matching import VOLATILE_MEMBERS, MatchRules

_NAMES = st.sampled_from(
    ["payload", "output", "name", "meta", "$tuple", "$", "#a", "é", "\U0001f600", "\uffff", "action_id"]
)
_LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=4),
    st.sampled_from(["$node", 'say "$x"', 0.0, -0.0, 1.0, 1e21, 1e-7, 5e-324]),
    st.binary(max_size=3),
    st.tuples(st.integers(), st.floats()),
)
_VALUES = st.recursive(
    _LEAVES,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(_NAMES, inner, max_size=4)),
    max_leaves=12,
)


def long_way(kind: str, content: dict[str, Any]) -> bytes:
    tree = encode(content).tree
    kept = {name: value for name, value in tree.items() if name not in VOLATILE_MEMBERS}
    return match_digest(canonical_bytes({"content": kept, "kind": kind}))


@given(st.dictionaries(_NAMES.filter(lambda name: not name.startswith("$")), _VALUES, min_size=1, max_size=4))
def test_every_way_gives_the_same(content: dict[str, Any]) -> None:
    rules, encoded = MatchRules(), encode(content)
    expected = long_way("K", content)
    assert rules.match_of("K", content) == expected
    assert rules.match("K", encoded.tree, odd=encoded.odd) == expected
    assert rules.match("K", encoded.tree) == expected


@pytest.mark.parametrize(
    "content",
    [
        {"payload": 1.0},
        {"payload": {"temperature": 1.0, "top_p": 0.00001}, "meta": {"x": 2.0}},
        {"payload": {"#a": 1, "$b": 2.0}},
        {"payload": {"$b": 1, "#a": 2}},
        {"payload": [{"$tuple": [1]}]},
        {"payload": {"\uffff": 1, "\U0001f600": 2.0}},
    ],
)
def test_awkward_contents(content: dict[str, Any]) -> None:
    encoded = encode(content)
    assert MatchRules().match_of("K", content) == long_way("K", content)
    assert MatchRules().match("K", encoded.tree, odd=encoded.odd) == long_way("K", content)


def test_declared_volatile_paths_are_left_out_either_way() -> None:
    rules = MatchRules([("K", "/payload/seed"), ("*", "/payload/items/*/id")])
    one = {"payload": {"seed": 1.0, "items": [{"id": 1.0, "v": 2.0}]}}
    other = {"payload": {"seed": 7.5, "items": [{"id": "x", "v": 2.0}]}}
    assert rules.match_of("K", one) == rules.match_of("K", other)
    encoded = encode(one)
    assert rules.match("K", encoded.tree, odd=encoded.odd) == rules.match_of("K", one)
    assert rules.match_of("K", {"payload": {"items": [{"v": 2.5}]}}) != rules.match_of("K", one)
