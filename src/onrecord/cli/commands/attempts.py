"""`reenact attempts`: the attempts at an effect, or the live replays of a run, against each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from reenact.cli.completing import complete_run
from reenact.cli.live_replaying import COLOURS, ToleranceOptions, reason_text, tell_replay, tolerance_options
from reenact.cli.output import Column, paint, say, say_json, suggest, table
from reenact.cli.results import command_for
from reenact.cli.settings import Settings, shared_options
from reenact.cli.stores import reading
from reenact.cli.text import inert
from reenact.errors import InvalidInput

if TYPE_CHECKING:  # loaded when the command runs
    from reenact.replays.live import AttemptComparison
    from reenact.replays.live.attempts import Which
    from reenact.store.contract import Store

ATTEMPT_COLUMNS = (Column("attempt", right=True), Column("seq", "dim", right=True), Column("what came of it"))
RUN_COLUMNS = (Column("attempt", right=True), Column("run", flexible=True))


@click.command()
@shared_options
@click.argument("run", shell_complete=complete_run)
@click.argument("effect", required=False)
@click.option("--first-last", is_flag=True, help="The first against the last one; so it is unless you say otherwise.")
@click.option("--last-two", is_flag=True, help="The last two.")
@click.option("--pick", type=int, nargs=2, default=None, metavar="I J", help="These two, by their numbers.")
@tolerance_options
@click.pass_obj
def attempts(
    settings: Settings,
    run: str,
    effect: str | None,
    first_last: bool,
    last_two: bool,
    pick: tuple[int, int] | None,
    tolerance: ToleranceOptions,
) -> int:
    """Compare attempts: the live replays of RUN with it, or the attempts at one EFFECT of it.

    An effect is named by its replay key or by the number of its request. Attempt 1 of a run is the run itself, the live
    replays of it follow by age.

    \b
    reenact attempts @last                       the recorded run and its newest replay
    reenact attempts @last --last-two            the two newest
    reenact attempts @last 0/fetch/0 --pick 1 2  two attempts at one effect

    Exit status 1 if they differ by more than allowed, or if there is only one; 7 if there is no value to compare.
    """
    from reenact.cli.selection import selected_run

    which = _which(first_last, last_two, pick)
    with reading(settings) as store:
        name = selected_run(store, settings.namespace, run)
        if effect is None:
            return _of_run(settings, store, name, which, tolerance)
        return _of_effect(settings, store, name, effect, which, tolerance)


def _which(first_last: bool, last_two: bool, pick: tuple[int, int] | None) -> Which:
    if first_last + last_two + (pick is not None) > 1:
        raise InvalidInput("--first-last, --last-two and --pick exclude each other", code="usage")
    if pick is not None:
        return pick
    return "last_two" if last_two else "first_last"


def _of_run(settings: Settings, store: Store, run: str, which: Which, tolerance: ToleranceOptions) -> int:
    from reenact.replays.live import compare_run_attempts, replays_of

    replay = compare_run_attempts(store, run, settings.namespace, which, tolerance.tolerance())
    if not settings.json:
        names = [run, *replays_of(store, run, settings.namespace)]
        table(RUN_COLUMNS, [[str(number), inert(name)] for number, name in enumerate(names, 1)])
        say()
    tell_replay(settings, replay)
    if replay.replay is not None:
        suggest(settings, (command_for(settings, "diff", replay.run, replay.replay), "event by event"))
    return replay.exit_status


def _of_effect(
    settings: Settings, store: Store, run: str, effect: str, which: Which, tolerance: ToleranceOptions
) -> int:
    from reenact.journal.reader import JournalReader
    from reenact.replays.live import compare_attempts

    named = int(effect) if effect.isascii() and effect.isdecimal() and len(effect) < 16 else effect
    compared = compare_attempts(JournalReader(store, run, settings.namespace), named, which, tolerance.tolerance())
    if settings.json:
        say_json(compared.to_data())
    else:
        _show(compared)
    return compared.exit_status


def _show(compared: AttemptComparison) -> None:
    rows = [[str(one.number), str(one.seq), inert(one.status)] for one in compared.attempts]
    table(ATTEMPT_COLUMNS, rows)
    for reason in compared.reasons:
        say(inert(reason_text(reason)))
    say(paint(inert(compared.message), fg=COLOURS[compared.verdict], bold=True))
