"""Implement `onrecord fork`: continue a copy of a run from any event, with a change."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import click

from onrecord.cli.commands.completion import complete_run
from onrecord.cli.render.output import note, say_json, suggest
from onrecord.cli.render.text import count_text, inert
from onrecord.cli.results import command_for
from onrecord.cli.settings import Settings, shared_options
from onrecord.cli.stores import reading, writing
from onrecord.core.links import check_run_id
from onrecord.errors import InvalidInput, RunExists

if TYPE_CHECKING:  # loaded when the command runs
    from onrecord.analysis.fork import ExpectedTail
    from onrecord.journal.reader import JournalReader
    from onrecord.runtime.forks.fork import Change

TAILS = ("live", "mocked", "stopped")
TAIL_HELP = "How the tail gets its answers: executed (live), recorded (mocked), or none yet (stopped)."
LIVE_TOOL_HELP = "Let this tool run in the tail; repeatable."


@click.command()
@shared_options
@click.argument("run", shell_complete=complete_run)
@click.argument("target", metavar="[FILE.PY:FUNCTION]", required=False)
@click.option("-m", "--module", metavar="MODULE:FUNCTION", help="Use an importable module instead of a file.")
@click.option("--at", type=click.IntRange(0), metavar="N", help="Share RUN up to event N; by default up to the change.")
@click.option("--event", type=click.IntRange(1), metavar="N", help="Change the request or the answer at event N.")
@click.option("--answer", metavar="JSON", help="Answer the request of event N with this value.")
@click.option("--fail", metavar="MESSAGE", help="Answer it with this error.")
@click.option("--with-input", metavar="JSON", help="Make the request with this input.")
@click.option("--patch", metavar="JSON", help="Change the input, or the answer's value, by an RFC 6902 patch.")
@click.option("--model", metavar="NAME", help="Call this model from there on.")
@click.option("--tail", type=click.Choice(TAILS), default="live", show_default=True, help=TAIL_HELP)
@click.option("--live-tool", "live_tools", metavar="NAME", multiple=True, help=LIVE_TOOL_HELP)
@click.option("--fork-id", metavar="ID", help="Set the id of the new run; random by default.")
@click.option("--dry-run", is_flag=True, help="Only print what the fork would share and cost.")
@click.option("--no-wait", is_flag=True, help="Suspend and exit with 6 when the run waits.")
@click.pass_obj
def fork(settings: Settings, /, run: str, target: str | None, module: str | None, **options: Any) -> None:
    """Continue a copy of RUN from any event, with a change. The fork shares the events before the change.

    Model calls and steps are executed again. A tool gets its answer from RUN's record, or the fork stops there, unless
    you name it with --live-tool. To continue a failed run, fork it: its last event is left out.

    \b
    onrecord fork @last --event 12 --answer '"no"'      change the answer at event 12
    onrecord fork @last --event 7 --patch '[{"op": "replace", "path": "/prompt", "value": "Be brief."}]'
    onrecord fork @last --at 20 --model other-model --live-tool send_mail
    onrecord fork @last --at 20 --dry-run               print what it would cost
    onrecord diff RUN FORK                              find where they diverge

    The exit status is that of `onrecord run`.
    """
    from onrecord.capture.program_task import program_of
    from onrecord.cli.commands.run import agent_output, load_agent_of, mark_own_failures, print_result
    from onrecord.cli.programs.tails import fork_program
    from onrecord.cli.selection import selected_run
    from onrecord.journal.reader import JournalReader
    from onrecord.runtime.secrets.run_secrets import open_facts

    with reading(settings) as store:  # check everything before the fork is created
        reader = JournalReader(store, selected_run(store, settings.namespace, run), settings.namespace)
        fork_id = options["fork_id"]
        if fork_id is not None and store.run_row(settings.namespace, check_run_id(fork_id)) is not None:
            raise RunExists(f"there is a run {fork_id} already", hint="Choose another --fork-id, or leave it out.")
        change = _parse_change(reader, options)
        expected = _estimate_tail(reader, change, options)
        program = program_of(open_facts(reader))
    if settings.json and options["dry_run"]:
        say_json(expected.to_data())
    elif not settings.json:
        _print_estimate(expected)
    if options["dry_run"]:
        return
    if program is not None:
        fork_program(settings, reader, program, change, options)
    with mark_own_failures(), agent_output(settings), writing(settings) as store:
        reader = JournalReader(store, reader.run, settings.namespace)
        agent = load_agent_of(reader, target, module)
        agent.check_recorded(reader)
        name, result = _execute_fork(settings, store, reader, agent, change, options)
    print_result(settings, name, result)
    suggest(settings, (command_for(settings, "diff", reader.run, name), "find where they diverge"))


def _parse_change(reader: JournalReader, options: dict[str, Any]) -> Change | None:
    from onrecord.analysis.fork import patched_change
    from onrecord.cli.commands.run import read_json
    from onrecord.runtime.api.settle import SettledAsFailed
    from onrecord.runtime.forks.fork import AnotherAnswer, AnotherInput, AnotherModel

    given = [name for name in ("answer", "fail", "with_input", "patch", "model") if options[name] is not None]
    if len(given) > 1:
        raise InvalidInput("a fork has one change", hint="Fork the new run for a second change.", code="usage")
    event = options["event"]
    if (event is None) != (not given or given == ["model"]):
        raise InvalidInput(
            "--event needs one of --answer, --fail, --with-input and --patch, and each of them needs --event",
            hint="`onrecord show RUN` lists the events.",
            code="usage",
        )
    if not given:
        return None
    if given == ["model"]:
        return AnotherModel(options["model"])
    if given == ["fail"]:
        return AnotherAnswer(event, error=SettledAsFailed(options["fail"]))
    value = read_json(f"--{given[0].replace('_', '-')}", options[given[0]])
    if given == ["patch"]:
        return patched_change(reader, event, value)
    return AnotherInput(event, value) if given == ["with_input"] else AnotherAnswer(event, value)


def _estimate_tail(reader: JournalReader, change: Change | None, options: dict[str, Any]) -> ExpectedTail:
    from onrecord.analysis.fork import expected_tail
    from onrecord.runtime.forks.fork import fork_position

    at = fork_position(reader, options["at"], change)
    return expected_tail(reader, at, tail=options["tail"], live_tools=options["live_tools"], change=change)


def _print_estimate(expected: ExpectedTail) -> None:
    """Print what the fork shares and may cost, before anything is executed."""
    run, effects = inert(expected.run), count_text(expected.effects, "effect")
    note(f"shares {count_text(expected.at, 'event')} with {run}; {run} has {effects} after that")
    if expected.carried_out:
        spent = [f"{expected.tokens:,.0f} tokens"] if expected.tokens else []
        spent += [f"cost {expected.cost:,.4f}"] if expected.cost else []
        spent += [f"{expected.untold:,} calls without usage"] if expected.untold else []
        note(f"executed again: {_format_counts(expected.carried_out)}{' · ' + ' · '.join(spent) if spent else ''}")
    if expected.answered:
        note(f"answered from the record: {_format_counts(expected.answered)}")


def _format_counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{count:,} x {inert(name)}" for name, count in counts.items())


def _execute_fork(settings: Settings, store: Any, reader: JournalReader, agent: Any, change: Any, options: Any) -> Any:
    from onrecord.cli.commands.run import execute_agent, print_run
    from onrecord.cli.programs.tails import begin_fork_of

    name = begin_fork_of(reader, change, options, agent.own_facts())
    print_run(settings, name)
    go_on = partial(agent.resume, name, store=store)
    return name, execute_agent(settings, store, name, agent, go_on, options["no_wait"])
