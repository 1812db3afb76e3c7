"""`reenact fork`: another way from somewhere in a run, as a run of its own."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import click

from reenact.cli.completing import complete_run
from reenact.cli.output import note, say_json, suggest
from reenact.cli.results import command_for
from reenact.cli.settings import Settings, shared_options
from reenact.cli.stores import reading, writing
from reenact.cli.text import inert
from reenact.errors import InvalidInput

if TYPE_CHECKING:  # loaded when the command runs
    from reenact.effect.forking import Change
    from reenact.journal.reader import JournalReader
    from reenact.replays.forking import ExpectedTail

TAILS = ("live", "mocked", "stopped")
TAIL_HELP = "What comes behind it: carried out (live), from the record alone (mocked), or not at all yet (stopped)."
LIVE_TOOL_HELP = "A tool that may really be carried out. Can be given more than once."


@click.command()
@shared_options
@click.argument("run", shell_complete=complete_run)
@click.argument("target", metavar="[FILE.PY:FUNCTION]", required=False)
@click.option("-m", "--module", metavar="MODULE:FUNCTION", help="An importable module instead of a file.")
@click.option("--at", type=click.IntRange(0), metavar="N", help="Share RUN up to event N; by default up to the change.")
@click.option("--event", type=click.IntRange(1), metavar="N", help="The request, or the answer, that is another one.")
@click.option("--answer", metavar="JSON", help="What event N's request is answered with instead.")
@click.option("--fail", metavar="MESSAGE", help="The error that it is answered with instead.")
@click.option("--with-input", metavar="JSON", help="What the request is made with instead.")
@click.option("--patch", metavar="JSON", help="The same as an RFC 6902 patch of its input, or of the answer's value.")
@click.option("--model", metavar="NAME", help="Ask this model from there on.")
@click.option("--tail", type=click.Choice(TAILS), default="live", show_default=True, help=TAIL_HELP)
@click.option("--live-tool", "live_tools", metavar="NAME", multiple=True, help=LIVE_TOOL_HELP)
@click.option("--fork-id", metavar="ID", help="The id of the new run; a random one otherwise.")
@click.option("--dry-run", is_flag=True, help="Only say what may be expected of it.")
@click.option("--no-wait", is_flag=True, help="Suspend and end with 6 when it waits for somebody.")
@click.pass_obj
def fork(settings: Settings, /, run: str, target: str | None, module: str | None, **options: Any) -> None:
    """Go another way from somewhere in RUN: a run of its own that shares what was before, and pays for what is behind.

    Model calls and steps are carried out again. A tool is not: it is answered from RUN's record, or the fork stops,
    unless you name it with --live-tool. A failed run goes on by a fork: its last event is left out.

    \b
    reenact fork @last --event 12 --answer '"no"'      the answer at event 12 was another one
    reenact fork @last --event 7 --patch '[{"op": "replace", "path": "/prompt", "value": "Be brief."}]'
    reenact fork @last --at 20 --model other-model --live-tool send_mail
    reenact fork @last --at 20 --dry-run               what would it cost?
    reenact diff RUN FORK                              where the two part

    Exit status as of `reenact run`.
    """
    from reenact.capture.terms import program_of
    from reenact.cli.program_tails import fork_program
    from reenact.cli.running import agent_output, load_for, said_result, told_as_own
    from reenact.cli.selection import selected_run
    from reenact.effect.secrets import facts_as_given
    from reenact.journal.reader import JournalReader

    with reading(settings) as store:  # nothing is begun before it is known that it can be
        reader = JournalReader(store, selected_run(store, settings.namespace, run), settings.namespace)
        change = _change(reader, options)
        expected = _expected(reader, change, options)
        program = program_of(facts_as_given(reader))
    if settings.json and options["dry_run"]:
        say_json(expected.to_data())
    elif not settings.json:
        _tell(expected)
    if options["dry_run"]:
        return
    if program is not None:
        fork_program(settings, reader, program, change, options)
    with told_as_own(), agent_output(settings), writing(settings) as store:
        reader = JournalReader(store, reader.run, settings.namespace)
        agent = load_for(reader, target, module)
        agent.check_recorded(reader)
        name, result = _carried(settings, store, reader, agent, change, options)
    said_result(settings, name, result)
    suggest(settings, (command_for(settings, "diff", reader.run, name), "where the two part"))


def _change(reader: JournalReader, options: dict[str, Any]) -> Change | None:
    from reenact.cli.running import read_json
    from reenact.effect.forking import AnotherAnswer, AnotherInput, AnotherModel
    from reenact.effect.settling import SettledAsFailed
    from reenact.replays.forking import patched_change

    given = [name for name in ("answer", "fail", "with_input", "patch", "model") if options[name] is not None]
    if len(given) > 1:
        raise InvalidInput("a fork has one change", hint="Fork the fork for another one.", code="usage")
    event = options["event"]
    if (event is None) != (not given or given == ["model"]):
        raise InvalidInput(
            "--event says which event is another one, and one of --answer, --fail, --with-input and --patch what it is",
            hint="`reenact show RUN` lists the events.",
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


def _expected(reader: JournalReader, change: Change | None, options: dict[str, Any]) -> ExpectedTail:
    from reenact.replays.forking import expected_tail, fork_position

    at = fork_position(reader, options["at"], change)
    return expected_tail(reader, at, tail=options["tail"], live_tools=options["live_tools"], change=change)


def _tell(expected: ExpectedTail) -> None:
    """Before anything is spent."""
    shared, effects = _counted(expected.at, "event"), _counted(expected.effects, "effect")
    note(f"shares {shared} with {inert(expected.run)}, which went on with {effects}")
    if expected.carried_out:
        spent = [f"{expected.tokens:,.0f} tokens"] if expected.tokens else []
        spent += [f"cost {expected.cost:,.4f}"] if expected.cost else []
        spent += [f"{expected.untold:,} untold"] if expected.untold else []
        note(f"carried out again: {_named(expected.carried_out)}{' · ' + ' · '.join(spent) if spent else ''}")
    if expected.answered:
        note(f"answered from the record: {_named(expected.answered)}")


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _named(counts: dict[str, int]) -> str:
    return ", ".join(f"{count:,} x {inert(name)}" for name, count in counts.items())


def _carried(settings: Settings, store: Any, reader: JournalReader, agent: Any, change: Any, options: Any) -> Any:
    from reenact.cli.running import carried, say_run
    from reenact.effect.forking import begin_fork

    name = begin_fork(
        store,
        reader.run,
        options["at"],
        reader.namespace,
        change=change,
        tail=options["tail"],
        live_tools=options["live_tools"],
        run_id=options["fork_id"],
        facts=agent.own_facts(),
    )
    say_run(settings, name)
    go_on = partial(agent.resume, name, store=store)
    return name, carried(settings, store, name, agent, go_on, options["no_wait"])
