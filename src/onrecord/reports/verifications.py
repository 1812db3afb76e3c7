"""The verdict on a run."""

from __future__ import annotations

from typing import Any

import msgspec

from onrecord.journal.verify import VerificationReport


def verification_report(report: VerificationReport) -> dict[str, Any]:
    members: dict[str, Any] = msgspec.to_builtins(report)
    return {
        **members,
        "problems": [problem._asdict() for problem in report.problems],
        "valid": report.valid,
        "first_bad_seq": report.first_bad_seq,
        "line": report.line,
    }
