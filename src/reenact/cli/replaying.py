"""`reenact replay`: the code of a run again, on its record alone."""

from __future__ import annotations

import asyncio
import sys
from contextlib import redirect_stdout
from typing import TYPE_CHECKING, Any

import click

from reenact.cli.completing import complete_run_or_file
from reenact.cli.fleet import How, fleet_options
from reenact.cli.fleet_replaying import replay_all
from reenact.cli.live_replaying import LiveOptions, live_options, replay_live
from reenact.cli.output import fields, note, say, say_json, suggest
from reenact.cli.program_replays import ProgramReplay, program_replay_options
from reenact.cli.programs import WithCommand, command_words, go_on_with_program
from reenact.cli.results import command_for
from reenact.cli.selection import RunFilter, filter_options
from reenact.cli.settings import Settings, shared_options
from reenact.cli.stores import reading, writing
from reenact.cli.text import brief, fit, inert
from reenact.errors import Damaged, InvalidInput, ReenactError, StoreError

if TYPE_CHECKING:  # loaded when the command runs
    from reenact.effect.agents import Agent
    from reenact.effect.stopping import Divergence
    from reenact.store.contract import Store

DIVERGED = 1
NOT_REPLAYABLE = 7
SHOWN_VALUE_CHARACTERS = 400
_WHERE = ("seq", "key", "lane", "nearest", "path", "line", "expected", "actual")


class AgentLeft(ReenactError):
    """Not a status of ours: an agent that says `exit(0)` has passed no check."""

    code = "agent_left"
    exit_status = DIVERGED
    default_hint = "An agent returns or raises; what ends a program belongs to whoever starts it."


@click.command(cls=WithCommand)
@shared_options
@click.argument(
    "words", metavar="[RUN] [FILE.PY:FUNCTION]... [-- COMMAND…]", nargs=-1, shell_complete=complete_run_or_file
)
@click.option(
    "-m", "--module", "modules", metavar="MODULE:FUNCTION", multiple=True, help="An importable module, not a file."
)
@click.option("--strict", is_flag=True, help="The agent's code may not read the clock or draw chance by itself either.")
@click.option("--all", "everything", is_flag=True, help="All runs, or those that the options below choose.")
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
    chosen: RunFilter,
    how: How,
    live: LiveOptions,
    program: ProgramReplay,
) -> int | None:
    """Run the code of RUN again on its record alone. Nothing outside is touched: every effect is answered as recorded.

    The same must come out. Where the program does something else, that is shown and the status is 1; 7 says that an
    effect has no recorded value. Of an unfinished run, what there is of it is replayed.

    A run that `reenact run` began knows where its code is; name it for any other, and always for an imported one.
    Behind -- stands what is run in place of the recorded program: `reenact replay @last -- python agent.py`.

    With --live the models are asked and the steps done again, and each outcome is judged within a tolerance. No tool
    acts that is not named with --live-tool. Status 0 says that nothing differs by more than that.

    \b
    reenact replay @last
    reenact replay @last --loose=moved,content
    reenact replay @last --break-at 12
    reenact replay @last --live --tokens 10% --content normalised
    reenact replay --all agent.py --junit results.xml
    reenact replay --all --agent support --since 7d --shard 2/4
    """
    live.refuse_without_live()
    if everything and live.live_run_id is not None:
        raise InvalidInput("--live-run-id is about one run, not --all", code="usage")
    if everything:
        program.refuse("--all")
        code = [*((text, False) for text in words), *((text, True) for text in modules)]
        return replay_all(settings, code, strict, chosen, how, live)
    how.refuse_for_one(chosen)
    if not words or len(words) + len(modules) > 2:
        raise InvalidInput(
            "replay needs a RUN and at most one place of its code, or --all",
            hint="For example: `reenact replay @last`, `reenact replay RUN agent.py:support`, `reenact replay --all`.",
            code="usage",
        )
    target, module = [*words[1:], None][0], [*modules, None][0]
    if live.live:
        program.refuse("--live")
        return _replay_live(settings, words[0], target, module, live)
    return _replay_one(settings, words[0], target, module, strict, program)


def _replay_live(settings: Settings, run: str, target: str | None, module: str | None, live: LiveOptions) -> int | None:
    from reenact.capture.terms import program_of
    from reenact.cli.program_tails import ProgramAgain
    from reenact.cli.running import load_for
    from reenact.cli.selection import selected_run
    from reenact.effect.secrets import facts_as_given
    from reenact.journal.reader import JournalReader

    with reading(settings) as store:  # to look for a run must not make a store
        name = selected_run(store, settings.namespace, run)
    with writing(settings) as store:
        reader = JournalReader(store, name, settings.namespace)
        program = program_of(facts_as_given(reader))
        agent = load_for(reader, target, module) if program is None else ProgramAgain(settings, program)
        return replay_live(settings, store, agent, name, live)


