"""`reenact step`: walking a run in the terminal. The record is only read; nothing of the agent runs."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from reenact.cli.completing import complete_run
from reenact.cli.output import note, on_terminal, paint, say, say_json, terminal_width, value_lines
from reenact.cli.settings import Settings, shared_options
from reenact.cli.stores import reading
from reenact.cli.text import brief, duration_text, fit, inert, iso_time, local_time
from reenact.cli.timelines import essence
from reenact.core.events import ANSWERS
from reenact.errors import BadPosition, ReenactError

if TYPE_CHECKING:  # loaded when the command runs
    from reenact.journal.reader import JournalReader, SequencedEvent
    from reenact.replays.engine import ReplayEngine

HELP = """\
n, Enter   the next event            b    one event back
N          go to position N          $    to the end
/T         on to the next event with the text T in it
!          on to the next failure    p    from a request to its answer, and back
i          the whole event           s    the state here
c          what the model saw in this call
?          this help                 q    leave"""
PLAIN_CELLS = 168
FAILURES = frozenset({"ActionFailed", "ActionDenied", "Failed"})


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
    echo '!' | reenact step @last   the first failure

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
            line = self._asked()
            if line is None or line.strip() in ("q", "quit", "exit"):
                return
            try:
                self._do(line.strip())
            except ReenactError as problem:
                note(inert(problem.message))

    def _asked(self) -> str | None:
        """What is typed; None when the walk is over. To leave in the middle of nothing is no error."""
        try:
            if on_terminal():
                click.echo(f"{self._engine.position}/{self._engine.end}> ", nl=False, err=True)
            line = sys.stdin.readline() if sys.stdin is not None else ""
        except KeyboardInterrupt:
            line = ""
        if not line and on_terminal():
            note("")
        return line or None

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
        elif asked == "$":
            engine.go_to(engine.end)
        elif asked == "p":
            engine.go_to(self._other_half())
        elif asked == "!":
            self._on_to_failure()
            return
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
        elif asked == "c":
            from reenact.cli.contexts import say_context
            from reenact.reports.contexts import context_report

            say_context(context_report(engine.reader, engine.position), full=False)
            return
        else:
            lines = HELP.splitlines()
        for line in lines:
            say(line)

    def _other_half(self) -> int:
        """The answer of a request, or the request of an answer."""
        engine, here = self._engine, self._engine.position
        if here:
            if (parent := engine.reader.event(here).parent) is not None:
                return parent
            for row in engine.reader.store.scan(engine.reader.namespace, engine.reader.run, here + 1, contents=False):
                if engine.reader.link(row).parent == here:
                    return row.seq
        raise BadPosition(f"event {here} has no other half")

    def _on_to_failure(self) -> None:
        engine = self._engine
        rows = engine.reader.store.scan(
            engine.reader.namespace, engine.reader.run, engine.position + 1, engine.end + 1, contents=False
        )
        found = next((row.seq for row in rows if row.kind in FAILURES), None)
        if found is None:
            note("nothing fails behind this")
            return
        engine.go_to(found)
        self._show()

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
        took = duration_text(self._took(one))
        about = [local_time(one.time), f"lane {inert(one.lane)}", inert(one.key or ""), took and f"took {took}"]
        say(f"{head}  {'  '.join(part for part in about if part)}")
        width = terminal_width() if on_terminal() else PLAIN_CELLS
        say(fit(f"       {essence(data['content'])}", width))

    def _took(self, one: SequencedEvent) -> int | None:
        """How long an answer took: the time since its request."""
        if one.kind not in ANSWERS or one.parent is None:
            return None
        return max(0, one.time - self._engine.reader.event(one.parent).time)


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
