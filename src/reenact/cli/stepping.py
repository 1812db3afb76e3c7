"""`reenact step`: walking a run in the terminal. The record is only read; nothing of the agent runs."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from reenact.cli.completing import complete_run
from reenact.cli.output import note, on_terminal, paint, say, say_json, value_lines
from reenact.cli.settings import Settings, shared_options
from reenact.cli.stores import reading
from reenact.cli.text import brief, inert, iso_time, local_time
from reenact.errors import BadPosition, Damaged

if TYPE_CHECKING:  # loaded when the command runs
    from reenact.journal.reader import JournalReader, SequencedEvent
    from reenact.replays.engine import ReplayEngine

HELP = """\
n, Enter   the next event            b    one event back
N          go to position N          /T   on to the next event with the text T in it
i          the whole event           s    the state here
?          this help                 q    leave"""


@click.command()
@shared_options
@click.argument("run", shell_complete=complete_run)
@click.option("--to", "position", type=click.IntRange(0), metavar="N", default=0, help="Begin at position N.")
@click.pass_obj
def step(settings: Settings, run: str, position: int) -> int | None:
    """Walk RUN event by event: forward, back, to a position; look at events and at the state.

    \b
    reenact step @last              ? tells the keys
    reenact step @last --to 40      begin behind event 40
    printf 'n\\nn\\ns\\n' | reenact step @last

    With --json all events are told with the hash of the state after each.
    """
    from reenact.cli.selection import selected_run
    from reenact.replays.engine import ReplayEngine

    with reading(settings) as store:
        engine = ReplayEngine(store, selected_run(store, settings.namespace, run), settings.namespace)
        engine.go_to(position)
        if settings.json:
            steps = [{**_data(engine.reader, one.event), "state_hash": one.state_hash} for one in engine.steps()]
            say_json({"run": engine.reader.run, "from": position, "steps": steps, "state": _state_tree(engine)})
            return None
        if on_terminal():
            note(HELP)
        _Walk(engine).go()
    return None


class _Walk:
    """One person walking. Whatever cannot be done is said, and the walk goes on."""

    def __init__(self, engine: ReplayEngine) -> None:
        self._engine = engine
        self._searched = ""

    def go(self) -> None:
        self._show()
        while True:
            if on_terminal():
                click.echo(f"{self._engine.position}/{self._engine.end}> ", nl=False, err=True)
            line = sys.stdin.readline()
            if not line or line.strip() in ("q", "quit", "exit"):
                return
            try:
                self._do(line.strip())
            except (BadPosition, Damaged) as problem:
                note(inert(problem.message))

    def _do(self, asked: str) -> None:
        engine = self._engine
        if asked in ("", "n"):
            if engine.step() is None:
                note("this is the end")
                return
        elif asked == "b":
            engine.step_back()
        elif asked.isascii() and asked.isdecimal():
            engine.go_to(int(asked))
        elif asked.startswith("/"):
            self._search(asked[1:] or self._searched)
            return
        else:
            self._look(asked)
            return
        self._show()

    def _look(self, asked: str) -> None:
        engine = self._engine
        if asked == "s":
            note(f"state after event {engine.position}, {engine.state_hash}")
            lines = value_lines(_state_tree(engine))
        elif asked == "i":
            lines = value_lines(_data(engine.reader, engine.reader.event(engine.position)))
        else:
            lines = HELP.splitlines()
        for line in lines:
            say(line)

    def _search(self, text: str) -> None:
        """On to the next event that has the text in it; where there is none, it stays where it is."""
        engine, self._searched = self._engine, text
        for seq in range(engine.position + 1, engine.end + 1):
            if text.lower() in brief(_data(engine.reader, engine.reader.event(seq)), 1_000_000).lower():
                engine.go_to(seq)
                self._show()
                return
        note(f"no further event has {inert(text)} in it")

    def _show(self) -> None:
        engine = self._engine
        if engine.position == 0:
            say(f"run {inert(engine.reader.run)}: {engine.end} events; before the first")
            return
        one = engine.reader.event(engine.position)
        data = _data(engine.reader, one)
        head = paint(f"{one.seq:>5}", bold=True) + "  " + paint(inert(one.kind), fg="cyan")
        say(f"{head}  {local_time(one.time)}  lane {inert(one.lane)}  {inert(one.key or '')}".rstrip())
        say(f"       {brief(data['content'], 160)}")


def _data(reader: JournalReader, one: SequencedEvent) -> dict[str, Any]:
    row = reader.store.event(reader.namespace, reader.run, one.seq)
    assert row is not None
    # The encoded form is shown: looking at a recording builds no objects.
    content = None if one.erased else reader.content_tree(row, reader.link(row))
    return {
        "seq": one.seq,
        "kind": one.kind,
        "lane": one.lane,
        "key": one.key,
        "parent": one.parent,
        "time": iso_time(one.time),
        "hash": one.hash,
        "erased": one.erased,
        "content": content,
    }


def _state_tree(engine: ReplayEngine) -> Any:
    from reenact.core.codec import encode

    return encode(engine.state).tree
