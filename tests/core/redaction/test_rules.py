"""Patterns that could take long are refused; whatever is accepted, and everything that is built in, is bounded."""

from __future__ import annotations

import json
import time

import pytest

from onrecord.core.redaction import Redactor, Rule
from onrecord.errors import InvalidInput

LONG = 100_000


@pytest.mark.parametrize(
    "pattern",
    [
        r"(a+)+$",
        r"aaaa(a+)+$",
        r"(?:aa|aa)*aaaab",
        r"aaaa.*b",
        r"aaaa[a-z]+[a-z]+b",
        r"a{1,2000}aaaab",
        r"a{1,40}a{1,40}aaaab",
        r"(?=aaaa)aaaa",
        r"(?<!a)aaaa",
        r"(aaaa)\1",
        r"aaa",
        r"[unclosed",
        r"a" * 2000,
        r"((a{1,9}){1,9}){1,9}aaaa",
    ],
)
def test_patterns_that_may_take_long_are_refused(pattern: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        Redactor([Rule("mine", pattern)])
    assert refusal.value.code == "bad_redaction_rule"


def test_kinds_are_names() -> None:
    with pytest.raises(InvalidInput):
        Redactor([Rule("Not a kind>", "aaaa")])


@pytest.mark.parametrize("pattern", [r"a{1,32}a{1,32}aaab", r"aaaa[a-z]+", r"\ba[a-z]{1,500}\b[0-9]{3}"])
def test_accepted_patterns_are_bounded(pattern: str) -> None:
    redactor = Redactor([Rule("mine", pattern)])
    began = time.process_time()
    redactor.redact_request("a" * LONG)
    assert time.process_time() - began < 10


@pytest.mark.parametrize(
    "text",
    [
        "a" * LONG,
        "4" * LONG,
        "4 " * LONG,
        '"password":"' * (LONG // 12),
        '\\"password\\":\\"' * (LONG // 16),
        '"password": "' + "x" * LONG,
        "password='" * (LONG // 10),
        "eyJ" * LONG,
        "eyJ" + "a" * LONG + "." + "b" * LONG,
        "sk-" * LONG,
        "-----BEGIN PRIVATE KEY-----" * (LONG // 27),
        "://" * LONG + "@",
        "://a:" * (LONG // 5) + "@",
        "Bearer " * (LONG // 7),
        "Authorization: " * (LONG // 15),
        "Authorization: x\n" * (LONG // 17),
        "?key=" * (LONG // 5),
        "%41" * LONG,
        "\\u0041" * (LONG // 6),
        "key" * LONG,
        "a=b&" * (LONG // 4),
        "password=" * (LONG // 9),
        "password: " * (LONG // 10),
        "password: '" * (LONG // 11),
        "\npassword: " * (LONG // 11),
        "<password>" * (LONG // 10),
        "<password " * (LONG // 10),
        "<password>x" + "y" * LONG,
        "<password>" + " " * LONG + "x",
        '[["password","' * (LONG // 14),
        '[["password","' + "x" * LONG,
        "--password " * (LONG // 11),
        "--password=" * (LONG // 11),
        "password=a." + "a." * LONG,
        "password=" + "a&a=" * LONG,
        "\\" * LONG + "password: " + "\\" * LONG,
        "<secret:" * (LONG // 8),
        "\\" * LONG + '"password"',
        json.dumps(["sk-ant-" + "x" * 100] * 1000),
    ],
    ids=lambda text: text[:20],
)
def test_hostile_texts_take_bounded_time(text: str) -> None:
    redactor = Redactor(known_values=["hunter2-hunter2"])
    began = time.process_time()
    redactor.redact_request(text)
    assert time.process_time() - began < 10
