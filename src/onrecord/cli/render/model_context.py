"""`onrecord show --context`: what a model saw, message by message, against the call before."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from onrecord.cli.render.output import fields, note, on_terminal, painted, say, say_json, suggest, terminal_width
from onrecord.cli.render.styled_text import Line, Piece, drawn, marked, split_lines, wrapped
from onrecord.cli.render.text import brief, count_text, fit, inert, lane_text
from onrecord.cli.results import command_for

if TYPE_CHECKING:  # loaded when the command runs
    from onrecord.cli.settings import Settings
    from onrecord.journal.reader import JournalReader
    from onrecord.reports.contexts import ContextReport

STYLES = {
    "INJECTED": "green bold",
    "DROPPED": "red bold",
    "CHANGED": "yellow bold",
    "TRUNCATED": "magenta bold",
    "EXTENDED": "cyan bold",
}
LINES_OF_MESSAGE = 12
LINES_OF_SAME = 1
INDENT = 4
SHOWN_SETTINGS = 8


def show_context(settings: Settings, reader: JournalReader, seq: int | None, *, full: bool) -> None:
    from onrecord.reports.contexts import context_report

    report = context_report(reader, seq)
    if settings.json:
        say_json(report.to_json())
        return
    hidden = say_context(report, full=full)
    if hidden:
        note(f"{count_text(hidden, 'more line')} of these messages; show them with --full")
    steps = [(command_for(settings, "show", report.run, "--event", str(report.seq)), "the request as it was sent")]
    if report.answer is not None:
        answer = command_for(settings, "show", report.run, "--event", str(report.answer))
        steps.insert(0, (answer, "what it answered"))
    suggest(settings, *steps[:2])


def say_context(report: ContextReport, *, full: bool) -> int:
    """How many lines were left out."""
    _say_header(report)
    hidden = 0
    for message in report.messages:
        say()
        hidden += _say_message(message, full=full)
    return hidden


def _say_header(report: ContextReport) -> None:
    before = report.before
    against = "nothing: it is the first model call of its conversation"
    if before is not None:
        elsewhere = f" of run {inert(before['run'])}" if before["run"] != report.run else ""
        lane = f", lane {lane_text(before['lane'])}" if before["lane"] != report.lane else ""
        against = f"the call before, at event {before['seq']}{elsewhere}{lane}"
    counts = ", ".join(f"{number} {label}" for label, number in report.counts.items())
    lines = [
        ("run", inert(report.run)),
        ("call", f"event {report.seq} {inert(report.name or '')}, lane {lane_text(report.lane)}"),
        ("model", inert(report.model or "-")),
        ("against", against),
        ("messages", f"{len(report.messages)}{': ' + counts if counts else ''}"),
    ]
    if report.tools:
        lines.append(("tools", inert(", ".join(report.tools))))
    if report.goes_on_from is not None:
        kept = "goes on from an earlier answer that the provider keeps: what was in it is not in this request"
        lines.append(("note", f"{kept} ({inert(report.goes_on_from)})"))
    fields(lines)
    _say_settings(report.settings)


def _say_settings(found: dict[str, Any] | None) -> None:
    if found is None or found["equal"]:
        return
    for one in found["differences"][:SHOWN_SETTINGS]:
        before, after = brief(one.get("expected"), 60), brief(one.get("actual"), 60)
        text = {"added": f"+ {inert(one['path'])}: {after}", "removed": f"- {inert(one['path'])}: {before}"}
        say(painted("setting   ", "dim") + text.get(one["kind"], f"~ {inert(one['path'])}: {before} → {after}"))
    if found["total"] > SHOWN_SETTINGS:
        say(painted("setting   ", "dim") + f"… and {found['total'] - SHOWN_SETTINGS:,} more")


def _say_message(message: dict[str, Any], *, full: bool) -> int:
    """How many of its lines were left out."""
    label = message["label"]
    index = "-" if message["index"] is None else str(message["index"] + 1)
    heading = f"{index:>3} {fit(inert(message['role']), 20)}"
    shown = "" if label in (None, "SAME") else label
    about = painted(f"{_about(message)}", "dim")
    parts = [painted(heading, "bold"), painted(shown, STYLES.get(shown, "")), about]
    say("  ".join(part for part in parts if part))
    width = max(16, terminal_width() - INDENT) if on_terminal() else 10_000
    lines = [part for line in _lines(message) for part in wrapped(line, width)]
    most = len(lines) if full else LINES_OF_SAME if label == "SAME" else LINES_OF_MESSAGE
    style = "dim" if label in ("SAME", "DROPPED") else ""
    for line in lines[:most]:
        say(" " * INDENT + drawn([Piece(piece.text, piece.style or style) for piece in line]))
    left = len(lines) - min(most, len(lines))
    if left:
        say(" " * INDENT + painted(f"… {count_text(left, 'more line')}", "dim"))
    return left


def _about(message: dict[str, Any]) -> str:
    if message["label"] == "INJECTED":
        origin = "its own answer" if message["origin"] == "answer" else ""
        return origin or ("" if message["place"] == "end" else "between messages that were there")
    if message["label"] in ("TRUNCATED", "EXTENDED"):
        return f"{len(message['before']['text']):,} characters before, {len(message['text']):,} now"
    return ""


def _lines(message: dict[str, Any]) -> Iterator[Line]:
    words = message.get("words")
    if words is not None:
        from onrecord.analysis.compare.texts import TextDiff, TextRun

        runs = tuple(TextRun(run["kind"], run["text"]) for run in words["runs"])
        yield from split_lines(marked(TextDiff(words["by"], runs)))
    elif message["text"]:
        yield from split_lines([Piece(message["text"])])
    for call in message.get("calls", ()):
        yield [Piece("calls ", "dim"), Piece(f"{inert(str(call['name']))}({brief(call['input'], 2_000)})")]
    for result in message.get("results", ()):
        yield [Piece("result ", "dim"), Piece(brief(result, 2_000))]
    if message.get("rest") is not None:
        yield [Piece("besides ", "dim"), Piece(brief(message["rest"], 400))]
    for one in (message.get("rest_differs") or {}).get("differences", ()):
        before, after = brief(one.get("expected"), 200), brief(one.get("actual"), 200)
        yield [Piece(f"{inert(one['path'])}: ", "dim"), Piece(f"{before} → {after}")]
