"""The command `reenact`. Commands are loaded when they are called: `reenact --help` loads click and nothing else."""

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

from reenact.cli.output import terminal_width
from reenact.cli.problems import ReaderGoneError, run_guarded
from reenact.cli.settings import shared_options
from reenact.cli.starting import start_at_once

INTERRUPTED, TERMINATED = 130, 143
THREADS_MAY_TAKE_SECONDS = 2.0

COMMANDS = {
    "run": ("running", "Run a program nobody changed, or an agent, recorded."),
    "resume": ("running", "Go on with a run where it stands."),
    "replay": ("replaying", "Run the code of a run again: on its record alone, or live."),
    "fork": ("forking", "Go another way from somewhere in a run."),
    "ls": ("listing", "List the runs of the store, newest first."),
    "search": ("searching", "Search the texts of all runs."),
    "show": ("showing", "Show a run: what happened, one event, or its state."),
    "step": ("stepping", "Walk a run event by event, forward and back."),
    "stats": ("statistics", "Tokens, cost and latency by model and tool."),
    "diff": ("diffing", "Find where two runs part."),
    "attempts": ("attempting", "Compare attempts at an effect, or live replays of a run."),
    "verify": ("verifying", "Check that a run or an exported file is as it was written."),
    "token": ("receipts", "Receipts of effects: make, check, find."),
    "evidence": ("receipts", "Signed evidence of runs that a stranger can check."),
    "export": ("copying", "Write a run to one text file that anybody can verify."),
    "import": ("copying", "Bring an exported file into the store."),
    "recover": ("copying", "Copy the valid prefix of a damaged run to another store."),
    "waits": ("waiting", "List what a run waits for."),
    "resolve": ("waiting", "Resolve a wait by its key."),
    "settle": ("operating", "Settle an effect in doubt."),
    "cancel": ("operating", "End a run."),
    "worker": ("operating", "Carry on runs that nobody holds any more."),
    "serve": ("serving", "Serve the runs of the store over HTTP, on this machine."),
    "gc": ("removing", "Remove ended runs by age or number."),
    "erase": ("removing", "Erase a value wherever it was recorded."),
    "scan": ("scanning", "Look for secrets in a run, a file or the whole store."),
    "keys": ("waiting", "The secrets that sign wait keys: list, rotate, retire, where."),
    "doctor": ("doctor", "Look at this installation and its store."),
    "completion": ("completing", "What a shell needs to complete commands, options and run ids."),
    "demo": ("demo", "An agent is killed and goes on; its record is verified, altered, and that is found."),
}
"""Name → module of `reenact.cli`, and what it does. The function there has the same name (`import_` for import)."""
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
    "trace": "show",
    "watch": "show --follow",
    "web": "serve",
}
"""What others call it."""


class UnknownCommandError(click.UsageError):
    def __init__(self, name: str, context: click.Context) -> None:
        from difflib import get_close_matches

        super().__init__(f"there is no command {name[:80]!r}", context)
        meant = [MEANT[name]] if name in MEANT else get_close_matches(name, COMMANDS, n=2)
        listed = " or ".join(f"`reenact {one}`" for one in meant)
        self.hint = f"Did you mean {listed}?" if meant else "`reenact --help` lists the commands."


class Help(click.HelpFormatter):
    """Fits a terminal of any width: click's own is never narrower than 50 columns."""

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
        module = import_module(f"reenact.cli.{COMMANDS[name][0]}")
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
        # click would load every command to ask it for its help.
        from click.shell_completion import CompletionItem

        found = [CompletionItem(name, help=COMMANDS[name][1]) for name in COMMANDS if name.startswith(incomplete)]
        return found + click.Command.shell_complete(self, context, incomplete)

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        # click would load every command to ask it for this.
        with formatter.section("Commands"):
            formatter.write_dl([(name, about) for name, (_, about) in COMMANDS.items()])

    def invoke(self, context: click.Context) -> Any:
        try:
            return super().invoke(context)
        except BrokenPipeError as error:
            raise ReaderGoneError from error  # click would end with 1, which means that a check found something

    def main(self, args: Sequence[str] | None = None, *rest: Any, **options: Any) -> NoReturn:
        arguments = list(sys.argv[1:] if args is None else args)
        arguments = arguments or ["--help"]  # click would call it an error
        options["standalone_mode"] = False
        call = super().main
        sys.exit(run_guarded(lambda: call(arguments, *rest, **options), arguments))


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@shared_options
@click.version_option(package_name="reenact", message="reenact %(version)s")
def cli() -> None:
    """Record what an AI agent did in one tamper-evident log; resume it, replay it, prove it.

    RUN is a run id, a unique beginning of one, @last (the first line of `reenact ls`) or @last~1 (the one before it).
    Without --store the store is REENACT_STORE, what pyproject.toml names, or .reenact/ in the project.

    \b
    Exit status: 0 ok · 1 the check found something · 2 usage · 3 not found
    4 integrity broken · 5 store unavailable · 6 blocked, in doubt or refused
    7 not replayable · 70 internal error
    """


def run() -> NoReturn:
    """The console entry point."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        binary: Any = sys.stdout.buffer
        if isinstance(binary, io.RawIOBase):
            # Under PYTHONUNBUFFERED Python drops what one write() did not take: a cut-off answer would look whole.
            binary = io.BufferedWriter(binary)
        # Characters that the terminal's encoding lacks are shown as escapes instead of failing.
        sys.stdout = io.TextIOWrapper(binary, encoding=sys.stdout.encoding, errors="backslashreplace")
    try:
        cli.main(prog_name="reenact")
    except SystemExit as end:
        if end.code in (INTERRUPTED, TERMINATED):
            _leave_threads(int(end.code or 0))
        raise


def _leave_threads(status: int) -> None:
    """Threads of an agent that wait for something would keep a suspended process from ending."""
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
