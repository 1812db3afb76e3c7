"""Implement `onrecord show`: print the timeline of a run, one event in full, or the state at a position."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

import click

from onrecord.cli.commands.completion import complete_run
from onrecord.cli.render.output import fields, note, say, say_json, suggest, value_lines
from onrecord.cli.render.progress import Progress
from onrecord.cli.render.text import (
    brief,
    cost_text,
    count_text,
    duration_text,
    inert,
    lane_text,
    local_time,
    status_text,
    tokens_text,
)
from onrecord.cli.render.timeline import print_events
from onrecord.cli.results import command_for
from onrecord.cli.settings import Settings, shared_options
from onrecord.cli.stores import reading
from onrecord.errors import InvalidInput

if TYPE_CHECKING:  # loaded when the command runs
    from onrecord.capture.processes.run_tree import Child
    from onrecord.journal.reader import JournalReader
    from onrecord.reports.effects import ReportedEffect
    from onrecord.reports.timelines import SeenEvent
    from onrecord.store.contract import Store

INTEGRITY_BROKEN = 4
SHOWN_FACT_CHARACTERS = 400
MOST_PROCESSES = 50
FOLLOW_UPS = {
    "running": (("show", "--follow"), "follow it"),
    "interrupted": (("resume",), "resume it"),
    "waiting": (("waits",), "list what it waits for"),
    "blocked": (("resume", "--decision", "JSON"), "answer its interrupt"),
    "in_doubt": (("settle",), "decide whether the effect happened"),
    "failed": (("step",), "step to where it failed"),
}
"""Status → the next command to suggest, and why."""


@click.command()
@shared_options
@click.argument("run", shell_complete=complete_run)
@click.option("--event", "seq", type=click.IntRange(1), metavar="N", help="Show event N in full.")
@click.option("--context", is_flag=True, help="Show what the model saw in its last call, or in the call at --event.")
@click.option("--state", "position", type=click.IntRange(0), metavar="N", help="Show the state after event N.")
@click.option("--follow", "-f", is_flag=True, help="Show new events until the run ends.")
@click.option("--from", "start", type=click.IntRange(1), metavar="N", help="Begin the timeline at event N.")
@click.option(
    "--limit", type=click.IntRange(1, 100_000), default=100, show_default=True, help="Show at most this many events."
)
@click.option("--full", is_flag=True, help="With --context: show every message in full.")
@click.pass_obj
def show(settings: Settings, /, run: str, **options: Any) -> int | None:
    """Show RUN: its header and its timeline.

    Each lane has a column: ○ requested, ● answered, × failed, ┃ executing. With --context each message is labelled
    against the previous model call: INJECTED, DROPPED, CHANGED, TRUNCATED, EXTENDED.

    \b
    onrecord show @last                 show the timeline
    onrecord show @last --follow        show it live
    onrecord show @last --event 3       show one event in full
    onrecord show @last --context       show what the model saw in its last call
    onrecord show @last --context --event 7
    onrecord show @last --state 3       show the state after event 3
    """
    from onrecord.cli.selection import selected_run
    from onrecord.journal.reader import JournalReader

    _check_exclusive(options)
    with reading(settings) as store:
        reader = JournalReader(store, selected_run(store, settings.namespace, run), settings.namespace)
        if options["context"]:
            from onrecord.cli.render.model_context import show_context

            show_context(settings, reader, options["seq"], full=options["full"])
            return None
        if options["seq"] is not None:
            return _show_event(settings, reader, options["seq"])
        if options["position"] is not None:
            return _show_state(settings, reader, options["position"])
        if options["follow"]:
            from onrecord.cli.render.follow import follow

            return follow(settings, reader, options["start"], options["limit"])
        return _show_timeline(settings, reader, options["start"] or 1, options["limit"])


def _check_exclusive(options: dict[str, Any]) -> None:
    """Raise `InvalidInput` if more than one of --event or --context, --state and --follow is given."""
    given = [
        f"--{name}"
        for name, value in (
            ("event" if not options["context"] else "context", options["seq"] is not None or options["context"]),
            ("state", options["position"] is not None),
            ("follow", options["follow"]),
        )
        if value
    ]
    if len(given) > 1:
        raise InvalidInput(f"{' and '.join(given)} exclude each other", code="usage")


def _show_event(settings: Settings, reader: JournalReader, seq: int) -> int | None:
    from onrecord.reports.timelines import event_report, one_event

    seen = one_event(reader, seq)
    if settings.json:
        say_json(event_report(reader.run, seen))
        return None
    fields(
        [
            ("run", inert(reader.run)),
            ("event", f"{seen.seq} {inert(seen.kind)}"),
            ("time", local_time(seen.time or 0)),
            ("lane", lane_text(seen.lane)),
            ("key", inert(seen.key or "-")),
            ("parent", str(seen.parent or "-")),
            ("id", inert(seen.id or "-")),
            ("hash", str(seen.hash)),
            *_effect_lines(reader, seen),
        ]
    )
    for line in ["the content was erased"] if seen.erased else value_lines(seen.content):
        say(line)
    _suggest_from_event(settings, reader, seen)
    return None


def _suggest_from_event(settings: Settings, reader: JournalReader, seen: SeenEvent) -> None:
    steps = []
    if isinstance(seen.content, dict) and seen.content.get("effect") == "model_call":
        context = command_for(settings, "show", reader.run, "--context", "--event", str(seen.seq))
        steps.append((context, "show what the model saw"))
    last = reader.store.last_event(reader.namespace, reader.run)
    if last is not None and seen.seq < last.seq:
        steps.append((command_for(settings, "show", reader.run, "--event", str(seen.seq + 1)), "show the next event"))
    suggest(settings, *steps)


def _effect_lines(reader: JournalReader, seen: SeenEvent) -> list[tuple[str, str]]:
    """Return the fields of an answer: its request, its duration and its usage."""
    effect = effects_by_answer(reader, [seen]).get(seen.seq)
    if effect is None:
        return []
    lines = [("answers", f"event {effect.seq} {inert(effect.name or '')}".rstrip())]
    lines += [("took", duration_text(effect.took_us))] if effect.took_us is not None else []
    used = _summarise_usage({seen.seq: effect})
    return [*lines, ("used", used)] if used else lines


def _show_state(settings: Settings, reader: JournalReader, position: int) -> int | None:
    from onrecord.reports.states import state_at

    found = state_at(reader, position)
    if settings.json:
        say_json(found.to_json())
        return None
    note(f"state of {inert(reader.run)} after event {position}, {found.state_hash}")
    for line in value_lines(found.state):
        say(line)
    return None


def _show_timeline(settings: Settings, reader: JournalReader, start: int, limit: int) -> int | None:
    from onrecord.capture.processes.run_tree import children_of, processes_report
    from onrecord.reports.timelines import timeline_page

    with Progress("reading"):
        page = timeline_page(reader, start, limit)
    processes = list(islice(children_of(reader.store, reader.namespace, reader.run), MOST_PROCESSES + 1))
    seen = page.events
    damaged = [one for one in seen if one.damage is not None]
    if settings.json:
        say_json({**page.to_json(), "processes": processes_report(reader)})
    else:
        effects = effects_by_answer(reader, seen)
        _print_header(page.header, processes, _summarise_usage(effects) if start == 1 and page.next is None else "")
        say()
        print_events(seen, effects)
        if page.next is not None:
            shown = f"{seen[0].seq} to {seen[-1].seq} of {page.last:,}"
            note(f"events {shown} are shown; continue with --from {page.next}, or show more with --limit {limit * 10}")
        _suggest(settings, page.header, effects)
    if not damaged:
        return None
    message = f"{count_text(len(damaged), 'event')} of run {reader.run} cannot be read, the first is {damaged[0].seq}"
    note(f"error: {inert(message)} [damaged]")
    note("`onrecord verify` locates all damage; `onrecord recover` copies the valid prefix to a new store.")
    return INTEGRITY_BROKEN


def effects_by_answer(reader: JournalReader, events: Sequence[SeenEvent]) -> dict[int, ReportedEffect]:
    """Return the effects whose answers are among these events, by the seq of the answer."""
    from onrecord.capture.usage import usage_of
    from onrecord.reports.effects import effects_of

    if not events:
        return {}
    found = effects_of(reader, usage_of, events[0].seq, events[-1].seq + 1, open_too=False)
    return {one.answer: one for one in found if one.answer is not None}


def _summarise_usage(effects: dict[int, ReportedEffect]) -> str:
    """Return the model calls, tokens and cost of all effects on one line."""
    usages = [one.used for one in effects.values() if one.used is not None]
    calls = sum(one.kind == "model_call" for one in effects.values())
    costs = [one.cost for one in usages if one.cost is not None]
    parts = [count_text(calls, "model call")] if calls else []
    parts += [f"{tokens_text(sum(one.tokens for one in usages))} tokens"] if usages else []
    parts += [cost_text(sum(costs)) + (" and more" if len(costs) < len(usages) else "")] if costs else []
    return ", ".join(parts)


def _suggest(settings: Settings, header: dict[str, Any], effects: dict[int, ReportedEffect]) -> None:
    run = header["run"]
    steps: list[tuple[str, str]] = []
    follow_up = FOLLOW_UPS.get(header["status"])
    if follow_up is not None:
        (verb, *more), why = follow_up
        steps.append((command_for(settings, verb, run, *more), why))
    if any(one.kind == "model_call" for one in effects.values()):
        steps.append((command_for(settings, "show", run, "--context"), "show what the model saw last"))
    if header["status"] == "completed":
        steps.append((command_for(settings, "replay", run), "run the code again on this record"))
    suggest(settings, *steps[:2])


def print_timeline(store: Store, run: str, namespace: str) -> None:
    """Print the timeline of a short run, without its header."""
    from onrecord.journal.reader import JournalReader
    from onrecord.reports.timelines import events_between

    reader = JournalReader(store, run, namespace)
    events = list(events_between(reader, 1))
    print_events(events, effects_by_answer(reader, events))


def _print_header(header: dict[str, Any], processes: list[Child], used: str) -> None:
    origin = " (imported: recorded elsewhere)" if header["imported"] else ""
    lines = [
        ("run", inert(header["run"]) + origin),
        ("status", status_text(header["status"], header["about"])),
        ("created", str(header["created"])),
        ("events", f"{header['events']:,}"),
        ("head", f"{header['events']}:{header['head']}"),
    ]
    if used:
        lines.append(("used", used))
    if header["recorded_as"] != header["run"]:
        lines.append(("recorded as", inert(header["recorded_as"])))
    if (parent := header["parent"]) is not None:
        lines.append(("parent", f"{parent['relation']} of {inert(parent['run'])} at {parent['seq']}"))
    shown = processes[:MOST_PROCESSES]
    lines.extend(("process", f"{inert(one.run)} {inert(f'{one.how} {one.name}')[:80]}") for one in shown)
    if len(processes) > MOST_PROCESSES:
        lines.append(("process", "… and more"))
    if header["facts_erased"]:
        lines.append(("facts", "erased"))
    elif header["facts"] is None:
        lines.append(("facts", "unreadable; run `onrecord verify` to see why"))
    else:
        lines.extend(
            (inert(str(name))[:40], brief(value, SHOWN_FACT_CHARACTERS)) for name, value in header["facts"].items()
        )
    fields(lines)
