"""`reenact show`: the timeline of a run, one event in full, or the state at a position."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import click

from reenact.cli.output import Column, fields, note, say, say_json, table, value_lines
from reenact.cli.settings import Settings, shared_options
from reenact.cli.stores import reading
from reenact.cli.text import brief, count_text, inert, iso_time, local_time, status_text
from reenact.errors import BadPosition, Damaged, InvalidInput

if TYPE_CHECKING:  # loaded when the command runs
    from reenact.journal.reader import JournalReader
    from reenact.store.contract import EventRow, Store

INTEGRITY_BROKEN = 4
SHOWN_FACT_CHARACTERS = 400
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
        return _show_timeline(settings, store, reader, start, limit)


class Seen(NamedTuple):
    """An event as far as it can be read. `damage` says why the rest of it cannot."""

    seq: int
    kind: str
    lane: str
    time: int | None = None
    id: str | None = None
    key: str | None = None
    parent: int | None = None
    hash: str | None = None
    erased: bool = False
    content: Any = None
    damage: str | None = None

    def to_json(self) -> dict[str, Any]:
        members = self._asdict()
        members["time"] = iso_time(self.time) if self.time is not None else None
        return members


def _seen(reader: JournalReader, row: EventRow) -> Seen:
    from reenact.core.hashing import render

    seen = Seen(row.seq, row.kind, row.lane, hash=render(row.hash))
    try:
        link = reader.link(row)
        seen = seen._replace(time=link.time, id=link.id, key=link.key, parent=link.parent)
        # The encoded form is shown, never a decoded value: looking at a recording builds no objects.
        content = reader.content_tree(row, link)
    except Damaged as damage:
        return seen._replace(damage=damage.message)
    return seen._replace(content=content, erased=content is None)


def _show_event(settings: Settings, reader: JournalReader, seq: int) -> int | None:
    row = reader.store.event(reader.namespace, reader.run, seq)
    if row is None:
        raise BadPosition(f"run {reader.run} has no event {seq}", hint=f"Its last event is {reader.head().seq}.")
    seen = _seen(reader, row)
    if seen.damage is not None:
        raise Damaged(seen.damage)
    if settings.json:
        say_json({"run": reader.run, **seen.to_json()})
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
    from reenact.core.codec import encode
    from reenact.core.codec.standins import Erased
    from reenact.core.state import state_hash
    from reenact.journal.snapshots import StateFold

    recorded = reader.header.reducer
    if recorded != "replace/1":
        raise InvalidInput(
            f"the state of run {reader.run} is made by the reducer {recorded!r}, which is not part of Reenact",
            hint="Use StateFold in Python with that reducer; --event shows the single updates.",
            code="other_reducer",
        )
    state = StateFold.from_snapshot(reader, _shown_reducer(), at_most=position).replay_to(position)
    if isinstance(state, Erased):
        raise InvalidInput(
            f"the state at {position} was erased", hint="An earlier or later position may have one.", code="erased"
        )
    tree = encode(state).tree
    if settings.json:
        say_json({"run": reader.run, "position": position, "state": tree, "state_hash": state_hash(state)})
        return None
    note(f"state of {inert(reader.run)} after event {position}, {state_hash(state)}")
    for line in value_lines(tree):
        say(line)
    return None


def _shown_reducer() -> Any:
    from reenact.core.codec.standins import Erased
    from reenact.core.events import Event
    from reenact.core.state import StateUpdatedOnlyReducer
    from reenact.journal.reader import ErasedEvent

    class Shown(StateUpdatedOnlyReducer):
        """An erased update leaves a state that nobody knows, not the one before it."""

        def apply(self, state: Any, event: Event) -> Any:
            if isinstance(event, ErasedEvent) and event.recorded_kind == "StateUpdated":
                return Erased()
            return super().apply(state, event)

    return Shown()


def _show_timeline(settings: Settings, store: Store, reader: JournalReader, start: int, limit: int) -> int | None:
    reader.check_start(start)
    last = reader.head().seq
    seen = [_seen(reader, row) for row in store.scan(reader.namespace, reader.run, start, start + limit)]
    damaged = [one for one in seen if one.damage is not None]
    following = seen[-1].seq + 1 if seen and seen[-1].seq < last else None
    header = _header(store, reader)
    if settings.json:
        events = [one.to_json() for one in seen]
        say_json({**header, "timeline": events, "next": following})
    else:
        _say_header(header)
        say()
        table(COLUMNS, [_cells(one) for one in seen])
        if following is not None:
            shown = f"{seen[0].seq} to {seen[-1].seq} of {last:,}"
            note(f"events {shown} are shown; go on with --from {following}, or show more with --limit {limit * 10}")
    if not damaged:
        return None
    what = f"{count_text(len(damaged), 'event')} of run {reader.run} cannot be read, the first is {damaged[0].seq}"
    note(f"error: {inert(what)} [damaged]")
    note("`reenact verify` locates all damage; `reenact recover` copies the valid prefix to a new store.")
    return INTEGRITY_BROKEN


def print_timeline(store: Store, run: str, namespace: str) -> None:
    """The timeline alone, of a run that is known to be short."""
    from reenact.journal.reader import JournalReader

    reader = JournalReader(store, run, namespace)
    table(COLUMNS, [_cells(_seen(reader, row)) for row in store.scan(namespace, run)])


def _header(store: Store, reader: JournalReader) -> dict[str, Any]:
    from reenact.cli.summaries import facts_of, summary_of

    row = store.run_row(reader.namespace, reader.run)
    assert row is not None
    parent = reader.header.parent
    return {
        **summary_of(store, reader.namespace, row).to_json(),
        "namespace": reader.namespace,
        "recorded_as": reader.recorded_run,
        "parent": None
        if parent is None
        else {"run": parent.run, "seq": parent.seq, "relation": parent.relation, "head": parent.head},
        "facts": facts_of(store, reader.namespace, reader.run),
        "facts_erased": reader.header_row.content is None,
    }


def _say_header(header: dict[str, Any]) -> None:
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
