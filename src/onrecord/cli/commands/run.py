"""Implement `onrecord run` and `resume`: execute an agent in this process, or start a program that is recorded."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from onrecord.cli.commands.completion import complete_run
from onrecord.cli.fast_start import hash_seed, new_run_id, restart_with_seed
from onrecord.cli.programs.paths import refuse_missing_code
from onrecord.cli.programs.start import (
    RunCommand,
    command_words,
    program_arguments,
    restart_program,
    start_command,
    start_program,
)
from onrecord.cli.render.output import note, suggest
from onrecord.cli.render.text import inert, status_text
from onrecord.cli.settings import Settings, shared_options
from onrecord.cli.stores import reading, writing
from onrecord.errors import InvalidInput, InvalidValue, NotFound, OnrecordError, Refused

if TYPE_CHECKING:  # loaded when the command runs
    from onrecord.cli.suspend import Suspender
    from onrecord.journal.reader import JournalReader
    from onrecord.reports.status import Standing
    from onrecord.runtime.api.agent import Agent
    from onrecord.store.contract import Store

_RESERVED = ("run_id", "store")
"""Parameters of `Agent.run` that the agent's own arguments cannot use."""
_INTERRUPT = "interrupt@"


@click.command(cls=RunCommand)
@shared_options
@click.argument("target", metavar="[SCRIPT.PY ARGS... | FILE.PY:FUNCTION]", required=False)
@click.option("-m", "--module", metavar="MODULE[:FUNCTION]", help="Use an importable module instead of a file.")
@click.option(
    "--input", "given", metavar="JSON", help="Call the agent with this: an object by name, a list by position."
)
@click.option("--run-id", metavar="ID", help="Set the id of the run; random by default.")
@click.option("--strict", is_flag=True, help="Refuse what cannot be recorded.")
@click.option("--durable-sleeps", is_flag=True, help="Program: after a resume, sleep only the remaining time.")
@click.option("--no-wait", is_flag=True, help="Suspend and exit with 6 when the run waits.")
@click.pass_obj
def run(
    settings: Settings,
    target: str | None,
    module: str | None,
    given: str | None,
    run_id: str | None,
    strict: bool,
    durable_sleeps: bool,
    no_wait: bool,
) -> None:
    """Run a program or an agent, and record it from beginning to end.

    A program (a script, or -m MODULE) keeps its own arguments, input, output and exit code. Options of Onrecord go
    before it. The last line reports what was recorded, and what was not. Python processes that it starts, or that a
    command after -- starts, are recorded as linked runs.

    An agent is a function of a file, with `@onrecord.agent` or without. With --input, and one agent in the file, its
    name can be left out. Its result goes to stdout. Ctrl-C and SIGTERM suspend a run; `onrecord resume` continues it.

    \b
    onrecord run agent.py --question "Where is my order?"
    onrecord run --strict -m shop.main
    onrecord run -- bash -c "python a.py; python b.py"
    onrecord run agent.py:support --input '{"question": "Where is my order?"}'
    onrecord run -m shop.agents:support --input '["Where is my order?"]'

    \b
    Exit status: 0 returned · 1 failed · 6 blocked, waiting or in doubt
    125 Onrecord failed · 130 and 143 interrupted, terminated
    """
    from onrecord.cli.agent_loader import load_agent, parse_target
    from onrecord.core.links import check_run_id

    words = command_words()
    if words is not None and target is None and module is None and given is None:
        with mark_own_failures():
            start_command(settings, words, run_id=check_run_id(run_id) if run_id else None, strict=strict)
    arguments = program_arguments()
    if arguments is not None and (target is None) != (module is None):
        is_module = module is not None
        with mark_own_failures():
            name = check_run_id(run_id) if run_id is not None else None
            start_program(
                settings,
                target or module or "",
                arguments,
                is_module=is_module,
                run_id=name,
                strict=strict,
                durable_sleeps=durable_sleeps,
            )
    if (target is None) == (module is None):
        raise InvalidInput(
            "run needs one of SCRIPT.PY, FILE.PY:FUNCTION and -m MODULE",
            hint="For example: `onrecord run agent.py`, `onrecord run agent.py:support`.",
            code="usage",
        )
    name = check_run_id(run_id) if run_id is not None else new_run_id()
    if settings.owns_process:
        restart_with_seed(hash_seed())
    with mark_own_failures(), agent_output(settings):
        agent = load_agent(parse_target(target or module or "", is_module=module is not None))
        args, kwargs = _parse_arguments(agent, given)
        if settings.namespace == "default":  # the command line names none
            settings.namespace = agent.namespace
        agent.namespace = settings.namespace
        agent.strict = agent.strict or strict
        with writing(settings) as store:
            if store.run_row(settings.namespace, name) is not None:
                raise Refused(
                    f"there is a run {name} already",
                    hint=f"Resume it: onrecord resume {name}; or choose another id.",
                    code="run_exists",
                )
            print_run(settings, name)
            begin = partial(agent.run, *args, run_id=name, store=store, **kwargs)
            result = execute_agent(settings, store, name, agent, begin, no_wait)
    print_result(settings, name, result)


