"""`reenact run` and `resume`: an agent's function carried in this process, from its beginning or from its record."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from reenact.cli.completing import complete_run
from reenact.cli.output import note, suggest
from reenact.cli.program_places import refuse_if_gone
from reenact.cli.programs import (
    RunCommand,
    command_words,
    go_on_with_program,
    program_arguments,
    start_command,
    start_program,
)
from reenact.cli.settings import Settings, shared_options
from reenact.cli.starting import new_run_id
from reenact.cli.stores import reading, writing
from reenact.cli.text import inert, status_text
from reenact.errors import InvalidInput, InvalidValue, ReenactError, Refused

if TYPE_CHECKING:  # loaded when the command runs
    from reenact.cli.carrying import Suspender
    from reenact.effect.agents import Agent
    from reenact.journal.reader import JournalReader
    from reenact.reports.standing import Standing
    from reenact.store.contract import Store

_TAKEN = ("run_id", "store")
"""Names that starting a run has for itself."""
_INTERRUPT = "interrupt@"


@click.command(cls=RunCommand)
@shared_options
@click.argument("target", metavar="[SCRIPT.PY ARGS… | FILE.PY:FUNCTION | -- COMMAND…]", required=False)
@click.option("-m", "--module", metavar="MODULE[:FUNCTION]", help="An importable module instead of a file.")
@click.option("--input", "given", metavar="JSON", help="What it is called with: an object by name, a list by position.")
@click.option("--run-id", metavar="ID", help="The id of the run; a random one otherwise.")
@click.option("--strict", is_flag=True, help="Of a program: refuse what would leave it unseen.")
@click.option("--durable-sleeps", is_flag=True, help="Of a program: its sleeps are over when they were to be.")
@click.option("--no-wait", is_flag=True, help="Suspend and end with 6 when it waits for somebody.")
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
    """Run a program nobody changed, or an agent, recorded from beginning to end.

    A program (a script, or -m MODULE) has its own arguments, input, output and exit code; options for Reenact stand
    before it. One line at the end says what was recorded, and what nobody has seen. Python processes that it starts,
    and those below any command behind --, are recorded with it as linked runs.

    An agent is a function of a file (`@reenact.agent` or any other); with --input and one agent in the file its name
    can be left out. Its result goes to stdout. Ctrl-C and SIGTERM suspend a run; `reenact resume` goes on.

    \b
    reenact run agent.py --question "Where is my order?"
    reenact run --strict -m shop.main
    reenact run -- bash -c "python a.py; python b.py"
    reenact run agent.py:support --input '{"question": "Where is my order?"}'
    reenact run -m shop.agents:support --input '["Where is my order?"]'

    \b
    Exit status: 0 it returned · 1 it failed · 6 it is blocked, waits or is in doubt
    125 Reenact failed · 130 and 143 interrupted, terminated
    """
    from reenact.cli.loading import load_agent, parse_target
    from reenact.core.links import check_run_id

    words = command_words()
    if words is not None and target is None and module is None and given is None:
        with told_as_own():
            start_command(settings, words, run_id=check_run_id(run_id) if run_id else None, strict=strict)
    arguments = program_arguments()
    if arguments is not None and (target is None) != (module is None):
        is_module = module is not None
        with told_as_own():
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
            hint="For example: `reenact run agent.py`, `reenact run agent.py:support`.",
            code="usage",
        )
    name = check_run_id(run_id) if run_id is not None else new_run_id()
    with told_as_own(), agent_output(settings):
        agent = load_agent(parse_target(target or module or "", is_module=module is not None))
        args, kwargs = _arguments(agent, given)
        _settle_namespace(settings, agent)
        with writing(settings) as store:
            if store.run_row(settings.namespace, name) is not None:
                raise Refused(
                    f"there is a run {name} already",
                    hint=f"Go on with it: reenact resume {name}; or choose another id.",
                    code="run_exists",
                )
            say_run(settings, name)
            begin = partial(agent.run, *args, run_id=name, store=store, **kwargs)
            result = carried(settings, store, name, agent, begin, no_wait)
    said_result(settings, name, result)


@click.command()
@shared_options
@click.argument("run", shell_complete=complete_run)
@click.argument("target", metavar="[FILE.PY:FUNCTION]", required=False)
@click.option("-m", "--module", metavar="MODULE:FUNCTION", help="An importable module instead of a file.")
@click.option("--decision", metavar="JSON", help="Answers the interrupt that blocks it.")
@click.option("--pin-code", is_flag=True, help="Refuse code that is not the one that recorded it.")
@click.option("--accept-code", is_flag=True, help="Go on with changed code from where it differs.")
@click.option("--tail", type=click.Choice(("live", "mocked", "stopped")), help="Of a fork: how it goes on from here.")
@click.option(
    "--live-tool", "live_tools", metavar="NAME", multiple=True, help="Of a fork: a tool that may act as well."
)
@click.option("--no-wait", is_flag=True, help="Suspend and end with 6 when it waits for somebody.")
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
    """Go on with RUN where it stands. What is on record is not done again; the result of an ended run is given again.

    A run that `reenact run` began knows where its code is; name it for any other. Code that asks for something else
    than the record has does nothing: put the old code back, or accept the new one. Exit status as of `reenact run`.

    \b
    reenact resume @last
    reenact resume 3f2a --decision '"yes"'      answers the interrupt that blocks it
    reenact resume @last agent.py:support
    """
    from reenact.capture.terms import program_of
    from reenact.cli.results import say_result
    from reenact.cli.selection import selected_run
    from reenact.effect.secrets import facts_as_given
    from reenact.journal.reader import JournalReader

    with told_as_own(), reading(settings) as store:  # going on must not make a store
        name = selected_run(store, settings.namespace, run)
        if decision is not None and _ended_with(store, settings.namespace, name) is not None:
            raise Refused(
                f"run {name} has ended; nothing in it waits for a decision",
                hint="Without --decision its result is given again.",
                code="not_blocked",
            )
        reader = JournalReader(store, name, settings.namespace)
        program = program_of(facts_as_given(reader, needed=True))
        ended, output = _ended(settings, reader) if program is None else (False, None)
        if program is not None and not reader.imported and _ended_with(store, settings.namespace, name) is None:
            refuse_if_gone(reader, program)
    if program is not None:
        with told_as_own():
            go_on_with_program(settings, reader, program, "resume")
    if ended:
        say_result(settings, name, output)
        return
    with told_as_own(), agent_output(settings), writing(settings) as store:
        reader = JournalReader(store, name, settings.namespace)
        if reader.imported:
            raise Refused(
                f"run {name} was recorded elsewhere and cannot be continued here",
                hint=f"It can be replayed: reenact replay {name} file.py:function",
                code="imported_run",
            )
        if decision is not None:
            _decide(store, settings.namespace, name, decision)
        agent = load_for(reader, target, module)
        say_run(settings, name)
        go_on = partial(
            agent.resume,
            name,
            store=store,
            pin_code=pin_code,
            accept_code=accept_code,
            tail=tail,
            live_tools=live_tools,
        )
        result = carried(settings, store, name, agent, go_on, no_wait)
    said_result(settings, name, result)


def load_for(reader: JournalReader, target: str | None, module: str | None) -> Agent[..., Any]:
    """The code of a run: what the user names, or where the run says that it was started."""
    from reenact.cli.loading import load_agent, parse_target, recorded_target

    if target is not None and module is not None:
        raise InvalidInput("FILE.PY:FUNCTION and -m MODULE:FUNCTION exclude each other", code="usage")
    named = target or module
    found = parse_target(named, is_module=module is not None) if named is not None else recorded_target(reader)
    agent = load_agent(found)
    agent.namespace = reader.namespace
    return agent


def _settle_namespace(settings: Settings, agent: Agent[..., Any]) -> None:
    """What the command line names wins over what the code says."""
    if settings.namespace == "default":
        settings.namespace = agent.namespace
    agent.namespace = settings.namespace


def _arguments(agent: Agent[..., Any], given: str | None) -> tuple[list[Any], dict[str, Any]]:
    import inspect

    value = read_json("--input", given) if given is not None else {}
    args: list[Any] = value if isinstance(value, list) else [] if isinstance(value, dict) else [value]
    kwargs: dict[str, Any] = value if isinstance(value, dict) else {}
    try:
        bound = inspect.signature(agent.function).bind(*args, **kwargs)
    except TypeError as error:  # says which argument, never with its value
        raise InvalidInput(
            f"the input does not fit {agent.name}{inspect.signature(agent.function)}: {error}",
            hint="--input is an object of arguments by name, a list by position, or the only argument.",
            code="bad_input",
        ) from None
    taken = [name for name in bound.kwargs if name in _TAKEN]
    if taken:
        raise InvalidInput(f"an argument called {taken[0]} cannot be given by name", code="bad_input")
    return list(bound.args), dict(bound.kwargs)


def read_json(option: str, text: str) -> Any:
    from reenact.core.strict_json import read_strict

    try:
        return read_strict(text.encode("utf-8", "surrogatepass"))
    except InvalidValue as refused:
        raise InvalidInput(
            f"{option}: {refused.message}",
            hint=f"""Text needs quotes of its own: {option} '"yes"'.""",
            code="bad_value",
        ) from None


# Carrying


def carried(
    settings: Settings, store: Store, run: str, agent: Agent[..., Any], call: Callable[[], Any], no_wait: bool
) -> Any:
    """The agent's result. Whatever else comes of it is raised as what the user is to see."""
    import asyncio

    from reenact.cli import results
    from reenact.cli.carrying import SuspendedHere, Suspender, watching

    suspender = Suspender()
    states = ("blocked", "waiting")
    with watching(store, settings.namespace, run, states, _what_to_do(settings, suspender, no_wait)):
        try:
            return suspender.carry(call, is_async=agent.is_async)
        except SuspendedHere as reason:
            raise results.suspended(settings, store, run, reason) from None
        except SystemExit as left:
            raise results.left_by_agent(settings, run, left) from None
        except (Exception, asyncio.CancelledError) as error:
            ended = _ended_with(store, settings.namespace, run)
            if ended == "Failed":
                raise results.agent_failed(settings, run, error) from error
            if ended == "Cancelled":
                raise results.run_cancelled(settings, run) from None
            if isinstance(error, ReenactError):
                raise results.stopped(settings, run, error) from error
            raise


