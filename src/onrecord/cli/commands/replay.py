"""Implement `onrecord replay`: run the code of a run again, on its record alone or live."""

from __future__ import annotations

import asyncio
import sys
from contextlib import redirect_stdout
from typing import TYPE_CHECKING, Any

import click

from onrecord.cli.commands.completion import complete_run_or_file
from onrecord.cli.fleet.command import FleetOptions, fleet_options
from onrecord.cli.fleet.replay import replay_all
from onrecord.cli.live_replay import LiveOptions, await_result, live_options, replay_live
from onrecord.cli.programs.replay_options import ProgramReplayOptions, program_replay_options
from onrecord.cli.programs.start import DashedCommand, command_words, restart_program
from onrecord.cli.render.output import fields, note, say, say_json, suggest
from onrecord.cli.render.text import brief, fit, inert
from onrecord.cli.results import command_for
from onrecord.cli.selection import RunSelection, filter_options
from onrecord.cli.settings import Settings, shared_options
from onrecord.cli.stores import reading, writing
from onrecord.errors import Damaged, InvalidInput, OnrecordError, StoreError

if TYPE_CHECKING:  # loaded when the command runs
    from onrecord.reports.misses import Miss
    from onrecord.runtime.api.agent import Agent
    from onrecord.runtime.engine.stops import Divergence
    from onrecord.store.contract import Store

DIVERGED = 1
NOT_REPLAYABLE = 7
SHOWN_VALUE_CHARACTERS = 400
_LOCATION = ("seq", "key", "lane", "nearest", "path", "line", "expected", "actual")


class AgentLeft(OnrecordError):
    """Report an agent that called `exit()` in a replay: its status must not be taken for a verdict."""

    code = "agent_left"
    exit_status = DIVERGED
    default_hint = "An agent ends by returning or raising. Move exit() to the code that starts the agent."


@click.command(cls=DashedCommand)
@shared_options
@click.argument("words", metavar="[RUN] [FILE.PY:FUNCTION]...", nargs=-1, shell_complete=complete_run_or_file)
@click.option(
    "-m",
    "--module",
    "modules",
    metavar="MODULE:FUNCTION",
    multiple=True,
    help="Use an importable module instead of a file.",
)
@click.option("--strict", is_flag=True, help="Also refuse unrecorded clock reads and random numbers.")
@click.option("--all", "everything", is_flag=True, help="Replay all runs, or those that the options below select.")
@filter_options
@fleet_options("--jobs")
@live_options
@program_replay_options
@click.pass_obj
def replay(
    settings: Settings,
    words: tuple[str, ...],
    modules: tuple[str, ...],
    strict: bool,
    everything: bool,
    chosen: RunSelection,
    how: FleetOptions,
    live: LiveOptions,
    program: ProgramReplayOptions,
) -> int | None:
    """Run the code of RUN again on its record alone: every effect gets its recorded outcome, and nothing runs live.

    A divergence is shown, and the exit status is 1. Status 7 means that an effect has no recorded value. An unfinished
    run is replayed up to its last event.

    A run records where its code is. Name the code of an imported run, and to use other code. To run another program
    instead of the recorded one, give it after --: `onrecord replay @last -- python agent.py`.

    With --live the models are called and the steps run again, and each outcome is compared within a tolerance. A tool
    runs only if --live-tool names it. Status 0 means that every difference is within the tolerance.

    \b
    onrecord replay @last
    onrecord replay @last --loose=moved,content
    onrecord replay @last --break-at 12
    onrecord replay @last --live --tokens 10% --content normalised
    onrecord replay --all agent.py --junit results.xml
    onrecord replay --all --agent support --since 7d --shard 2/4
    """
    live.refuse_without_live()
    if everything and live.live_run_id is not None:
        raise InvalidInput("--live-run-id names one new run and cannot be used with --all", code="usage")
    if everything:
        program.refuse("--all")
        code = [*((text, False) for text in words), *((text, True) for text in modules)]
        return replay_all(settings, code, strict, chosen, how, live)
    how.refuse_for_one(chosen)
    if not words or len(words) + len(modules) > 2:
        raise InvalidInput(
            "replay needs a RUN and at most one FILE.PY:FUNCTION or -m MODULE:FUNCTION, or --all",
            hint="Try `onrecord replay @last`, `onrecord replay RUN agent.py:support`, `onrecord replay --all`.",
            code="usage",
        )
    target, module = [*words[1:], None][0], [*modules, None][0]
    if live.live:
        program.refuse("--live")
        return _replay_live(settings, words[0], target, module, live)
    return _replay_one(settings, words[0], target, module, strict, program)


def _replay_live(settings: Settings, run: str, target: str | None, module: str | None, live: LiveOptions) -> int | None:
    from onrecord.capture.program_task import program_of
    from onrecord.cli.commands.run import load_agent_of
    from onrecord.cli.programs.tails import ProgramLiveReplay
    from onrecord.cli.selection import selected_run
    from onrecord.journal.reader import JournalReader
    from onrecord.runtime.secrets.run_secrets import open_facts

    with reading(settings) as store:  # read-only: selecting a run creates no store
        name = selected_run(store, settings.namespace, run)
    with writing(settings) as store:
        reader = JournalReader(store, name, settings.namespace)
        program = program_of(open_facts(reader))
        agent = load_agent_of(reader, target, module) if program is None else ProgramLiveReplay(settings, program)
        return replay_live(settings, store, agent, name, live)


