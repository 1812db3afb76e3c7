"""Begin forks and live replays of programs, which continue in a new Python process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NoReturn

from onrecord.cli.programs.paths import refuse_missing_code
from onrecord.cli.programs.start import make_task, refuse_imported, restart_program
from onrecord.cli.render.output import note
from onrecord.cli.render.text import inert
from onrecord.cli.stores import reading, writing
from onrecord.errors import Refused

if TYPE_CHECKING:  # loaded when the command runs
    from onrecord.capture.program_task import Program
    from onrecord.cli.settings import Settings
    from onrecord.journal.reader import JournalReader
    from onrecord.runtime.forks.fork import Change
    from onrecord.store.contract import Store


def fork_program(
    settings: Settings, parent: JournalReader, program: Program, change: Change | None, options: dict[str, Any]
) -> NoReturn:
    """Begin a fork of a program and replace this process by it."""
    from onrecord.journal.reader import JournalReader

    refuse_imported(parent)
    refuse_missing_code(parent, program)
    with writing(settings) as store:
        reader = JournalReader(store, parent.run, settings.namespace)
        refuse_processes(reader, program)
        name = begin_fork_of(reader, change, options, _code_facts(program))
    note(f"run {inert(name)}")
    with reading(settings) as store:
        restart_program(settings, JournalReader(store, name, settings.namespace), program, "resume")


def begin_fork_of(
    reader: JournalReader, change: Change | None, options: dict[str, Any], facts: Mapping[str, Any]
) -> str:
    """Begin the fork that the options of the command describe, and return its id."""
    from onrecord.runtime.forks.fork import begin_fork

    return begin_fork(
        reader.store,
        reader.run,
        options["at"],
        reader.namespace,
        change=change,
        tail=options["tail"],
        live_tools=options["live_tools"],
        run_id=options["fork_id"],
        facts=facts,
    )


class ProgramLiveReplay:
    """Adapter that lets `replay_and_judge` replay a program."""

    is_async = False

    def __init__(self, settings: Settings, program: Program) -> None:
        self._settings = settings
        self._program = program

    def replay_live(
        self, run: str, /, *, live_tools: Any, model: str | None, live_run_id: str | None, store: Store, namespace: str
    ) -> None:
        """Execute the program again as a new run. It prints to stderr; its outcome is in the record."""
        from onrecord.journal.reader import JournalReader
        from onrecord.runtime.forks.fork import begin_live_replay

        reader = JournalReader(store, run, namespace)
        refuse_imported(reader)
        refuse_missing_code(reader, self._program)
        refuse_processes(reader, self._program)
        name = begin_live_replay(
            store,
            run,
            namespace,
            live_tools=live_tools,
            model=model,
            run_id=live_run_id,
            facts=_code_facts(self._program),
        )
        task = make_task(self._settings, self._program, name, "resume")
        sys.stderr.flush()
        subprocess.run(
            [sys.executable, "-P", "-m", "onrecord.capture.entry"],
            env={**os.environ, **task.to_environment()},
            cwd=self._program.cwd,
            stdout=sys.stderr,
            check=False,
        )


def refuse_processes(reader: JournalReader, program: Program) -> None:
    """Refuse a run that started processes: in a new run they would start again and repeat their effects."""
    from onrecord.capture.processes.run_tree import children_of

    if program.is_command or next(children_of(reader.store, reader.namespace, reader.run), None) is not None:
        raise Refused(
            f"run {reader.run} has started processes, which would repeat their effects",
            hint="Only programs of one process can be forked or replayed live; `onrecord replay` replays any program.",
            code="has_processes",
        )


def _code_facts(program: Program) -> dict[str, Any]:
    """Return the facts about the code that runs now."""
    from onrecord.capture.program_agent import ProgramAgent

    return {"code": ProgramAgent(program).code()}
