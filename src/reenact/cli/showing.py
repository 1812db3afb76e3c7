"""`reenact show`: the timeline of a run, one event in full, or the state at a position."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

import click

from reenact.cli.output import Column, fields, note, say, say_json, table, value_lines
from reenact.cli.settings import Settings, shared_options
from reenact.cli.stores import reading
from reenact.cli.text import brief, count_text, inert, local_time, status_text
from reenact.errors import InvalidInput

if TYPE_CHECKING:  # loaded when the command runs
    from reenact.capture.processes.family import Child
    from reenact.journal.reader import JournalReader
    from reenact.reports.timelines import Seen
    from reenact.store.contract import Store

INTEGRITY_BROKEN = 4
SHOWN_FACT_CHARACTERS = 400
MOST_PROCESSES = 50
COLUMNS = (
    Column("seq", "bold", right=True),
    Column("time", "dim", drop=3),
    Column("lane", "dim", drop=4),
    Column("kind", "cyan"),
    Column("name", drop=1, flexible=True),
    Column("content", flexible=True),
)
# What an event is about, by preference: the member shown in a timeline.
_ESSENCE = (
    "payload",
    "output",
    "error",
    "value",
    "resolution",
    "reason",
    "chunk",
    "status",
    "decision",
    "draws",
    "turns",
)


@click.command()
@shared_options
@click.argument("run")
@click.option("--event", "seq", type=click.IntRange(1), metavar="N", help="Show event N in full.")
@click.option("--state", "position", type=click.IntRange(0), metavar="N", help="Show the state after event N.")
@click.option("--from", "start", type=click.IntRange(1), metavar="N", default=1, help="Begin the timeline at event N.")
@click.option(
    "--limit", type=click.IntRange(1, 100_000), default=100, show_default=True, help="At most so many events."
)
@click.pass_obj
def show(settings: Settings, run: str, seq: int | None, position: int | None, start: int, limit: int) -> int | None:
    """Show RUN: what is known of it and what happened.

    \b
    reenact show @last                 the timeline
    reenact show @last --event 3       one event with its whole content
    reenact show @last --state 3       the state after event 3
    """
    from reenact.cli.selection import selected_run
    from reenact.journal.reader import JournalReader

    if seq is not None and position is not None:
        raise InvalidInput("--event and --state exclude each other", code="usage")
    with reading(settings) as store:
        reader = JournalReader(store, selected_run(store, settings.namespace, run), settings.namespace)
        if seq is not None:
            return _show_event(settings, reader, seq)
        if position is not None:
            return _show_state(settings, reader, position)
        return _show_timeline(settings, reader, start, limit)


def _show_event(settings: Settings, reader: JournalReader, seq: int) -> int | None:
    from reenact.reports.timelines import event_report, one_event

    seen = one_event(reader, seq)
    if settings.json:
        say_json(event_report(reader.run, seen))
        return None
    fields(
        [
            ("run", inert(reader.run)),
            ("event", f"{seen.seq} {inert(seen.kind)}"),
            ("time", local_time(seen.time or 0)),
            ("lane", inert(seen.lane)),
            ("key", inert(seen.key or "-")),
            ("parent", str(seen.parent or "-")),
            ("id", inert(seen.id or "-")),
            ("hash", str(seen.hash)),
        ]
    )
    for line in ["the content was erased"] if seen.erased else value_lines(seen.content):
        say(line)
    return None


def _show_state(settings: Settings, reader: JournalReader, position: int) -> int | None:
    from reenact.reports.states import state_at

    found = state_at(reader, position)
    if settings.json:
        say_json(found.to_json())
        return None
    note(f"state of {inert(reader.run)} after event {position}, {found.state_hash}")
    for line in value_lines(found.state):
        say(line)
    return None


def _show_timeline(settings: Settings, reader: JournalReader, start: int, limit: int) -> int | None:
    from reenact.capture.processes.family import children_of, processes_report
    from reenact.reports.timelines import timeline_page

    page = timeline_page(reader, start, limit)
    processes = list(islice(children_of(reader.store, reader.namespace, reader.run), MOST_PROCESSES + 1))
    seen = page.events
    damaged = [one for one in seen if one.damage is not None]
    if settings.json:
        say_json({**page.to_json(), "processes": processes_report(reader)})
    else:
        _say_header(page.header, processes)
        say()
        table(COLUMNS, [_cells(one) for one in seen])
        if page.next is not None:
            shown = f"{seen[0].seq} to {seen[-1].seq} of {page.last:,}"
            note(f"events {shown} are shown; go on with --from {page.next}, or show more with --limit {limit * 10}")
    if not damaged:
        return None
    what = f"{count_text(len(damaged), 'event')} of run {reader.run} cannot be read, the first is {damaged[0].seq}"
    note(f"error: {inert(what)} [damaged]")
    note("`reenact verify` locates all damage; `reenact recover` copies the valid prefix to a new store.")
    return INTEGRITY_BROKEN


def print_timeline(store: Store, run: str, namespace: str) -> None:
    """The timeline alone, of a run that is known to be short."""
    from reenact.journal.reader import JournalReader
    from reenact.reports.timelines import events_between

    reader = JournalReader(store, run, namespace)
    table(COLUMNS, [_cells(one) for one in events_between(reader, 1)])


def _say_header(header: dict[str, Any], processes: list[Child]) -> None:
    origin = " (imported: recorded elsewhere)" if header["imported"] else ""
    lines = [
        ("run", inert(header["run"]) + origin),
        ("status", status_text(header["status"], header["about"])),
        ("created", str(header["created"])),
        ("events", f"{header['events']:,}"),
        ("head", f"{header['events']}:{header['head']}"),
    ]
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
        lines.append(("facts", "cannot be read; `reenact verify` says why"))
    else:
        lines.extend(
            (inert(str(name))[:40], brief(value, SHOWN_FACT_CHARACTERS)) for name, value in header["facts"].items()
        )
    fields(lines)


def _cells(one: Seen) -> list[str]:
    if one.damage is not None:
        content = f"DAMAGED: {inert(one.damage)}"
    elif one.erased:
        content = "(erased)"
    else:
        content = _essence(one.content)
    name = one.content.get("name") if isinstance(one.content, dict) else None
    return [
        str(one.seq),
        local_time(one.time, "%H:%M:%S") if one.time is not None else "?",
        inert(one.lane),
        inert(one.kind),
        inert(name if isinstance(name, str) else one.key or "")[:80],
        content,
    ]


def _essence(content: Any) -> str:
    if isinstance(content, dict):
        for member in _ESSENCE:
            if member in content:
                return brief(content[member])
    return brief(content)