def _replay_one(
    settings: Settings, run: str, target: str | None, module: str | None, strict: bool, how: ProgramReplay
) -> int | None:
    from reenact.capture.terms import program_of
    from reenact.cli.running import load_for
    from reenact.cli.selection import selected_run
    from reenact.effect.secrets import facts_as_given
    from reenact.journal.reader import JournalReader

    with reading(settings) as store:
        name = selected_run(store, settings.namespace, run)
        reader = JournalReader(store, name, settings.namespace)
        program = program_of(facts_as_given(reader))
        if program is not None:
            terms = how.terms(json=settings.json)
            go_on_with_program(settings, reader, program, "replay", words=command_words(), replaying=terms)
        how.refuse("agents")
        if command_words() is not None:
            raise InvalidInput(f"run {name} is not that of a program; name FILE.PY:FUNCTION", code="usage")
        agent = load_for(reader, target, module)
        verdict = replay_verdict(agent, name, store, strict)
        events = JournalReader(store, name, settings.namespace).head().seq
    return _told(settings, name, events, verdict)


def replay_verdict(agent: Agent[..., Any], run: str, store: Store, strict: bool) -> ReenactError | None:
    """None: the same came out. What the agent prints is not the check's result: it goes to stderr."""
    from reenact.effect.stopping import Divergence, NotReplayable, RecordEnded

    try:
        with redirect_stdout(sys.stderr):
            made = agent.replay(run, store=store, strict=strict)
            if agent.is_async:
                asyncio.run(_awaited(made))
    except Divergence as divergence:
        return _cause(divergence)
    except (RecordEnded, NotReplayable) as verdict:
        return verdict
    except (Damaged, StoreError):
        raise  # no fault of the code's, whatever the run ended with
    except SystemExit as left:
        raise AgentLeft(f"the agent's code ended the program: SystemExit({fit(inert(repr(left.code)), 40)})") from None
    except (Exception, asyncio.CancelledError):
        # Raised as it was recorded: a run that ended with another error has diverged. Trouble of our own is no verdict.
        if _recorded_end(store, agent.namespace, run) in ("Failed", "Cancelled"):
            return None
        raise
    return None


def _cause(divergence: Divergence) -> ReenactError:
    """An agent that fails because an answer cannot be handed over again has not changed its ways."""
    from reenact.effect.stopping import NotReplayable

    actual = divergence.where.get("actual")
    error = actual.get("error") if isinstance(actual, dict) else None
    return error if isinstance(error, NotReplayable) else divergence


async def _awaited(made: Any) -> Any:
    return await made


def _recorded_end(store: Store, namespace: str, run: str) -> str | None:
    last = store.last_event(namespace, run)
    return last.kind if last is not None else None


def _told(settings: Settings, run: str, events: int, verdict: ReenactError | None) -> int | None:
    from reenact.effect.stopping import Divergence, NotReplayable, RecordEnded

    if verdict is None or isinstance(verdict, RecordEnded):
        status = "same" if verdict is None else "unfinished"
        if settings.json:
            say_json({"run": run, "status": status, "events": events})
        else:
            ends = "" if verdict is None else "; the record is unfinished and ends there"
            say(f"replayed {run}: the same in all {events:,} events{ends}")
            live = command_for(settings, "replay", run, "--live")
            suggest(settings, (live, "the models asked again; no tool acts unless named"))
        return None
    where = where_of(verdict) if isinstance(verdict, Divergence) else {}
    if settings.json:
        status = "not_replayable" if isinstance(verdict, NotReplayable) else "diverged"
        problem = {"code": verdict.code, "message": verdict.message, "hint": verdict.hint, **where}
        say_json({"run": run, "status": status, "events": events, "divergence": problem})
    elif where:
        fields([(name, _shown(value)) for name, value in where.items()])
    note(f"error: {inert(verdict.message)} [{verdict.code}]")
    note(inert(verdict.hint))
    return NOT_REPLAYABLE if isinstance(verdict, NotReplayable) else DIVERGED


def where_of(divergence: Divergence) -> dict[str, Any]:
    """What is known of the place, values in their encoded form. `expected` is what was recorded."""
    from reenact.core.codec import encode

    found = {name: divergence.where[name] for name in _WHERE if divergence.where.get(name) not in (None, "")}
    return {name: encode(value).tree for name, value in found.items()}


def _shown(value: Any) -> str:
    return inert(value) if isinstance(value, str) else brief(value, SHOWN_VALUE_CHARACTERS)
