"""Implement `onrecord step`: step through a run in the terminal. The agent's code does not run."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from onrecord.cli.commands.completion import complete_run
from onrecord.cli.render.output import note, on_terminal, paint, say, say_json, terminal_width, value_lines
from onrecord.cli.render.text import brief, duration_text, fit, inert, iso_time, lane_text, local_time
from onrecord.cli.render.timeline import essence
from onrecord.cli.settings import Settings, shared_options
from onrecord.cli.stores import reading
from onrecord.core.events import ANSWERS
from onrecord.errors import BadPosition, OnrecordError

if TYPE_CHECKING:  # loaded when the command runs
    from onrecord.analysis.timeline import ReplayEngine
    from onrecord.journal.reader import JournalReader, SequencedEvent

HELP = """\
n, Enter   next event                b    previous event
N          go to position N          $    go to the end
/T         next event that contains the text T
!          next failure              p    from a request to its answer, and back
i          show the whole event      s    show the state
c          show what the model saw in this call
?          show this help            q    quit"""
PLAIN_CELLS = 168
FAILURES = frozenset({"ActionFailed", "ActionDenied", "Failed"})


@click.command()
@shared_options
@click.argument("run", shell_complete=complete_run)
@click.option("--to", "position", type=click.IntRange(0), metavar="N", default=0, help="Start at position N.")
@click.pass_obj
def step(settings: Settings, run: str, position: int) -> int | None:
    """Step through RUN event by event, forward and back, and show each event and the state.

    \b
    onrecord step @last              ? lists the keys
    onrecord step @last --to 40      start after event 40
    printf 'n\\nn\\ns\\n' | onrecord step @last
    echo '!' | onrecord step @last   show the first failure

    With --json, print all events, each with the hash of the state after it.
    """
    from onrecord.analysis.timeline import ReplayEngine
    from onrecord.cli.selection import selected_run

    with reading(settings) as store:
        engine = ReplayEngine(store, selected_run(store, settings.namespace, run), settings.namespace)
        engine.go_to(position)
        if settings.json:
            steps = [{**_event_data(engine.reader, one.event), "state_hash": one.state_hash} for one in engine.steps()]
            say_json({"run": engine.reader.run, "from": position, "steps": steps, "state": _state_tree(engine)})
            return None
        if on_terminal():
            note(HELP)
        _Stepper(engine).loop()
    return None


class _Stepper:
    """Read commands and move through a run. An error is printed, and the loop continues."""

    def __init__(self, engine: ReplayEngine) -> None:
        self._engine = engine
        self._searched = ""

    def loop(self) -> None:
        self._print_event()
        while True:
            line = self._read_command()
            if line is None or line.strip() in ("q", "quit", "exit"):
                return
            try:
                self._execute(line.strip())
            except OnrecordError as problem:
                note(inert(problem.message))

    def _read_command(self) -> str | None:
        """Return the next line, or None at the end of input. Ctrl-C ends the loop without an error."""
        try:
            if on_terminal():
                click.echo(f"{self._engine.position}/{self._engine.end}> ", nl=False, err=True)
            line = sys.stdin.readline() if sys.stdin is not None else ""
        except KeyboardInterrupt:
            line = ""
        if not line and on_terminal():
            note("")
        return line or None

    def _execute(self, command: str) -> None:
        engine = self._engine
        if command in ("", "n"):
            if engine.step() is None:
                note("end of the run")
                return
        elif command == "b":
            engine.step_back()
        elif command.isascii() and command.isdecimal():
            engine.go_to(int(command))
        elif command == "$":
            engine.go_to(engine.end)
        elif command == "p":
            engine.go_to(self._paired_event())
        elif command == "!":
            self._go_to_failure()
            return
        elif command.startswith("/"):
            self._search(command[1:] or self._searched)
            return
        else:
            self._print_details(command)
            return
        self._print_event()

    def _print_details(self, command: str) -> None:
        engine = self._engine
        if command == "s":
            note(f"state after event {engine.position}, {engine.state_hash}")
            lines = value_lines(_state_tree(engine))
        elif command == "i":
            lines = value_lines(_event_data(engine.reader, engine.reader.event(engine.position)))
        elif command == "c":
            from onrecord.cli.render.model_context import say_context
            from onrecord.reports.contexts import context_report

            say_context(context_report(engine.reader, engine.position), full=False)
            return
        else:
            lines = HELP.splitlines()
        for line in lines:
            say(line)

    def _paired_event(self) -> int:
        """Return the seq of the answer of this request, or of the request of this answer."""
        engine, here = self._engine, self._engine.position
        if here:
            if (parent := engine.reader.event(here).parent) is not None:
                return parent
            for row in engine.reader.store.scan(engine.reader.namespace, engine.reader.run, here + 1, contents=False):
                if engine.reader.link(row).parent == here:
                    return row.seq
        raise BadPosition(f"event {here} has no request or answer")

    def _go_to_failure(self) -> None:
        engine = self._engine
        rows = engine.reader.store.scan(
            engine.reader.namespace, engine.reader.run, engine.position + 1, engine.end + 1, contents=False
        )
        found = next((row.seq for row in rows if row.kind in FAILURES), None)
        if found is None:
            note("no failure after this event")
            return
        engine.go_to(found)
        self._print_event()

    def _search(self, text: str) -> None:
        """Go to the next event that contains the text, or stay if there is none."""
        engine, self._searched = self._engine, text
        for seq in range(engine.position + 1, engine.end + 1):
            if text.lower() in brief(_event_data(engine.reader, engine.reader.event(seq)), 1_000_000).lower():
                engine.go_to(seq)
                self._print_event()
                return
        note(f"no later event contains {inert(text)}")

    def _print_event(self) -> None:
        engine = self._engine
        if engine.position == 0:
            say(f"run {inert(engine.reader.run)}: {engine.end} events; before the first event")
            return
        one = engine.reader.event(engine.position)
        data = _event_data(engine.reader, one)
        head = paint(f"{one.seq:>5}", bold=True) + "  " + paint(inert(one.kind), fg="cyan")
        took = duration_text(self._duration(one))
        about = [local_time(one.time), f"lane {lane_text(one.lane)}", inert(one.key or ""), took and f"took {took}"]
        say(f"{head}  {'  '.join(part for part in about if part)}")
        width = terminal_width() if on_terminal() else PLAIN_CELLS
        say(fit(f"       {essence(data['content'])}", width))

    def _duration(self, one: SequencedEvent) -> int | None:
        """Return the microseconds from a request to this answer."""
        if one.kind not in ANSWERS or one.parent is None:
            return None
        return max(0, one.time - self._engine.reader.event(one.parent).time)


def _event_data(reader: JournalReader, one: SequencedEvent) -> dict[str, Any]:
    row = reader.store.event(reader.namespace, reader.run, one.seq)
    assert row is not None
    # The encoded form: showing a recording must not build its objects.
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
    from onrecord.core.codec import encode

    return encode(engine.state).tree
