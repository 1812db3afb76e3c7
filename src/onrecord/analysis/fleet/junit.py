"""Write a report as JUnit XML for GitHub, GitLab and Jenkins: one suite, with a case for every run.

Names, messages and output come from models, tools and strangers. Characters that XML 1.0 forbids (control characters,
lone surrogates, U+FFFE) become U+FFFD, and markup is escaped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from onrecord.analysis.fleet.results import ERROR, FAILED, SKIPPED, FleetReport, RunResult

_ILLEGAL = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_TEXT = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", "\r": "&#13;"})
_ATTRIBUTE = str.maketrans(
    {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "\t": "&#9;", "\n": "&#10;", "\r": "&#13;"}
)
_ELEMENT = {FAILED: "failure", ERROR: "error"}


def junit_xml(report: FleetReport) -> str:
    return "\n".join(_lines(report)) + "\n"


def _lines(report: FleetReport) -> Iterator[str]:
    totals = {
        "tests": len(report.results),
        "failures": report.outcomes(FAILED),
        "errors": report.outcomes(ERROR),
        "skipped": report.outcomes(SKIPPED),
        "time": _format_seconds(report.seconds),
    }
    name = f"onrecord {report.command}" + (f" {report.shard}" if report.shard is not None else "")
    yield '<?xml version="1.0" encoding="UTF-8"?>'
    yield f"<testsuites{_attributes(name='onrecord', **totals)}>"
    yield f"  <testsuite{_attributes(name=name, **totals)}>"
    for result in report.results:
        yield from _case(report, result)
    yield "  </testsuite>"
    yield "</testsuites>"


def _case(report: FleetReport, result: RunResult) -> Iterator[str]:
    found = result.finding
    classname = f"onrecord.{report.command}.{result.agent or report.namespace}"
    opening = f"    <testcase{_attributes(classname=classname, name=result.run, time=_format_seconds(found.seconds))}"
    if found.passed:
        yield f"{opening}/>"
        return
    yield f"{opening}>"
    if found.outcome == SKIPPED:
        yield f"      <skipped{_attributes(message=f'{found.message} [{found.code}]')}/>"
    else:
        element = _ELEMENT[found.outcome]
        attributes = _attributes(message=found.message, type=f"{found.verdict}: {found.code}")
        yield f"      <{element}{attributes}>{_escape(_details(result))}</{element}>"
    if found.output:
        yield f"      <system-err>{_escape(found.output)}</system-err>"
    yield "    </testcase>"


def _details(result: RunResult) -> str:
    found = result.finding
    lines = [f"{found.message} [{found.code}]", found.hint]
    lines += [f"{name}: {value}" for name, value in found.where.items()]
    for problem in (found.report or {}).get("problems", []):
        lines.append(f"event {problem['seq']}: {problem['message']} [{problem['code']}, {problem['sort']}]")
    return "\n".join(line for line in lines if line)


def _attributes(**values: object) -> str:
    return "".join(f' {name}="{_replace_illegal(str(value)).translate(_ATTRIBUTE)}"' for name, value in values.items())


def _escape(text: str) -> str:
    return _replace_illegal(text).translate(_TEXT)


def _replace_illegal(text: str) -> str:
    return _ILLEGAL.sub("\ufffd", text)


def _format_seconds(seconds: float) -> str:
    return f"{seconds:.3f}"