def _replay_one(
    settings: Settings, run: str, target: str | None, module: str | None, strict: bool, how: ProgramReplayOptions
) -> int | None:
    from onrecord.capture.program_task import program_of
    from onrecord.cli.commands.run import load_agent_of, use_recorded_seed
    from onrecord.cli.selection import selected_run
    from onrecord.journal.reader import JournalReader
    from onrecord.reports.misses import explained
    from onrecord.runtime.api.origins import forbid_starts, forbid_starts_for_good
    from onrecord.runtime.engine.stops import Divergence
    from onrecord.runtime.secrets.run_secrets import open_facts

    with reading(settings) as store:
        name = selected_run(store, settings.namespace, run)
        reader = JournalReader(store, name, settings.namespace)
        program = program_of(open_facts(reader))
        if program is not None:
            terms = how.terms(json=settings.json, strict=strict)
            restart_program(settings, reader, program, "replay", words=command_words(), replaying=terms)
        how.refuse("agents", name)
        if command_words() is not None:
            raise InvalidInput(
                f"run {name} was recorded by an agent, not a program; name FILE.PY:FUNCTION", code="usage"
            )
        use_recorded_seed(settings, reader)
        if settings.owns_process:
            forbid_starts_for_good()  # a thread of the loaded code may run longer than the command
        with forbid_starts():
            agent = load_agent_of(reader, target, module)
            verdict = replay_verdict(agent, name, store, strict)
        reader = JournalReader(store, name, settings.namespace)
        miss = explained(verdict, reader) if isinstance(verdict, Divergence) else None
        events = reader.head().seq
    return _print_verdict(settings, name, events, verdict, miss)


def replay_verdict(agent: Agent[..., Any], run: str, store: Store, strict: bool) -> OnrecordError | None:
    """Replay a run. Return None if it did the same, else what differs. The agent's output goes to stderr."""
    from onrecord.cli.agent_loader import starts_run
    from onrecord.runtime.api.origins import StartedWhileLoading
    from onrecord.runtime.engine.stops import Divergence, NotReplayable, RecordEnded

    try:
        with redirect_stdout(sys.stderr):
            returned = agent.replay(run, store=store, strict=strict)
            if agent.is_async:
                asyncio.run(await_result(returned))
    except Divergence as divergence:
        return _find_cause(divergence)
    except (RecordEnded, NotReplayable) as verdict:
        return verdict
    except StartedWhileLoading as start:
        raise starts_run(f"the code of {agent.name}", start) from None
    except (Damaged, StoreError):
        raise  # not a verdict about the code
    except SystemExit as exiting:
        raise AgentLeft(
            f"the agent's code ended the program: SystemExit({fit(inert(repr(exiting.code)), 40)})"
        ) from None
    except (Exception, asyncio.CancelledError):
        # The recorded error: another one would have been a divergence. An error of Onrecord itself is not a verdict.
        last = store.last_event(agent.namespace, run)
        if last is not None and last.kind in ("Failed", "Cancelled"):
            return None
        raise
    return None


def _find_cause(divergence: Divergence) -> OnrecordError:
    """Return the `NotReplayable` that made the agent fail, if that caused the divergence; else the divergence."""
    from onrecord.runtime.engine.stops import NotReplayable

    actual = divergence.where.get("actual")
    error = actual.get("error") if isinstance(actual, dict) else None
    return error if isinstance(error, NotReplayable) else divergence


def _print_verdict(
    settings: Settings, run: str, events: int, verdict: OnrecordError | None, miss: Miss | None
) -> int | None:
    from onrecord.runtime.engine.stops import Divergence, NotReplayable, RecordEnded

    if verdict is None or isinstance(verdict, RecordEnded):
        status = "same" if verdict is None else "unfinished"
        if settings.json:
            say_json({"run": run, "status": status, "events": events})
        else:
            ending = "" if verdict is None else "; the record is unfinished and ends there"
            say(f"replayed {run}: the same in all {events:,} events{ending}")
            live = command_for(settings, "replay", run, "--live")
            suggest(settings, (live, "call the models again; tools run only if named"))
        return None
    where = encode_location(verdict) if isinstance(verdict, Divergence) else {}
    if settings.json:
        status = "not_replayable" if isinstance(verdict, NotReplayable) else "diverged"
        problem = {"code": verdict.code, "message": verdict.message, "hint": verdict.hint, **where}
        problem |= {"miss": miss.data} if miss is not None else {}
        say_json({"run": run, "status": status, "events": events, "divergence": problem})
    elif miss is not None and miss.lines:
        for line in miss.texts():
            say(line)
    elif where:
        fields([(name, _format_value(value)) for name, value in where.items()])
    note(f"error: {inert(verdict.message)} [{verdict.code}]")
    note(inert(verdict.hint))
    return NOT_REPLAYABLE if isinstance(verdict, NotReplayable) else DIVERGED


def encode_location(divergence: Divergence) -> dict[str, Any]:
    """Return where a replay diverged, with values in encoded form. `expected` is what was recorded."""
    from onrecord.core.codec import encode

    found = {name: divergence.where[name] for name in _LOCATION if divergence.where.get(name) not in (None, "")}
    return {name: encode(value).tree for name, value in found.items()}


def _format_value(value: Any) -> str:
    return inert(value) if isinstance(value, str) else brief(value, SHOWN_VALUE_CHARACTERS)
