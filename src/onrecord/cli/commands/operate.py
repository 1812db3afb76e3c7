"""`reenact cancel`, `settle` and `worker`: an operator's hand on runs."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from reenact.cli.completing import complete_run
from reenact.cli.output import note, say, say_json, suggest
from reenact.cli.results import command_for
from reenact.cli.settings import Settings, shared_options
from reenact.cli.stores import reading, writing
from reenact.cli.text import count_text, inert
from reenact.errors import InvalidInput

if TYPE_CHECKING:  # loaded when the command runs
    from reenact.effect.workers import Swept

SWEEP_SECONDS = 5.0


@click.command()
@shared_options
@click.argument("run", shell_complete=complete_run)
@click.option("--reason", metavar="TEXT", help="Recorded with the end of the run.")
@click.pass_obj
def cancel(settings: Settings, run: str, reason: str | None) -> None:
    """End RUN. When nobody holds it, it is over at once; otherwise its holder is told.

    An asynchronous agent is cancelled like any task, and may clean up. A synchronous one does not hear it while it
    runs.

    \b
    reenact cancel @last --reason 'not needed any more'
    """
    from reenact.effect.settling import cancel as cancel_run

    name = _selected(settings, run)
    with writing(settings) as store:
        over = cancel_run(store, name, settings.namespace, reason=reason)
    if settings.json:
        say_json({"run": name, "status": "cancelled" if over else "told"})
    else:
        note(f"cancelled {inert(name)}" if over else f"the process that holds {inert(name)} has been told to end it")
        suggest(settings, (command_for(settings, "show", name), "what it did until then"))


@click.command()
@shared_options
@click.argument("run", shell_complete=complete_run)
@click.option("--effect", "seq", type=click.IntRange(1), metavar="SEQ", help="Which effect, when several are in doubt.")
@click.option("--done", metavar="JSON", help="It happened, and this came of it.")
@click.option("--retry", is_flag=True, help="It did not happen; do it again.")
@click.option("--fail", "message", metavar="MESSAGE", help="It is to count as failed.")
@click.option("--by", metavar="NAME", help="Who says so; recorded.")
@click.pass_obj
def settle(
    settings: Settings, run: str, seq: int | None, done: str | None, retry: bool, message: str | None, by: str | None
) -> None:
    """Settle an effect in doubt: RUN asked for it, the process died, and nobody knows whether it happened.

    Look in the world outside, then say what came of it. Your word is recorded, and the run goes on with it.

    \b
    reenact settle @last --done '"sent"'
    reenact settle @last --retry --by ada
    reenact settle @last --effect 12 --fail 'the bank refused it'
    """
    from reenact.cli.running import read_json
    from reenact.effect.doubts import DONE, FAIL, RETRY
    from reenact.effect.settling import settle as settle_effect

    if (done is not None) + retry + (message is not None) != 1:
        raise InvalidInput(
            "settle needs one of --done JSON, --retry and --fail MESSAGE",
            hint="""For example: `reenact settle @last --done '"sent"'`.""",
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
    """Looked for in a store that is only read: naming a run must not make a store."""
    from reenact.cli.selection import selected_run

    with reading(settings) as store:
        return selected_run(store, settings.namespace, run)


@click.command()
@shared_options
@click.argument("files", metavar="[FILE.PY]...", nargs=-1)
@click.option("-m", "--module", "modules", metavar="MODULE", multiple=True, help="An importable module; repeatable.")
@click.option(
    "--every",
    "seconds",
    type=click.FloatRange(0.05, 86_400),
    metavar="SECONDS",
    default=SWEEP_SECONDS,
    show_default=True,
    help="How long to rest between two sweeps.",
)
@click.option("--once", is_flag=True, help="One sweep, then end.")
@click.pass_obj
def worker(settings: Settings, files: tuple[str, ...], modules: tuple[str, ...], seconds: float, once: bool) -> None:
    """Carry on the runs that nobody holds any more: of the agents in these files, again and again until stopped.

    Any number of workers may sweep one store. A worker carries many runs side by side, and looks for more meanwhile.
    What is under way when it is stopped is suspended, and goes on with the next.

    \b
    reenact worker agent.py
    reenact worker -m agents.support --once
    """
    from reenact.effect.workers import Sweeper, sweep

    names = _load(settings, files, modules)
    if not names:
        raise InvalidInput(
            "worker needs files with agents in them", hint="For example: `reenact worker agent.py`.", code="no_agent"
        )
    if not settings.json:
        note(f"sweeping for {count_text(len(names), 'agent')}: {inert(', '.join(names))}")
    swept: list[Swept] = []

    def tell(found: list[Swept]) -> None:
        swept.extend(found)
        for one in found if not settings.json else ():
            say(f"{inert(one.run)} {inert(one.outcome)}")

    with writing(settings) as store:
        sweeper = Sweeper(store, settings.namespace)
        with _until_stopped() as stopped:
            if once:
                tell(sweep(store, settings.namespace))
            while not once and not stopped.is_set():
                sweeper.sweep()
                stopped.wait(seconds)
                tell(sweeper.news())
        tell(sweeper.news())
    if settings.json:
        say_json({"runs": [{"run": one.run, "outcome": one.outcome} for one in swept]})


def _load(settings: Settings, files: tuple[str, ...], modules: tuple[str, ...]) -> list[str]:
    from reenact.cli.loading import agents_in, load_module, parse_target

    targets = [parse_target(f"{one}:") for one in files] + [parse_target(f"{one}:", is_module=True) for one in modules]
    names = []
    for target in targets:
        for name, agent in agents_in(load_module(target)).items():
            agent.namespace = settings.namespace
            agent.origin = target._replace(function=name).origin()
            names.append(agent.name)
    return names


@contextmanager
def _until_stopped() -> Iterator[threading.Event]:
    stopped = threading.Event()

    def heard(*_: object) -> None:
        stopped.set()
        raise KeyboardInterrupt

    in_main = threading.current_thread() is threading.main_thread()
    before: dict[int, Any] = {}
    if in_main:
        before = {number: signal.signal(number, heard) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stopped
    except KeyboardInterrupt:
        if not stopped.is_set():
            raise
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
