"""Define the command `onrecord`. A command's module is loaded when it is called: `onrecord --help` loads only click."""

from __future__ import annotations

import io
import os
import sys
import threading
import time
from collections.abc import Sequence
from importlib import import_module
from typing import Any, NoReturn

import click

from onrecord.cli.error_exit import ReaderGoneError, run_guarded
from onrecord.cli.fast_start import start_at_once
from onrecord.cli.render.output import terminal_width
from onrecord.cli.settings import Settings, shared_options

INTERRUPTED, TERMINATED = 130, 143
THREADS_MAY_TAKE_SECONDS = 2.0

GROUPS = {
    "Record": {
        "run": ("run", "Run a program or an agent and record it."),
        "resume": ("run", "Continue a run that stopped; repeat no finished effect."),
        "demo": ("demo", "Watch an agent be killed and resumed, and an altered record be found."),
    },
    "Look": {
        "ls": ("ls", "List the runs of the store, newest first."),
        "show": ("show", "Show a run, one event of it, or its state."),
        "step": ("step", "Step through a run, forward and back."),
        "search": ("search", "Search the text of all runs."),
        "stats": ("stats", "Show tokens, cost and latency by model and tool."),
        "diff": ("diff", "Find where two runs diverge."),
        "waits": ("waits", "List what a run waits for."),
    },
    "Replay": {
        "replay": ("replay", "Run the code again on the record alone, or against today's models."),
        "fork": ("fork", "Continue a copy of a run from any event, with a change."),
        "attempts": ("attempts", "Compare the attempts of an effect, or the live replays of a run."),
    },
    "Prove": {
        "verify": ("verify", "Check that a run or an exported file is unaltered."),
        "receipt": ("proof", "Make, check and find receipts of single effects."),
        "evidence": ("proof", "Sign runs, and check signed runs without the store."),
        "export": ("transfer", "Write a run to one file that anyone can verify."),
        "import": ("transfer", "Read an exported file into the store."),
        "recover": ("transfer", "Copy the valid prefix of a damaged run to another store."),
    },
    "Operate": {
        "resolve": ("waits", "Resolve a wait by its key."),
        "settle": ("operate", "Decide whether an interrupted effect happened."),
        "cancel": ("operate", "End a run."),
        "worker": ("operate", "Resume runs whose process has died."),
        "serve": ("serve", "Show the runs in a browser and over HTTP, on this machine."),
        "gc": ("remove", "Remove ended runs by age or number."),
        "erase": ("remove", "Erase a value from every run that holds it."),
        "scan": ("scan", "Find secrets in a run, a file or the store."),
        "keys": ("waits", "List, rotate and retire the secrets that sign wait keys."),
        "doctor": ("doctor", "Check this installation and its store."),
        "completion": ("completion", "Print the completion script of a shell."),
    },
}
"""Heading → command → its module in `onrecord.cli.commands` and its line in `onrecord --help`.

The function there has the command's name (`import_` for import)."""
COMMANDS = {name: found for commands in GROUPS.values() for name, found in commands.items()}
MEANT = {
    "cat": "show",
    "compare": "diff",
    "debug": "step",
    "delete": "gc",
    "events": "show",
    "help": "--help",
    "history": "ls",
    "inspect": "show",
    "list": "ls",
    "log": "show",
    "ps": "ls",
    "rm": "gc",
    "record": "run",
    "runs": "ls",
    "start": "run",
    "status": "ls",
    "tail": "show --follow",
    "token": "receipt",
    "trace": "show",
    "watch": "show --follow",
    "web": "serve",
}
"""Names of other tools → the command that does it here, for the hint."""


class UnknownCommandError(click.UsageError):
    def __init__(self, name: str, context: click.Context) -> None:
        from difflib import get_close_matches

        super().__init__(f"there is no command {name[:80]!r}", context)
        meant = [MEANT[name]] if name in MEANT else get_close_matches(name, COMMANDS, n=2)
        listed = " or ".join(f"`onrecord {one}`" for one in meant)
        self.hint = f"Did you mean {listed}?" if meant else "`onrecord --help` lists the commands."


