"""Start unchanged programs in a new Python process, which records, resumes or replays them."""

from __future__ import annotations

import os
import shutil
import sys
from typing import TYPE_CHECKING, Any, NoReturn

import click

from onrecord.cli.fast_start import flush, hash_seed, is_folder_of_code, is_script, new_run_id
from onrecord.cli.programs.paths import refuse_missing_code, refuse_missing_folder
from onrecord.cli.stores import store_url
from onrecord.errors import InvalidInput, NotFound, Refused
from onrecord.store.location import absolute_url, working_folder

if TYPE_CHECKING:  # loaded when the command runs
    from onrecord.capture.program_task import Program, ProgramTask, ReplayTerms
    from onrecord.cli.settings import Settings
    from onrecord.journal.reader import JournalReader

_ARGUMENTS = "onrecord.program_arguments"
_COMMAND = "onrecord.command"
_MODULE = ("-m", "--module")


class DashedCommand(click.Command):
    """Command that accepts `… -- any command`: everything after the two dashes belongs to that command."""

    def parse_args(self, context: click.Context, args: list[str]) -> list[str]:
        if "--" in args:
            at = args.index("--")
            context.meta[_COMMAND] = args[at + 1 :]
            args = args[:at]
        return super().parse_args(context, args)

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return [*super().collect_usage_pieces(ctx), "[-- COMMAND...]"]


class RunCommand(DashedCommand):
    """`onrecord run [options] agent.py args…`: everything after a program belongs to the program.

    An agent (`agent.py:function`) has no arguments, so options may follow it.
    """

    def parse_args(self, context: click.Context, args: list[str]) -> list[str]:
        at = self._find_program_arguments(args)
        if at is None:
            return super().parse_args(context, args)
        context.meta[_ARGUMENTS] = args[at:]
        return click.Command.parse_args(self, context, args[:at])

    def _find_program_arguments(self, args: list[str]) -> int | None:
        """Return the index of the program's first argument, or None if no program is named."""
        valued = {name for one in self.params if isinstance(one, click.Option) and not one.is_flag for name in one.opts}
        position, given_input = 0, False
        while position < len(args) and args[position].startswith("-") and args[position] != "--":
            name, _, value = args[position].partition("=")
            takes_next = name in valued and not value
            if name in _MODULE and not takes_next:
                return position + 1 if ":" not in value else None
            given_input |= name == "--input"
            if name in _MODULE and position + 1 < len(args):
                return position + 2 if ":" not in args[position + 1] else None
            position += 2 if takes_next else 1
        if position >= len(args) or given_input or "--input" in args[position:] or not is_script(args[position]):
            return None
        return position + 1


def program_arguments() -> tuple[str, ...] | None:
    """Return the arguments of the named program, or None if none was named."""
    found = click.get_current_context().meta.get(_ARGUMENTS)
    return None if found is None else tuple(found)


def command_words() -> tuple[str, ...] | None:
    """Return the command after the two dashes, or None if there are no dashes."""
    found = click.get_current_context().meta.get(_COMMAND)
    if found == []:
        raise InvalidInput("there is no command after --", hint="Write it as you would start it.", code="usage")
    return None if found is None else tuple(found)


def start_command(settings: Settings, words: tuple[str, ...], *, run_id: str | None, strict: bool) -> NoReturn:
    """Replace this process by one that starts a command and records its Python processes as runs."""
    _execute(make_task(settings, _make_command(words), run_id or new_run_id(), "record", strict=strict))


def _make_command(words: tuple[str, ...]) -> Program:
    from onrecord.capture.program_task import Program

    if shutil.which(words[0]) is None:
        raise InvalidInput(
            f"there is no command {words[0][:200]!r}",
            hint="Name a command on the PATH, or its path. A script is named without the dashes.",
            code="no_command",
        )
    return Program(path=words[0], args=words[1:], cwd=working_folder(), is_command=True, hash_seed=hash_seed())


def python_program(words: tuple[str, ...], hash_seed: int | None) -> Program:
    """Return the program of `python agent.py …` or `python -m module …`; refuse other commands."""
    from onrecord.capture.program_task import Program

    rest = words[1:]
    is_module = rest[:1] == ("-m",)
    rest = rest[1:] if is_module else rest
    if not os.path.basename(words[0]).startswith("python") or not rest or rest[0].startswith("-"):
        raise InvalidInput(
            f"cannot record a Python program started like this: {' '.join(words)[:80]!r}",
            hint="Write `-- python SCRIPT ARGS…` or `-- python -m MODULE ARGS…`, without other Python options.",
            code="usage",
        )
    return Program(path=rest[0], args=rest[1:], cwd=working_folder(), is_module=is_module, hash_seed=hash_seed)


def start_program(
    settings: Settings,
    path: str,
    args: tuple[str, ...],
    *,
    is_module: bool = False,
    run_id: str | None = None,
    strict: bool = False,
    durable_sleeps: bool = False,
) -> NoReturn:
    """Replace this process by the program, recorded as a new run."""
    from onrecord.capture.program_task import Program

    if not is_module and not (os.path.isfile(path) or is_folder_of_code(path)):
        raise NotFound(f"there is no file {path[:200]!r}", hint="Name a script, or -m MODULE.", code="no_file")
    program = Program(
        path=path,
        args=args,
        cwd=working_folder(),
        is_module=is_module,
        durable_sleeps=durable_sleeps,
        hash_seed=hash_seed(),
    )
    _execute(make_task(settings, program, run_id or new_run_id(), "record", strict=strict))


def restart_program(
    settings: Settings,
    reader: JournalReader,
    program: Program,
    mode: Any,
    *,
    words: tuple[str, ...] | None = None,
    replaying: ReplayTerms | None = None,
) -> NoReturn:
    """Replace this process by the program of a run, to replay or resume it. `words` is a command to run instead."""
    if words is not None:
        instead = _make_command(words) if program.is_command else python_program(words, program.hash_seed)
        _execute(make_task(settings, program, reader.run, mode, instead=instead, replaying=replaying))
    refuse_imported(reader)
    if mode == "replay":
        refuse_missing_code(reader, program)
    else:
        refuse_missing_folder(reader, program)
    _execute(make_task(settings, program, reader.run, mode, replaying=replaying))


def refuse_imported(reader: JournalReader) -> None:
    """Refuse a run that was recorded elsewhere: its command line is not trusted."""
    if reader.imported:
        raise Refused(
            f"run {reader.run} was recorded elsewhere, so its command line is not run here",
            hint=f"Name the command to run instead: onrecord replay {reader.run} -- python agent.py",
            code="imported_run",
        )


def _execute(task: ProgramTask) -> NoReturn:
    flush()
    os.chdir((task.instead or task.program).cwd)
    environment = {**os.environ, **task.to_environment()}
    os.execve(sys.executable, [sys.executable, "-P", "-m", "onrecord.capture.entry"], environment)  # noqa: S606


def make_task(
    settings: Settings,
    program: Program,
    run: str,
    mode: Any,
    *,
    strict: bool = False,
    instead: Program | None = None,
    replaying: ReplayTerms | None = None,
) -> ProgramTask:
    """Return the task for the process that runs the program."""
    from onrecord.capture.program_task import ProgramTask, ReplayTerms

    return ProgramTask(
        program=program,
        instead=instead,
        run=run,
        mode=mode,
        store=absolute_url(store_url(settings)),  # the program may run in another folder
        namespace=settings.namespace,
        strict=strict,
        quiet=False,
        replaying=replaying or ReplayTerms(),
    )
