"""Counters, tolerances, masks: each counter by path, each rule at its limit, nothing hidden beside what is masked."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onrecord.analysis.compare.counters import counter_kind, separate
from onrecord.analysis.compare.masks import DEFAULT_MASKS, MaskRule, Masks
from onrecord.analysis.compare.pointers import Patterns, steps_of
from onrecord.analysis.compare.tolerance import DriftTolerance, Limit, PathRule, as_written, normalised_text
from onrecord.core.codec import encode
from onrecord.errors import InvalidInput


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        *[(name, "tokens") for name in ("token", "tokens", "token_count", "total_tokens", "prompt_tokens")],
        *[(name, "tokens") for name in ("completion_tokens", "input_tokens", "output_tokens", "reasoning_tokens")],
        *[(name, "tokens") for name in ("cached_tokens", "cache_read_input_tokens", "promptTokenCount", "usage")],
        *[(name, "tokens") for name in ("usageMetadata", "prompt_tokens_details", "inputTokens", "eval_count")],
        *[(name, "cost") for name in ("cost", "total_cost", "cost_usd", "price", "totalCost", "cost_details")],
        *[(name, "limit") for name in ("max_tokens", "max_completion_tokens", "maxOutputTokens", "budget_tokens")],
        *[(name, "limit") for name in ("token_limit", "max_cost", "cost_limit", "tokens_per_minute", "budget")],
        *[(name, None) for name in ("access_token", "tokenizer", "token_type", "pad_token_id", "costume", "count")],
    ],
)
def test_a_name_says_what_a_number_under_it_is(name: str, kind: str | None) -> None:
    assert counter_kind(name) == kind


def test_counters_are_found_at_every_depth_and_the_rest_is_structure() -> None:
    tree = {
        "message": "hi",
        "usage": {"prompt_tokens": 7, "details": {"audio": 0, "kind": "text"}, "cost": 0.25},
        "steps": [{"tokens": 5}, {"tokens": "five"}, {"cost": {"input": 1, "lines": [2, {"usd": 3}], "in": "EUR"}}],
        "request": {"max_tokens": 100, "budget": {"tokens": 600}},
        "logprobs": {"tokens": [15496, 995]},
        "tokens": True,
    }
    separated = separate(tree)
    assert {path: (each.kind, each.value) for path, each in separated.counters.items()} == {
        "/usage/prompt_tokens": ("tokens", 7),
        "/usage/details/audio": ("tokens", 0),
        "/usage/cost": ("cost", 0.25),
        "/steps/0/tokens": ("tokens", 5),
        "/steps/2/cost/input": ("cost", 1),
        "/steps/2/cost/lines/0": ("cost", 2),
        "/steps/2/cost/lines/1/usd": ("cost", 3),
    }
    assert separated.structure == {
        "message": "hi",
        "usage": {"details": {"kind": "text"}},
        "steps": [{}, {"tokens": "five"}, {"cost": {"lines": [None, {}], "in": "EUR"}}],
        "request": {"max_tokens": 100, "budget": {"tokens": 600}},
        "logprobs": {"tokens": [15496, 995]},
        "tokens": True,
    }


def test_decimals_and_large_integers_count_too() -> None:
    tree = encode({"cost": Decimal("0.002"), "tokens": 2**70}).tree
    numbers = {path: each.number for path, each in separate(tree).counters.items()}
    assert numbers == {"/cost": as_written(0.002), "/tokens": 2**70}


@pytest.mark.parametrize(
    ("relative", "absolute", "expected", "actual", "inside"),
    [
        (0.0, 0.0, 100, 100, True),
        (0.0, 0.0, 100, 101, False),
        (0.01, 0.0, 100, 101, True),
        (0.01, 0.0, 100, 99, True),
        (0.01, 0.0, 100, 101.0000001, False),
        (0.01, 0.0, 1.0, 1.01, True),
        (0.1, 0.0, 0.3, 0.33, True),
        (0.07, 0.0, 100, 107, True),
        (0.01, 0.0, -100, -101, True),
        (0.01, 0.0, 0, 0, True),
        (0.01, 0.0, 0, 0.0, True),
        (0.01, 0.0, 0, 1, False),
        (1e9, 0.0, 0, 1e-9, False),
        (1e9, 0.0, -0.0, 1, False),
        (0.0, 1.0, 0, 1, True),
        (0.0, 1.0, 0, 1.5, False),
        (0.0, 5.0, 100, 105, True),
        (0.01, 5.0, 1000, 1010, True),
        (0.01, 5.0, 1000, 1011, False),
        (0.01, 0.0, 100, 0, False),
        (1.0, 0.0, 100, 0, True),
    ],
)
def test_a_limit_holds_to_the_last_digit_and_zero_has_no_share(
    relative: float, absolute: float, expected: float, actual: float, inside: bool
) -> None:
    assert Limit(relative, absolute).allows(as_written(expected), as_written(actual)) is inside


@given(st.decimals(0, 10**6, places=3), st.integers(1, 10**9))
def test_exactly_at_the_limit_is_inside_whatever_floats_make_of_it(share: Decimal, base: int) -> None:
    at_the_limit = as_written(float(share)) * base
    assert Limit(float(share)).allows(as_written(base), base + at_the_limit)
    assert not Limit(float(share)).allows(as_written(base), base + at_the_limit + as_written(1e-12))


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -float("inf"), -0.001, -1, True, "0.01", None])
@pytest.mark.parametrize("name", ["tokens", "cost", "tokens_absolute", "cost_absolute", "content_limit"])
def test_a_tolerance_that_is_no_finite_number_from_zero_on_is_refused(name: str, number: Any) -> None:
    with pytest.raises(InvalidInput) as refusal:
        DriftTolerance(**{name: number})
    assert refusal.value.code == "bad_tolerance"
    assert refusal.value.exit_status == 2


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"tools": "loose"}, "bad_tool_rule"),
        ({"content": "similar"}, "bad_content_rule"),
        ({"content": None}, "bad_content_rule"),
        ({"rules": (PathRule.numeric("/a", relative=float("nan")),)}, "bad_tolerance"),
        ({"rules": (PathRule.numeric("/a", absolute=-1),)}, "bad_tolerance"),
        ({"rules": (PathRule.exact("a"),)}, "bad_pointer"),
        ({"rules": (PathRule.ignore("/**"),)}, "bad_path_rule"),
        ({"rules": ("/a",)}, "bad_path_rule"),
    ],
)
def test_rules_that_cannot_be_are_refused(options: dict[str, Any], code: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        DriftTolerance(**options)
    assert refusal.value.code == code


def test_a_tolerance_is_a_value() -> None:
    tolerance = DriftTolerance(tokens=0.01, rules=(PathRule.numeric("/a/*", absolute=2),))
    assert tolerance == DriftTolerance(tokens=0.01, rules=(PathRule.numeric("/a/*", absolute=2),))
    with pytest.raises(AttributeError):
        tolerance.tokens = 0.5  # type: ignore[misc]
    assert tolerance.to_data()["rules"] == [
        {"pattern": "/a/*", "rule": "numeric", "limit": {"relative": 0.0, "absolute": 2}}
    ]


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        ("Hello  World", "hello world\n", True),
        ("ÉCLAIR", "e\u0301clair", True),
        ("it costs 1,000.50 EUR", "It costs 1000.5 EUR", True),
        ("3.0 apples", "3 apples", True),
        ("1,234,567", "1234567", True),
        ("12,34", "1234", False),
        ("007", "7", False),
        ("1.10.2", "1.1.2", False),
        ("v1.10", "v1.1", False),
        ("hello world", "helloworld", False),
        ("2.5", "25", False),
    ],
)
def test_normalised_text_is_blind_to_case_blanks_and_the_writing_of_numbers_only(
    one: str, other: str, alike: bool
) -> None:
    assert (normalised_text(one) == normalised_text(other)) is alike


@pytest.mark.parametrize(
    ("pattern", "path", "matches"),
    [
        ("/a", "/a", True),
        ("/a", "/b", False),
        ("/a", "/a/b", True),
        ("/a/*", "/a", False),
        ("/a/*/c", "/a/0/c", True),
        ("/a/*/c", "/a/0/1/c", False),
        ("/**/c", "/c", True),
        ("/**/c", "/a/b/c", True),
        ("/**/c", "/a/b/d", False),
        ("/a/**/c/*", "/a/x/c/y/c/z", True),
        ("/a~1b", "/a~1b", True),
        ("/~2", "/*", True),
        ("/~2", "/a", False),
        ("", "/anything", True),
    ],
)
def test_a_pattern_names_a_place_and_what_is_below_it(pattern: str, path: str, matches: bool) -> None:
    assert (Patterns([(pattern, True)]).at(steps_of(path)) is True) is matches


def test_the_nearer_rule_holds_and_of_two_for_one_place_the_first() -> None:
    patterns = Patterns([("/**", "all"), ("/a/*", "first"), ("/a/b", "second"), ("/a/b/c", "near")])
    assert patterns.at(["x"]) == "all"
    assert patterns.at(["a", "b"]) == "all"
    assert Patterns([("/a", "far"), ("/a/*", "first"), ("/a/b", "second")]).at(["a", "b"]) == "first"
    assert Patterns([("/a", "far"), ("/a/b/c", "near")]).at(["a", "b", "c"]) == "near"


def test_a_masked_field_never_hides_its_neighbours() -> None:
    event = {"name": "find", "span_id": "x", "trace": {"span_id": "y", "sampled": True}, "input": {"request_id": 7}}
    masked = Masks().applied("tool_event", event)
    assert masked == {"name": "find", "trace": {"sampled": True}, "input": {"request_id": 7}}
    assert Masks().applied("outcome", event) == event
    flat = {"name": "sleep", "duration": 5, "start_time": "noon"}
    assert Masks().applied("tool_event", flat) == flat
    assert Masks(()).applied("tool_event", event) == event


def test_masks_reach_into_lists_and_keep_positions() -> None:
    masks = Masks([MaskRule("/items/*/at"), MaskRule("/row/1"), MaskRule("/only", "other")])
    tree = {"items": [{"at": 1, "n": 1}, {"n": 2}], "row": [1, 2, 3], "only": 1}
    assert masks.applied("any", tree) == {"items": [{"n": 1}, {"n": 2}], "row": [1, None, 3], "only": 1}
    assert "only" not in masks.applied("other", tree)
    assert tree["row"] == [1, 2, 3]


def test_mask_rules_are_listed_as_data_and_the_whole_tree_cannot_be_masked() -> None:
    assert Masks().to_data()[0] == {"pattern": "/span_id", "kind": "tool_event"}
    assert len(Masks().to_data()) == len(DEFAULT_MASKS)
    for pattern, code in (("", "bad_mask"), ("a", "bad_pointer")):
        with pytest.raises(InvalidInput) as refusal:
            Masks([MaskRule(pattern)])
        assert refusal.value.code == code