def _what_to_do(settings: Settings, suspender: Suspender, no_wait: bool) -> Callable[[Standing], None]:
    def found(standing: Standing) -> None:
        if standing.status == "blocked" or no_wait:
            suspender.suspend(standing)
        elif not settings.json:
            note(status_text(standing.status, standing.about))

    return found


def _ended_with(store: Store, namespace: str, run: str) -> str | None:
    from reenact.core.events import TERMINAL_KINDS

    last = store.last_event(namespace, run)
    return last.kind if last is not None and last.kind in TERMINAL_KINDS else None


@contextmanager
def told_as_own() -> Iterator[None]:
    from reenact.cli.results import own_failure

    try:
        yield
    except click.ClickException:
        raise
    except Exception as error:
        failure = own_failure(error)
        if failure is error:
            raise
        raise failure from error


@contextmanager
def agent_output(settings: Settings) -> Iterator[None]:
    """With --json stdout is one document: what the agent prints goes to stderr."""
    if settings.json:
        with redirect_stdout(sys.stderr):
            yield
    else:
        yield


def say_run(settings: Settings, run: str) -> None:
    if not settings.json:
        note(f"run {inert(run)}")


def said_result(settings: Settings, run: str, result: Any) -> None:
    from reenact.cli.results import command_for, say_result
    from reenact.core.codec import encode

    say_result(settings, run, encode(result).tree)
    suggest(
        settings,
        (command_for(settings, "show", run), "what happened"),
        (command_for(settings, "replay", run), "the code again, on this record"),
    )


