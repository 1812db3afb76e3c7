"""Forks and live replays of programs: begun here, they go on in a Python of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any, NoReturn

from reenact.cli.output import note
from reenact.cli.program_places import refuse_if_gone
from reenact.cli.programs import go_on_with_program, refuse_elsewhere, task_of
from reenact.cli.stores import reading, writing
from reenact.cli.text import inert
from reenact.errors import Refused

if TYPE_CHECKING:  # loaded when the command runs
    from reenact.capture.terms import Program
    from reenact.cli.settings import Settings
    from reenact.effect.forking import Change
    from reenact.journal.reader import JournalReader
    from reenact.store.contract import Store


def fork_program(
    settings: Settings, parent: JournalReader, program: Program, change: Change | None, options: dict[str, Any]
) -> NoReturn:
    """The program again, as a fork: from what it shares, and then its own way."""
    from reenact.effect.forking import begin_fork
    from reenact.journal.reader import JournalReader

    refuse_elsewhere(parent)
    refuse_if_gone(parent, program)
    with writing(settings) as store:
        refuse_processes(JournalReader(store, parent.run, settings.namespace), program)
        name = begin_fork(
            store,
            parent.run,
            options["at"],
            settings.namespace,
            change=change,
            tail=options["tail"],
            live_tools=options["live_tools"],
            run_id=options["fork_id"],
            facts=_code(program),
        )
    note(f"run {inert(name)}")
    with reading(settings) as store:
        go_on_with_program(settings, JournalReader(store, name, settings.namespace), program, "resume")


class ProgramAgain:
    """A program as what `judged_live` replays."""

    is_async = False

    def __init__(self, settings: Settings, program: Program) -> None:
        self._settings = settings
        self._program = program

    def replay_live(
        self, run: str, /, *, live_tools: Any, model: str | None, live_run_id: str | None, store: Store, namespace: str
    ) -> None:
        """What it prints is not the check's result. How its run ended is on record."""
        from reenact.effect.forking import begin_live_replay
        from reenact.journal.reader import JournalReader

        reader = JournalReader(store, run, namespace)
        refuse_elsewhere(reader)
        refuse_if_gone(reader, self._program)
        refuse_processes(reader, self._program)
        name = begin_live_replay(
            store,
            run,
            namespace,
            live_tools=live_tools,
            model=model,
            run_id=live_run_id,
            facts=_code(self._program),
        )
        task = task_of(self._settings, self._program, name, "resume")
        sys.stderr.flush()
        subprocess.run(
            [sys.executable, "-P", "-m", "reenact.capture.entry"],
            env={**os.environ, **task.to_environment()},
            cwd=self._program.cwd,
            stdout=sys.stderr,
            check=False,
        )


def refuse_processes(reader: JournalReader, program: Program) -> None:
    """Their runs are those of the processes of that run: another run's would begin anew, and do everything again."""
    from reenact.capture.processes.family import children_of

    if program.is_command or next(children_of(reader.store, reader.namespace, reader.run), None) is not None:
        raise Refused(
            f"run {reader.run} has started processes, which would do again what they did",
            hint="Programs of one process can be forked and replayed live; `reenact replay` replays all of them.",
            code="has_processes",
        )


def _code(program: Program) -> dict[str, Any]:
    """That which is run now."""
    from reenact.capture.programs import ProgramAgent

    return {"code": ProgramAgent(program).code()}