@click.command()
@shared_options
@click.argument("run", shell_complete=complete_run)
@click.argument("target", metavar="[FILE.PY:FUNCTION]", required=False)
@click.option("-m", "--module", metavar="MODULE:FUNCTION", help="Use an importable module instead of a file.")
@click.option("--decision", metavar="JSON", help="Answer the interrupt that blocks the run.")
@click.option("--pin-code", is_flag=True, help="Refuse code that differs from the recorded code.")
@click.option("--accept-code", is_flag=True, help="Continue with changed code from where it differs.")
@click.option(
    "--tail", type=click.Choice(("live", "mocked", "stopped")), help="Fork: how its tail gets answers from here on."
)
@click.option(
    "--live-tool", "live_tools", metavar="NAME", multiple=True, help="Fork: let this tool run too; repeatable."
)
@click.option("--no-wait", is_flag=True, help="Suspend and exit with 6 when the run waits.")
@click.pass_obj
def resume(
    settings: Settings,
    run: str,
    target: str | None,
    module: str | None,
    decision: str | None,
    pin_code: bool,
    accept_code: bool,
    tail: str | None,
    live_tools: tuple[str, ...],
    no_wait: bool,
) -> None:
    """Continue RUN where it stopped. No recorded effect is executed again; an ended run prints its result again.

    A run records where its code is; name the code to use another. If the code has changed so that a request differs
    from the record, resume stops before it executes anything: restore the old code, or give --accept-code. The exit
    status is that of `onrecord run`.

    \b
    onrecord resume @last
    onrecord resume 3f2a --decision '"yes"'      answer the interrupt that blocks it
    onrecord resume @last agent.py:support
    """
    from onrecord.capture.program_task import program_of
    from onrecord.cli.results import say_result
    from onrecord.cli.selection import selected_run
    from onrecord.journal.reader import JournalReader
    from onrecord.runtime.secrets.run_secrets import open_facts

    with mark_own_failures(), reading(settings) as store:  # resuming creates no store
        name = selected_run(store, settings.namespace, run)
        if decision is not None and _terminal_kind(store, settings.namespace, name) is not None:
            raise Refused(
                f"run {name} has ended; nothing in it waits for a decision",
                hint="Without --decision, resume prints its result.",
                code="not_blocked",
            )
        reader = JournalReader(store, name, settings.namespace)
        program = program_of(open_facts(reader, needed=True))
        has_ended = _terminal_kind(store, settings.namespace, name) is not None
        ended, output = _recorded_result(settings, reader) if program is None else (False, None)
        if has_ended and not settings.json:
            note(f"run {inert(name)} has ended; nothing is executed")
        if program is not None and not reader.imported and not has_ended:
            refuse_missing_code(reader, program)
        if program is None and not has_ended:
            use_recorded_seed(settings, reader)
    if program is not None:
        with mark_own_failures():
            restart_program(settings, reader, program, "resume")
    if ended:
        say_result(settings, name, output)
        return
    with mark_own_failures(), agent_output(settings), writing(settings) as store:
        reader = JournalReader(store, name, settings.namespace)
        if reader.imported:
            raise Refused(
                f"run {name} was recorded elsewhere and cannot be continued here",
                hint=f"Replay it instead: onrecord replay {name} file.py:function",
                code="imported_run",
            )
        if decision is not None:
            _decide(store, settings.namespace, name, decision)
        agent = load_agent_of(reader, target, module)
        print_run(settings, name)
        go_on = partial(
            agent.resume,
            name,
            store=store,
            pin_code=pin_code,
            accept_code=accept_code,
            tail=tail,
            live_tools=live_tools,
        )
        result = execute_agent(settings, store, name, agent, go_on, no_wait)
    print_result(settings, name, result)


