"""JUnit XML that every reader accepts, whatever is in the data."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onrecord.analysis.fleet.junit import junit_xml
from onrecord.analysis.fleet.results import Finding, FleetReport, RunResult, skipped
from onrecord.analysis.fleet.shard import Shard

NASTY = [
    "]]>",
    "<![CDATA[",
    "</failure></testcase>",
    "<!-- -->",
    "&amp;&#0;&nope;",
    "\"'<>&",
    "\x00\x01\x08\x0b\x1f\x7f\x85",
    "\ud800\udfff lone",
    "\ufffe\uffff",
    "\u2028\u202e",
    "line\none\r\ntwo\ttabbed",
    "<?xml version='1.0'?>",
    "\U0001f600",
]


def report(*results: RunResult, shard: Shard | None = None) -> FleetReport:
    return FleetReport(
        command="replay",
        namespace="default",
        results=results,
        selected=len(results),
        to_judge=len(results),
        to_judge_here=len(results),
        shard=shard,
        seconds=1.25,
    )


def read(made: FleetReport) -> ElementTree.Element:
    return ElementTree.fromstring(junit_xml(made).encode("utf-8"))


def broken(text: str, verdict: str = "diverged") -> RunResult:
    finding = Finding(
        verdict=verdict, code=text, message=text, hint=text, where={"actual": text}, output=text, status=1
    )
    return RunResult(text, text, None, finding)


def test_suites_suite_and_cases() -> None:
    results = [
        RunResult("one", "support", None, Finding(verdict="same", seconds=0.5)),
        broken("two"),
        broken("three", "died"),
        RunResult("four", None, None, skipped("running", "it is still running")),
    ]
    root = read(report(*results, shard=Shard(2, 3)))
    (suite,) = root
    assert (root.tag, suite.tag, suite.get("name")) == ("testsuites", "testsuite", "onrecord replay 2/3")
    for element in (root, suite):
        counted = {name: element.get(name) for name in ("tests", "failures", "errors", "skipped", "time")}
        assert counted == {"tests": "4", "failures": "1", "errors": "1", "skipped": "1", "time": "1.250"}
    cases = list(suite)
    assert [case.tag for case in cases] == ["testcase"] * 4
    assert cases[0].attrib == {"classname": "onrecord.replay.support", "name": "one", "time": "0.500"}
    assert [[child.tag for child in case] for case in cases] == [
        [],
        ["failure", "system-err"],
        ["error", "system-err"],
        ["skipped"],
    ]
    assert cases[3][0].get("message") == "it is still running [running]"
    assert (cases[1][0].get("type"), cases[1][0].get("message")) == ("diverged: two", "two")
    assert "actual: two" in (cases[1][0].text or "")


def test_a_suite_without_cases_is_one() -> None:
    assert read(report())[0].get("tests") == "0"


@pytest.mark.parametrize("text", NASTY)
def test_nothing_in_the_data_breaks_the_xml(text: str) -> None:
    check(text)


@given(st.text(st.characters(codec=None)))
def test_no_text_at_all_breaks_the_xml(text: str) -> None:
    check(text)


def check(text: str) -> None:
    root = read(report(broken(text), RunResult("plain", None, None, Finding(verdict="same"))))
    failed, plain = root[0]
    legal = "".join(one if is_legal(one) else "\ufffd" for one in text)
    assert failed.get("name") == legal
    assert failed[0].get("message") == legal
    assert f"actual: {legal}" in (failed[0].text or "")
    assert [child.tag for child in failed] == ["failure", *(["system-err"] if text else [])]
    assert (plain.get("name"), len(plain)) == ("plain", 0)


def is_legal(character: str) -> bool:
    code = ord(character)
    return code in (9, 10, 13) or 0x20 <= code <= 0xD7FF or 0xE000 <= code <= 0xFFFD or code >= 0x10000