def _ended(settings: Settings, reader: JournalReader) -> tuple[bool, Any]:
    """Whether the run has ended, and its result as it is stored: no code is loaded for it, no object built."""
    from reenact.cli import results
    from reenact.core.events import TERMINAL_KINDS

    last = reader.store.last_event(reader.namespace, reader.run)
    if last is None or last.kind not in TERMINAL_KINDS:
        return False, None
    content = reader.content_tree(last, reader.link(last)) or {}
    if last.kind == "Cancelled":
        raise results.run_cancelled(settings, reader.run)
    if last.kind == "Failed":
        raise results.agent_failed(settings, reader.run, results.recorded_error(content.get("error")))
    return True, content.get("output")


def _decide(store: Store, namespace: str, run: str, text: str) -> None:
    """Answers the interrupt that blocks the run; the first decision stands."""
    from reenact.core.wait_keys import Resolution, WaitIdentity
    from reenact.effect.waits.desk import WaitDesk
    from reenact.effect.waits.listing import waits_of
    from reenact.reports.standing import with_called_runs

    value = read_json("--decision", text)
    blocking = [
        (asking, one)
        for asking in with_called_runs(store, namespace, run)
        for one in waits_of(store, asking, namespace)
        if one.state == "open" and one.name.startswith(_INTERRUPT)
    ]
    if len(blocking) != 1:
        one_by_one = "one by one: reenact resolve --run RUN --wait NAME --number N --value JSON"
        raise Refused(
            f"run {run} is not blocked by one interrupt but by {len(blocking)}",
            hint=f"`reenact waits {run}` lists what is open; "
            + (one_by_one if blocking else "without --decision the run simply goes on."),
            code="not_blocked",
        )
    desk, (asking, wait) = WaitDesk(store, namespace), blocking[0]
    desk.resolve(desk.key(asking, WaitIdentity.named(wait.name, wait.ordinal)), Resolution.ok(value))