class Help(click.HelpFormatter):
    """Format help for a terminal of any width: click's own formatter needs 50 columns."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.width = min(self.width, terminal_width() - 2)

    def write_dl(self, rows: Any, col_max: int = 30, col_spacing: int = 2) -> None:
        super().write_dl(rows, min(col_max, self.width // 3), col_spacing)


class Context(click.Context):
    formatter_class = Help


class Commands(click.Group):
    context_class = Context

    def list_commands(self, context: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        module = import_module(f"onrecord.cli.commands.{COMMANDS[name][0]}")
        command: click.Command = getattr(module, "import_" if name == "import" else name)
        command.short_help = COMMANDS[name][1]
        for one in (command, *(command.commands.values() if isinstance(command, click.Group) else ())):
            one.context_class = Context
        return command

    def resolve_command(
        self, context: click.Context, arguments: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = arguments[0]
        if not name.startswith("-") and not context.resilient_parsing and self.get_command(context, name) is None:
            raise UnknownCommandError(name, context)
        return super().resolve_command(context, arguments)

    def shell_complete(self, context: click.Context, incomplete: str) -> list[Any]:
        # Without click's own method: it loads every command for its help text.
        from click.shell_completion import CompletionItem

        found = [CompletionItem(name, help=COMMANDS[name][1]) for name in COMMANDS if name.startswith(incomplete)]
        return found + click.Command.shell_complete(self, context, incomplete)

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        # Without click's own method: it loads every command for its help text.
        width = max(map(len, COMMANDS))
        for heading, commands in GROUPS.items():
            with formatter.section(heading):
                formatter.write_dl([(name.ljust(width), about) for name, (_, about) in commands.items()])

    def invoke(self, context: click.Context) -> Any:
        try:
            return super().invoke(context)
        except BrokenPipeError as error:
            raise ReaderGoneError from error  # click would exit with 1, which means that a check found something

    def main(self, args: Sequence[str] | None = None, *rest: Any, **options: Any) -> NoReturn:
        arguments = list(sys.argv[1:] if args is None else args)
        arguments = arguments or ["--help"]  # click would report an error
        options["standalone_mode"] = False
        call = super().main
        sys.exit(run_guarded(lambda: call(arguments, *rest, **options), arguments))


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@shared_options
@click.version_option(package_name="onrecord", message="onrecord %(version)s")
def cli() -> None:
    """Record what an AI agent did, once, in one log. Resume it, replay it, compare it, prove it.

    RUN is a run id, a unique beginning of one, @last (the first line of `onrecord ls`) or @last~1 (the one before it).
    The store is --store, else ONRECORD_STORE, else the one that pyproject.toml names, else .onrecord/ in the project.

    \b
    Exit status: 0 ok · 1 the check found something · 2 usage · 3 not found
    4 integrity broken · 5 store unavailable · 6 blocked, in doubt or refused
    7 not replayable · 70 internal error
    """


def run() -> NoReturn:
    """Run the command line of this process and exit."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        binary: Any = sys.stdout.buffer
        if isinstance(binary, io.RawIOBase):
            # Under PYTHONUNBUFFERED Python drops bytes that one write() did not take: a cut answer would look whole.
            binary = io.BufferedWriter(binary)
        # A character that the terminal's encoding lacks is printed as an escape.
        sys.stdout = io.TextIOWrapper(binary, encoding=sys.stdout.encoding, errors="backslashreplace")
    try:
        cli.main(prog_name="onrecord", obj=Settings(owns_process=True))
    except SystemExit as end:
        if end.code in (INTERRUPTED, TERMINATED):
            _leave_threads(int(end.code or 0))
        raise


def _leave_threads(status: int) -> None:
    """Exit although threads of a suspended agent still wait: Python joins them at exit."""
    deadline = time.monotonic() + THREADS_MAY_TAKE_SECONDS
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join(max(0.0, deadline - time.monotonic()))
            if thread.is_alive():
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(status)


if __name__ == "__main__":
    start_at_once(sys.argv[1:])
    run()
