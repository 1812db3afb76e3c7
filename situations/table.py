"""Render the table of situations as Markdown."""

from __future__ import annotations

from situations.catalogue import Situation
from situations.checks import Verdict
from situations.measuring import Cell
from situations.subjects import Subject

INTRODUCTION = """# Situations

`make situations` writes this page. Recorders of agents are known to fail in these small programs.
Each program runs under every recorder that can be installed, against a model server on loopback.
The server numbers its answers, so a replay that goes out is counted. Its slow and fast answers
swap between recording and replay.

Every recorder gets the same task. A replay holds if the program prints the same lines again, no
request reaches the server, and the recorder itself reports success. Every recorder is used as its
documentation says, with the settings that fit the situation.

✔ holds · ✘ does not hold, with what happened instead
"""


def line(subject: str, situation: str, found: Verdict) -> str:
    return f"{situation:18} {subject:18} {'holds' if found.holds else 'FAILS':6} {found.note}"


def document(
    subjects: list[Subject], missing: dict[str, str], chosen: dict[str, Situation], found: dict[Cell, Verdict]
) -> str:
    return "\n".join(
        [
            INTRODUCTION,
            *_overview(subjects, chosen, found),
            *_details(subjects, chosen, found),
            *_how(subjects, missing),
        ]
    )


def _overview(subjects: list[Subject], chosen: dict[str, Situation], found: dict[Cell, Verdict]) -> list[str]:
    rows = [
        f"| situation | {' | '.join(f'{subject.name} {subject.version}'.strip() for subject in subjects)} |",
        f"|---|{'---|' * len(subjects)}",
    ]
    for name, situation in chosen.items():
        marks = [_mark(found.get((subject.name, name))) for subject in subjects]
        rows.append(f"| {situation.title} | {' | '.join(marks)} |")
    held = [sum(_mark(found.get((subject.name, name))) == "✔" for name in chosen) for subject in subjects]
    rows.append(f"| **holds, of {len(chosen)}** | {' | '.join(f'**{count}**' for count in held)} |")
    return [*rows, ""]


def _mark(verdict: Verdict | None) -> str:
    return "not measured" if verdict is None else "✔" if verdict.holds else "✘"


def _details(subjects: list[Subject], chosen: dict[str, Situation], found: dict[Cell, Verdict]) -> list[str]:
    rows = ["## What happened", ""]
    for name, situation in chosen.items():
        rows += [f"### {name}", "", f"{situation.title} (`situations/programs/{situation.program}.py`)", ""]
        for subject in subjects:
            if verdict := found.get((subject.name, name)):
                rows.append(f"- {_mark(verdict)} **{subject.name}**: {_plain(verdict.note)}")
        rows.append("")
    return rows


def _how(subjects: list[Subject], missing: dict[str, str]) -> list[str]:
    rows = ["## How each was used", ""]
    rows += [f"- **{f'{subject.name} {subject.version}'.strip()}**: {subject.note}." for subject in subjects]
    rows += [f"- **{name}**: not installed: {_plain(reason)}" for name, reason in missing.items()]
    return [*rows, ""]


def _plain(text: str) -> str:
    """Return foreign text without markup."""
    words = " ".join("".join(c if c.isprintable() else " " for c in text).split()).replace("`", "'")
    return words.replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*").replace("[", "\\[").replace("_", "\\_")
