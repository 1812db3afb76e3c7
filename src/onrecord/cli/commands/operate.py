"""Implement `onrecord cancel`, `settle` and `worker`."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from onrecord.cli.commands.completion import complete_run
from onrecord.cli.render.output import note, say, say_json, suggest
from onrecord.cli.render.text import count_text, inert
from onrecord.cli.results import command_for
from onrecord.cli.settings import Settings, shared_options
from onrecord.cli.stores import reading, writing
from onrecord.errors import InvalidInput

if TYPE_CHECKING:  # loaded when the command runs
    from onrecord.runtime.api.agent import Agent
    from onrecord.runtime.api.worker import SweptRun

SWEEP_SECONDS = 5.0


@click.command()
@shared_options
@click.argument("run", shell_complete=complete_run)
@click.option("--reason", metavar="TEXT", help="Record this reason with the end of the run.")
@click.pass_obj
def cancel(settings: Settings, run: str, reason: str | None) -> None:
    """End RUN: at once if no process executes it, else by a message to that process.

    An asynchronous agent is cancelled like any task, and may clean up. A synchronous agent is not interrupted while it
    runs.

    \b
    onrecord cancel @last --reason 'not needed any more'
    """
    from onrecord.runtime.api.settle import cancel as cancel_run

    name = _selected(settings, run)
    with writing(settings) as store:
        ended = cancel_run(store, name, settings.namespace, reason=reason)
    if settings.json:
        say_json({"run": name, "status": "cancelled" if ended else "told"})
    else:
        note(f"cancelled {inert(name)}" if ended else f"the process that executes {inert(name)} was asked to end it")
        suggest(settings, (command_for(settings, "show", name), "show what it did"))


@click.command()
@shared_options
@click.argument("run", shell_complete=complete_run)
@click.option(
    "--effect", "seq", type=click.IntRange(1), metavar="SEQ", help="Settle this effect, if several are in doubt."
)
@click.option("--done", metavar="JSON", help="It happened; this is its result.")
@click.option("--retry", is_flag=True, help="It did not happen; execute it again.")
@click.option("--fail", "message", metavar="MESSAGE", help="It failed; the agent gets this error.")
@click.option("--by", metavar="NAME", help="Record who decided.")
@click.pass_obj
def settle(
    settings: Settings, run: str, seq: int | None, done: str | None, retry: bool, message: str | None, by: str | None
) -> None:
    """Decide whether an interrupted effect of RUN happened: its process died between the request and the outcome.

    Check outside (the bank, the mailbox), then give the outcome. It is recorded, and the run continues with it.

    \b
    onrecord settle @last --done '"sent"'
    onrecord settle @last --retry --by ada
    onrecord settle @last --effect 12 --fail 'the bank refused it'
    """
    from onrecord.cli.commands.run import read_json
    from onrecord.runtime.api.settle import settle as settle_effect
    from onrecord.runtime.replay.in_doubt import DONE, FAIL, RETRY

    if (done is not None) + retry + (message is not None) != 1:
        raise InvalidInput(
            "settle needs one of --done JSON, --retry and --fail MESSAGE",
            hint="""For example: `onrecord settle @last --done '"sent"'`.""",
            code="usage",
        )
    decision = DONE if done is not None else RETRY if retry else FAIL
    value = read_json("--done", done) if done is not None else None
    name = _selected(settings, run)
    with writing(settings) as store:
        settled = settle_effect(
            store, name, seq, settings.namespace, decision=decision, value=value, message=message or "", by=by
        )
    if settings.json:
        say_json({"run": name, "effect": settled, "decision": decision})
    else:
        note(f"settled the effect at seq {settled} as {decision}")
        note(f"Go on: {command_for(settings, 'resume', name)}")


def _selected(settings: Settings, run: str) -> str:
    """Return the id of a run. The store is opened read-only, so that a wrong path creates none."""
    from onrecord.cli.selection import selected_run

    with reading(settings) as store:
        return selected_run(store, settings.namespace, run)


@click.command()
@shared_options
@click.argument("files", metavar="[FILE.PY]...", nargs=-1)
@click.option(
    "-m",
    "--module",
    "modules",
    metavar="MODULE",
    multiple=True,
    help="Load agents from an importable module; repeatable.",
)
@click.option(
    "--every",
    "seconds",
    type=click.FloatRange(0.05, 86_400),
    metavar="SECONDS",
    default=SWEEP_SECONDS,
    show_default=True,
    help="Pause this long between two sweeps.",
)
@click.option("--once", is_flag=True, help="Sweep once, then exit.")
@click.pass_obj
def worker(settings: Settings, files: tuple[str, ...], modules: tuple[str, ...], seconds: float, once: bool) -> None:
    """Resume runs whose process has died, for the agents in these files, until stopped.

    Any number of workers can share a store. A worker executes many runs at once and keeps looking for more. When it is
    stopped it suspends its runs, and another worker resumes them.

    \b
    onrecord worker agent.py
    onrecord worker -m agents.support --once
    """
    from onrecord.runtime.api.worker import OTHER_CODE, Sweeper, sweep

    agents = _load_agents(settings, files, modules)
    if not agents:
        raise InvalidInput(
            "worker needs a file or module that defines agents",
            hint="For example: `onrecord worker agent.py`.",
            code="no_agent",
        )
    if not settings.json:
        note(f"sweeping for {count_text(len(agents), 'agent')}: {inert(', '.join(one.name for one in agents))}")
    swept: list[SweptRun] = []

    def report(found: list[SweptRun]) -> None:
        swept.extend(found)
        for one in found if not settings.json else ():
            say(f"{inert(one.run)} {inert(one.outcome)}")
            if one.outcome == OTHER_CODE:
                note(f"{inert(one.run)} was recorded by {inert(str(one.result))}: give that file to a worker")

    with writing(settings) as store:
        sweeper = Sweeper(store, settings.namespace, agents)
        with _until_stopped() as stopped:
            if once:
                report(sweep(store, settings.namespace, agents=agents))
            while not once and not stopped.is_set():
                sweeper.sweep()
                stopped.wait(seconds)
                report(sweeper.take_outcomes())
        report(sweeper.take_outcomes())
    if settings.json:
        found = [(one, {"recorded_by": one.result} if one.outcome == OTHER_CODE else {}) for one in swept]
        say_json({"runs": [{"run": one.run, "outcome": one.outcome, **more} for one, more in found]})


def _load_agents(settings: Settings, files: tuple[str, ...], modules: tuple[str, ...]) -> list[Agent[..., Any]]:
    from onrecord.cli.agent_loader import Target, agents_in, load_beside, parse_target

    targets = [parse_target(f"{one}:") for one in files] + [parse_target(f"{one}:", is_module=True) for one in modules]
    loaded: dict[Target, Any] = {}
    agents = []
    for target in targets:
        for name, agent in agents_in(load_beside(target, loaded)).items():
            agent.namespace = settings.namespace
            agent.origin = target._replace(function=name).origin()
            agents.append(agent)
    return agents


@contextmanager
def _until_stopped() -> Iterator[threading.Event]:
    stopped = threading.Event()

    def stop(*_: object) -> None:
        stopped.set()
        raise KeyboardInterrupt

    in_main = threading.current_thread() is threading.main_thread()
    before: dict[int, Any] = {}
    if in_main:
        before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stopped
    except KeyboardInterrupt:
        if not stopped.is_set():
            raise
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
