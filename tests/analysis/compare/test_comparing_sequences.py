"""Tool events and attestations: what is missing, unexpected, moved, twice or altered is told apart."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onrecord.analysis.compare.attestations import (
    Attestation,
    compare_attestations,
    content_digest,
    extract_attestations,
)
from onrecord.analysis.compare.masks import Masks
from onrecord.analysis.compare.tool_calls import ComparedToolCall, extract_tool_calls
from onrecord.analysis.compare.tool_events import compare_tool_events
from onrecord.errors import InvalidInput


def event(name: str, stdout: str = "", span: str = "s") -> dict[str, Any]:
    return {"name": name, "output": {"stdout": stdout, "exit": 0}, "trace": {"span_id": span}}


A, B, C = event("a"), event("b"), event("c")


@pytest.mark.parametrize(
    ("expected", "actual", "findings"),
    [
        ([A, B], [A, B], []),
        (None, [], []),
        ([A, B], [A], [("missing", "b", 1, None)]),
        ([A], [A, B], [("unexpected", "b", None, 1)]),
        ([A, B, C], [B, C, A], [("reordered", "a", 0, 2)]),
        ([A, B], [B, A], [("reordered", "a", 0, 1)]),
        ([A, B], [A, B, A], [("duplicate", "a", None, 2)]),
        ([A, A, B], [A, B], [("missing", "a", 1, None)]),
        ([A, B], [A, event("b", "other")], [("changed", "b", 1, 1)]),
        ([A], [B], [("missing", "a", 0, None), ("unexpected", "b", None, 0)]),
        (None, [A], [("unexpected", "a", None, 0)]),
        ([A, B], [event("b", "x"), A], [("changed", "b", 1, 0)]),
    ],
)
def test_sequences_of_tool_events_are_told_apart(
    expected: Any, actual: Any, findings: list[tuple[str, str, int | None, int | None]]
) -> None:
    assert [found[:4] for found in compare_tool_events(expected, actual).findings] == findings


def test_a_changed_tool_event_says_where() -> None:
    diff = compare_tool_events([A, event("b", "hello", "s1")], [A, event("b", "goodbye", "s2")])
    [found] = diff.findings
    assert found.differences is not None
    assert [each.path for each in found.differences.differences] == ["/output/stdout"]
    data = diff.to_data()
    assert data["findings"][0]["differences"]["differences"][0]["actual"] == "goodbye"
    assert data["expected_digest"] != data["actual_digest"]


def test_tool_events_with_other_span_ids_are_equal_and_without_masks_they_are_not() -> None:
    expected, actual = [event("a", "x", "abc")], [event("a", "x", "def")]
    assert compare_tool_events(expected, actual).equal
    assert not compare_tool_events(expected, actual, Masks(())).equal


@given(st.lists(st.sampled_from([A, B, C, event("a", "1")])), st.lists(st.sampled_from([A, B, C, event("b", "1")])))
def test_sequences_that_differ_always_have_a_finding(expected: list[Any], actual: list[Any]) -> None:
    diff = compare_tool_events(expected, actual)
    assert diff.equal == (expected == actual)
    assert diff.equal == (diff.expected_digest == diff.actual_digest)


def test_tool_events_that_are_no_list_are_refused() -> None:
    with pytest.raises(InvalidInput) as refusal:
        compare_tool_events({"name": "a"}, [])  # type: ignore[arg-type]
    assert refusal.value.code == "bad_tool_events"


CHAT = {"choices": [{"message": {"content": None, "tool_calls": [
    {"id": "call_1", "type": "function", "function": {"name": "find", "arguments": '{"b": 1, "a": "x"}'}}
]}}]}  # fmt: skip


@pytest.mark.parametrize(
    ("answer", "rest"),
    [
        (CHAT, {"choices": [{"message": {"content": None}}]}),
        (
            {"content": [{"type": "text", "text": "hi"}, {"type": "tool_use", "id": "t", "name": "find",
                                                          "input": {"a": "x", "b": 1}}]},
            {"content": [{"type": "text", "text": "hi"}]},
        ),
        (
            {"candidates": [{"content": {"parts": [{"functionCall": {"name": "find", "args": {"a": "x", "b": 1}}}]}}]},
            {"candidates": [{"content": {"parts": []}}]},
        ),
        (
            {"output": [{"type": "function_call", "call_id": "c", "name": "find", "arguments": '{"a":"x","b":1}'}]},
            {"output": []},
        ),
        ({"function_call": {"name": "find", "arguments": '{"a":"x","b":1}'}, "role": "model"}, {"role": "model"}),
    ],
    ids=["openai chat", "anthropic", "google", "openai responses", "openai functions"],
)  # fmt: skip
def test_tool_calls_are_taken_out_of_an_answer_of_any_maker(answer: Any, rest: Any) -> None:
    assert extract_tool_calls(answer) == (rest, [ComparedToolCall("find", {"a": "x", "b": 1})])


def test_what_only_looks_like_a_call_stays() -> None:
    tools = {"tools": [{"type": "function", "function": {"name": "find", "parameters": {}}}], "function": "sin"}
    assert extract_tool_calls(tools) == (tools, [])
    with_more = [{"function": {"name": "find", "arguments": "{}"}, "secret": 5}]
    assert extract_tool_calls(with_more) == (with_more, [])
    odd = {"type": "function_call", "name": "f", "arguments": '{"n": 9007199254740993}'}
    assert extract_tool_calls([odd]).calls == [ComparedToolCall("f", '{"n": 9007199254740993}')]


@pytest.mark.parametrize(
    ("expected", "actual", "findings"),
    [
        ("ab", "ab", {}),
        ("ab", "a", {"missing": ("b",)}),
        ("a", "ab", {"unexpected": ("b",)}),
        ("abc", "bca", {"reordered": ("a",)}),
        ("ab", "aba", {"duplicate": ("a",)}),
        ("aab", "ab", {"missing": ("a",)}),
        ("aba", "aab", {"reordered": ("b", "a")}),
        ("aa", "aa", {}),
        ("ab", "ca", {"missing": ("b",), "unexpected": ("c",)}),
        ("abc", "cad", {"missing": ("b",), "unexpected": ("d",), "reordered": ("a",)}),
        ("", "", {}),
    ],
)
def test_sets_of_attestations_are_told_apart(expected: str, actual: str, findings: dict[str, Any]) -> None:
    left, right = ([Attestation.of(name, {"says": name}) for name in side] for side in (expected, actual))
    diff = compare_attestations(left, right)
    assert diff.findings == findings
    assert diff.equal == (expected == actual)


@given(st.text("abc", max_size=8), st.text("abc", max_size=8))
def test_lists_of_attestations_that_differ_always_have_a_finding(expected: str, actual: str) -> None:
    diff = compare_attestations([Attestation(name) for name in expected], [Attestation(name) for name in actual])
    assert diff.equal == (expected == actual)


def test_a_forged_attestation_is_refused_though_its_id_and_digest_match() -> None:
    honest = Attestation.of("a1", {"result": "ok"})
    forged = Attestation("a1", honest.digest, {"result": "stolen"})
    diff = compare_attestations([honest], [forged])
    assert diff.findings == {"forged": ("a1",)}
    assert compare_attestations([forged], [honest]).findings == {"forged": ("a1",)}


def test_the_same_id_with_another_content_is_changed() -> None:
    diff = compare_attestations([Attestation.of("a1", {"n": 1})], [Attestation.of("a1", {"n": 2})])
    assert diff.findings == {"changed": ("a1",)}
    assert diff.to_data()["changed"] == ["a1"]


def test_ids_alone_are_compared_and_said_to_be_unverified() -> None:
    diff = compare_attestations([Attestation("a1")], [Attestation.of("a1", b"bytes")])
    assert diff.equal
    assert diff.unverified == ("a1",)
    assert content_digest(b"bytes") != content_digest("bytes")


def test_attestations_are_found_in_an_output() -> None:
    digest = content_digest({"n": 1})
    rest, found = extract_attestations(
        {"ok": 1, "attestation_ids": ["x"], "attestations": [{"id": "y", "digest": digest}]}
    )
    assert rest == {"ok": 1}
    assert found == [Attestation("x"), Attestation("y", digest)]
    odd = {"attestations": [{"id": "y", "digest": "md5:1"}], "attestation_ids": [1]}
    assert extract_attestations(odd) == (odd, [])


@pytest.mark.parametrize(("name", "digest"), [("", None), (None, None), ("a", "sha256:12"), ("a", 5)])
def test_an_attestation_without_an_id_or_with_an_odd_digest_is_refused(name: Any, digest: Any) -> None:
    with pytest.raises(InvalidInput) as refusal:
        Attestation(name, digest)
    assert refusal.value.code == "bad_attestation"
