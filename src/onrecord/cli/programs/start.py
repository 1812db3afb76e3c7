"""Programs nobody changed: started in a Python of their own, recorded, resumed or replayed there."""

from __future__ import annotations

import os
import shutil
import sys
from typing import TYPE_CHECKING, Any, NoReturn

import click

from reenact.cli.program_places import refuse_if_gone, refuse_without_folder
from reenact.cli.starting import flush, hash_seed, is_folder_of_code, is_script, new_run_id
from reenact.cli.stores import store_url
from reenact.errors import InvalidInput, Refused
from reenact.store.locating import absolute_url, working_folder

if TYPE_CHECKING:  # loaded when the command runs
    from reenact.capture.terms import Program, ReplayTerms, Task
    from reenact.cli.settings import Settings
    from reenact.journal.reader import JournalReader

_ARGUMENTS = "reenact.program_arguments"
_COMMAND = "reenact.command"
_MODULE = ("-m", "--module")


class WithCommand(click.Command):
    """`… -- any command`: what stands behind the two dashes is nobody's but the command's."""

    def parse_args(self, context: click.Context, args: list[str]) -> list[str]:
        if "--" in args:
            at = args.index("--")
            context.meta[_COMMAND] = args[at + 1 :]
            args = args[:at]
        return super().parse_args(context, args)

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return [*super().collect_usage_pieces(ctx), "[-- COMMAND...]"]


class RunCommand(WithCommand):
    """`reenact run [options] agent.py args…`: what stands behind a program is the program's own.

    An agent (`agent.py:function`) has no arguments of its own, so options may stand behind it.
    """

    def parse_args(self, context: click.Context, args: list[str]) -> list[str]:
        at = self._program_at(args)
        if at is None:
            return super().parse_args(context, args)
        context.meta[_ARGUMENTS] = args[at:]
        return click.Command.parse_args(self, context, args[:at])

    def _program_at(self, args: list[str]) -> int | None:
        """Where the arguments of the program begin; None: no program is named."""
        valued = {name for one in self.params if isinstance(one, click.Option) and not one.is_flag for name in one.opts}
        place, given_input = 0, False
        while place < len(args) and args[place].startswith("-") and args[place] != "--":
            name, _, value = args[place].partition("=")
            takes_next = name in valued and not value
            if name in _MODULE and not takes_next:
                return place + 1 if ":" not in value else None
            given_input |= name == "--input"
            if name in _MODULE and place + 1 < len(args):
                return place + 2 if ":" not in args[place + 1] else None
            place += 2 if takes_next else 1
        if place >= len(args) or given_input or "--input" in args[place:] or not is_script(args[place]):
            return None
        return place + 1


def program_arguments() -> tuple[str, ...] | None:
    """Those of the program that was named; None: it was no program."""
    found = click.get_current_context().meta.get(_ARGUMENTS)
    return None if found is None else tuple(found)


def command_words() -> tuple[str, ...] | None:
    """The command behind the two dashes; None: there are none."""
    found = click.get_current_context().meta.get(_COMMAND)
    if found == []:
        raise InvalidInput("no command stands behind --", hint="Write it as you would start it.", code="usage")
    return None if found is None else tuple(found)


def start_command(settings: Settings, words: tuple[str, ...], *, run_id: str | None, strict: bool) -> NoReturn:
    """This process becomes the parent of a command, whose Python processes are runs of their own."""
    _become(settings, _command(words), run_id or new_run_id(), "record", strict=strict)


def _command(words: tuple[str, ...]) -> Program:
    from reenact.capture.terms import Program

    if shutil.which(words[0]) is None:
        raise InvalidInput(
            f"there is no command {words[0][:200]!r}",
            hint="Name one that is on the PATH, or the path to one; a script is named without the dashes.",
            code="no_command",
        )
    return Program(path=words[0], args=words[1:], cwd=working_folder(), is_command=True, hash_seed=hash_seed())


def python_program(words: tuple[str, ...], hash_seed: int | None) -> Program:
    """`python agent.py …` and `python -m module …`, which can be run in place of a program."""
    from reenact.capture.terms import Program

    rest = words[1:]
    is_module = rest[:1] == ("-m",)
    rest = rest[1:] if is_module else rest
    if not os.path.basename(words[0]).startswith("python") or not rest or rest[0].startswith("-"):
        raise InvalidInput(
            f"not a way to start a Python program that can be recorded: {' '.join(words)[:80]!r}",
            hint="Write `-- python SCRIPT ARGS…` or `-- python -m MODULE ARGS…`, without other options of Python.",
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
    """This process becomes the program, under a run of its own."""
    from reenact.capture.terms import Program

    if not is_module and not (os.path.isfile(path) or is_folder_of_code(path)):
        raise InvalidInput(f"there is no file {path[:200]!r}", hint="Name a script, or -m MODULE.", code="no_file")
    program = Program(
        path=path,
        args=args,
        cwd=working_folder(),
        is_module=is_module,
        durable_sleeps=durable_sleeps,
        hash_seed=hash_seed(),
    )
    _become(settings, program, run_id or new_run_id(), "record", strict=strict)


def go_on_with_program(
    settings: Settings,
    reader: JournalReader,
    program: Program,
    mode: Any,
    *,
    words: tuple[str, ...] | None = None,
    replaying: ReplayTerms | None = None,
) -> NoReturn:
    """The program of a run again: from its record alone, or from where it stands. Words: another command instead."""
    if words is not None:
        instead = _command(words) if program.is_command else python_program(words, program.hash_seed)
        _become(settings, program, reader.run, mode, instead=instead, replaying=replaying)
    refuse_elsewhere(reader)
    if mode == "replay":
        refuse_if_gone(reader, program)
    else:
        refuse_without_folder(reader, program)
    _become(settings, program, reader.run, mode, replaying=replaying)


def refuse_elsewhere(reader: JournalReader) -> None:
    """A record may come from anywhere: what it says is run only where it was recorded."""
    if reader.imported:
        raise Refused(
            f"run {reader.run} was recorded elsewhere: its command line is not run here",
            hint=f"Say what is to be run in its place: reenact replay {reader.run} -- python agent.py",
            code="imported_run",
        )


def _become(
    settings: Settings,
    program: Program,
    run: str,
    mode: Any,
    *,
    strict: bool = False,
    instead: Program | None = None,
    replaying: ReplayTerms | None = None,
) -> NoReturn:
    task = task_of(settings, program, run, mode, strict=strict, instead=instead, replaying=replaying)
    flush()
    os.chdir((instead or program).cwd)
    environment = {**os.environ, **task.to_environment()}
    os.execve(sys.executable, [sys.executable, "-P", "-m", "reenact.capture.entry"], environment)  # noqa: S606


def task_of(
    settings: Settings,
    program: Program,
    run: str,
    mode: Any,
    *,
    strict: bool = False,
    instead: Program | None = None,
    replaying: ReplayTerms | None = None,
) -> Task:
    """What the process is told that runs the program."""
    from reenact.capture.terms import ReplayTerms, Task

    return Task(
        program=program,
        instead=instead,
        run=run,
        mode=mode,
        store=absolute_url(store_url(settings)),  # the program may be run in another folder than this one
        namespace=settings.namespace,
        strict=strict,
        quiet=False,
        replaying=replaying or ReplayTerms(),
    )
