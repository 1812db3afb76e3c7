"""The table of the frameworks in `docs/evidence/frameworks.md`."""

from __future__ import annotations

import re
from dataclasses import astuple, dataclass

from frameworks.catalogue import FRAMEWORKS, Framework
from frameworks.environments import ROOT
from frameworks.trial import PROGRAMS, Figures

PAGE = ROOT / "docs" / "evidence" / "frameworks.md"
BEGIN, END = "<!-- make frameworks: begin -->\n", "<!-- make frameworks: end -->\n"
HEAD = (
    "| framework | program | requests | same replays | resumed after a kill | changed word |\n"
    "|---|---|---|---|---|---|\n"
)


@dataclass(frozen=True)
class Row:
    version: str
    program: str
    requests: str
    replays: str
    resumes: str
    change: str

    @classmethod
    def of(cls, framework: Framework, version: str, program: str, figures: Figures) -> Row:
        settled = f", {figures.settled} in doubt" if figures.settled else ""
        return cls(
            version,
            f"`{program}`: {_describe(program)}",
            str(figures.requests),
            f"{figures.same}/{figures.replays}",
            f"{figures.resumed}/{figures.kills}{settled}",
            "reported" if figures.change_is_reported else "**not reported**",
        )

    @classmethod
    def not_installed(cls, framework: Framework, program: str) -> Row:
        return cls(framework.name, f"`{program}`", "", "not installed", "", "")

    @property
    def line(self) -> str:
        return f"| {' | '.join(astuple(self))} |"


def _describe(program: str) -> str:
    """Return the first line of the program's docstring, without the name of the framework."""
    line = (PROGRAMS / f"{program}.py").read_text(encoding="utf-8").splitlines()[0].strip('"').rstrip(".")
    return line.partition(": ")[2] or line


def read_rows() -> dict[str, Row]:
    """Return the rows of the page by their program."""
    section = PAGE.read_text(encoding="utf-8").partition(BEGIN)[2].partition(END)[0]
    rows = [Row(*re.split(r" \| ", line.strip("| "))) for line in section.splitlines()[2:] if line.startswith("|")]
    return {row.program.split("`")[1]: row for row in rows}


def write_rows(rows: dict[str, Row]) -> None:
    before, begin, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    assert begin, f"{PAGE} has no place for the table"
    assert end, f"the table of {PAGE} has no end"
    order = [program for framework in FRAMEWORKS for program in framework.programs]
    lines = "".join(f"{rows[program].line}\n" for program in order if program in rows)
    PAGE.write_text(f"{before}{BEGIN}{HEAD}{lines}{END}{after}", encoding="utf-8")