def use_recorded_seed(settings: Settings, reader: JournalReader) -> None:
    """Start this command again with the hash seed of the run, if that is known: sets of strings keep their order."""
    meta = (reader.facts() or {}).get("meta")
    seed = meta.get("hash_seed") if isinstance(meta, dict) else None
    if isinstance(seed, int) and settings.owns_process:
        restart_with_seed(seed)


def load_agent_of(reader: JournalReader, target: str | None, module: str | None) -> Agent[..., Any]:
    """Load the agent of a run: the one that the user names, else the one that the run was started with."""
    from onrecord.cli.agent_loader import load_agent, name_as_recorded, parse_target, recorded_target

    if target is not None and module is not None:
        raise InvalidInput("FILE.PY:FUNCTION and -m MODULE:FUNCTION exclude each other", code="usage")
    name = target or module
    found = parse_target(name, is_module=module is not None) if name is not None else recorded_target(reader)
    if name is None and not found.is_module and not os.path.exists(found.source):
        again = f"onrecord {click.get_current_context().info_name} {reader.run} FILE.PY:{found.function or 'FUNCTION'}"
        raise NotFound(
            f"run {reader.run} was recorded from {found.source}, which no longer exists",
            hint=f"Name the file that has its code now: {again}",
            code="no_file",
        )
    agent = load_agent(found)
    if name is not None:
        name_as_recorded(reader, agent)
    agent.namespace = reader.namespace
    return agent


def _parse_arguments(agent: Agent[..., Any], given: str | None) -> tuple[list[Any], dict[str, Any]]:
    import inspect

    value = read_json("--input", given) if given is not None else {}
    args: list[Any] = value if isinstance(value, list) else [] if isinstance(value, dict) else [value]
    kwargs: dict[str, Any] = value if isinstance(value, dict) else {}
    try:
        bound = inspect.signature(agent.function).bind(*args, **kwargs)
    except TypeError as error:  # names the argument, never its value
        raise InvalidInput(
            f"the input does not fit {agent.name}{inspect.signature(agent.function)}: {error}",
            hint="--input is an object of arguments by name, a list by position, or the only argument.",
            code="bad_input",
        ) from None
    reserved = [name for name in bound.kwargs if name in _RESERVED]
    if reserved:
        raise InvalidInput(f"an argument called {reserved[0]} cannot be given by name", code="bad_input")
    return list(bound.args), dict(bound.kwargs)


def read_json(option: str, text: str) -> Any:
    from onrecord.core.strict_json import read_strict

    try:
        return read_strict(text.encode("utf-8", "surrogatepass"))
    except InvalidValue as refused:
        raise InvalidInput(
            f"{option}: {refused.message}",
            hint=f"""Text needs quotes of its own: {option} '"yes"'.""",
            code="bad_value",
        ) from None


def execute_agent(
    settings: Settings, store: Store, run: str, agent: Agent[..., Any], call: Callable[[], Any], no_wait: bool
) -> Any:
    """Execute the agent and return its result. Any other end is raised as the error to print."""
    import asyncio

    from onrecord.cli import results
    from onrecord.cli.suspend import RunSuspended, Suspender, watch_status

    suspender = Suspender()
    states = ("blocked", "waiting")
    with watch_status(store, settings.namespace, run, states, _handle_rest(settings, suspender, no_wait)):
        try:
            return suspender.execute(call, is_async=agent.is_async)
        except RunSuspended as reason:
            raise results.explain_suspension(settings, store, run, reason) from None
        except SystemExit as exiting:
            raise results.explain_exit(settings, run, exiting) from None
        except (Exception, asyncio.CancelledError) as error:
            ended = _terminal_kind(store, settings.namespace, run)
            if ended == "Failed":
                raise results.agent_failed(settings, run, error) from error
            if ended == "Cancelled":
                raise results.run_cancelled(settings, run) from None
            if isinstance(error, OnrecordError):
                raise results.explain_stop(settings, run, error) from error
            raise


def _handle_rest(settings: Settings, suspender: Suspender, no_wait: bool) -> Callable[[Standing], None]:
    def on_rest(standing: Standing) -> None:
        if standing.status == "blocked" or no_wait:
            suspender.suspend(standing)
        elif not settings.json:
            note(status_text(standing.status, standing.about))

    return on_rest


def _terminal_kind(store: Store, namespace: str, run: str) -> str | None:
    from onrecord.core.events import TERMINAL_KINDS

    last = store.last_event(namespace, run)
    return last.kind if last is not None and last.kind in TERMINAL_KINDS else None


@contextmanager
def mark_own_failures() -> Iterator[None]:
    """Give errors of Onrecord itself the exit status 125."""
    from onrecord.cli.results import mark_own_failure

    try:
        yield
    except click.ClickException:
        raise
    except Exception as error:
        failure = mark_own_failure(error)
        if failure is error:
            raise
        raise failure from error


@contextmanager
def agent_output(settings: Settings) -> Iterator[None]:
    """Send the agent's output to stderr with --json: stdout is one JSON document."""
    if settings.json:
        with redirect_stdout(sys.stderr):
            yield
    else:
        yield


def print_run(settings: Settings, run: str) -> None:
    if not settings.json:
        note(f"run {inert(run)}")


def print_result(settings: Settings, run: str, result: Any) -> None:
    from onrecord.cli.results import command_for, say_result
    from onrecord.core.codec import encode

    say_result(settings, run, encode(result).tree)
    suggest(
        settings,
        (command_for(settings, "show", run), "show what happened"),
        (command_for(settings, "replay", run), "run the code again on this record"),
    )


def _recorded_result(settings: Settings, reader: JournalReader) -> tuple[bool, Any]:
    """Return whether the run has ended, and its stored result. No code is loaded and no object is built."""
    from onrecord.cli import results
    from onrecord.core.events import TERMINAL_KINDS

    last = reader.store.last_event(reader.namespace, reader.run)
    if last is None or last.kind not in TERMINAL_KINDS:
        return False, None
    content = reader.content_tree(last, reader.link(last)) or {}
    if last.kind == "Cancelled":
        raise results.run_cancelled(settings, reader.run)
    if last.kind == "Failed":
        raise results.agent_failed(settings, reader.run, results.format_recorded_error(content.get("error")))
    return True, content.get("output")


def _decide(store: Store, namespace: str, run: str, text: str) -> None:
    """Answer the interrupt that blocks the run. The first decision wins."""
    from onrecord.core.wait_keys import Resolution, WaitIdentity
    from onrecord.reports.status import with_called_runs
    from onrecord.runtime.waits.listed_waits import load_waits
    from onrecord.runtime.waits.registry import WaitRegistry

    value = read_json("--decision", text)
    blocking = [
        (waiting, one)
        for waiting in with_called_runs(store, namespace, run)
        for one in load_waits(store, waiting, namespace)
        if one.state == "open" and one.name.startswith(_INTERRUPT)
    ]
    if len(blocking) != 1:
        one_by_one = "answer each: onrecord resolve --run RUN --wait NAME --number N --value JSON"
        raise Refused(
            f"run {run} is blocked by {len(blocking)} interrupts, not by one",
            hint=f"`onrecord waits {run}` lists what is open; "
            + (one_by_one if blocking else "without --decision the run continues."),
            code="not_blocked",
        )
    registry, (waiting, wait) = WaitRegistry(store, namespace), blocking[0]
    registry.resolve(registry.key(waiting, WaitIdentity.named(wait.name, wait.ordinal)), Resolution.ok(value))
