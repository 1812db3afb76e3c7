"""Implement `onrecord attempts`: compare the attempts of an effect, or the live replays of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from onrecord.cli.commands.completion import complete_run
from onrecord.cli.live_replay import COLOURS, ToleranceOptions, format_reason, print_replay, tolerance_options
from onrecord.cli.render.output import Column, note, paint, say, say_json, suggest, table
from onrecord.cli.render.text import inert
from onrecord.cli.results import command_for
from onrecord.cli.settings import Settings, shared_options
from onrecord.cli.stores import reading
from onrecord.errors import InvalidInput

if TYPE_CHECKING:  # loaded when the command runs
    from onrecord.analysis.live import AttemptComparison
    from onrecord.analysis.live.attempts import Which
    from onrecord.store.contract import Store

ATTEMPT_COLUMNS = (Column("attempt", right=True), Column("seq", "dim", right=True), Column("outcome"))
RUN_COLUMNS = (Column("attempt", right=True), Column("run", flexible=True))


@click.command()
@shared_options
@click.argument("run", shell_complete=complete_run)
@click.argument("effect", required=False)
@click.option("--first-last", is_flag=True, help="Compare the first with the last attempt (the default).")
@click.option("--last-two", is_flag=True, help="Compare the last two attempts.")
@click.option("--pick", type=int, nargs=2, default=None, metavar="I J", help="Compare attempts I and J.")
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
    """Compare RUN with its live replays, or the attempts of one EFFECT of RUN.

    EFFECT is a replay key or the seq of a request. Attempt 1 of a run is the run itself; its live replays follow,
    oldest first.

    \b
    onrecord attempts @last                          the run and its newest live replay
    onrecord attempts @last --last-two               the two newest live replays
    onrecord attempts @last main/fetch/0 --pick 1 2  two attempts of one effect

    Exit status 1 if they differ beyond the tolerance, or if there is only one; 7 if there is no value to compare.
    """
    from onrecord.cli.selection import selected_run

    which = _choose_attempts(first_last, last_two, pick)
    with reading(settings) as store:
        name = selected_run(store, settings.namespace, run)
        if effect is None:
            return _compare_runs(settings, store, name, which, tolerance)
        return _compare_effect(settings, store, name, effect, which, tolerance)


def _choose_attempts(first_last: bool, last_two: bool, pick: tuple[int, int] | None) -> Which:
    if first_last + last_two + (pick is not None) > 1:
        raise InvalidInput("--first-last, --last-two and --pick exclude each other", code="usage")
    if pick is not None:
        return pick
    return "last_two" if last_two else "first_last"


def _compare_runs(settings: Settings, store: Store, run: str, which: Which, tolerance: ToleranceOptions) -> int:
    from onrecord.analysis.live import compare_run_attempts, replays_of

    replay = compare_run_attempts(store, run, settings.namespace, which, tolerance.tolerance())
    if not settings.json:
        names = [run, *replays_of(store, run, settings.namespace)]
        table(RUN_COLUMNS, [[str(number), inert(name)] for number, name in enumerate(names, 1)])
        say()
    print_replay(settings, replay)
    if replay.replay is None and not settings.json:
        note(f"no live replay yet: {command_for(settings, 'replay', run, '--live')}")
    if replay.replay is not None:
        suggest(settings, (command_for(settings, "diff", replay.run, replay.replay), "compare event by event"))
    return replay.exit_status


def _compare_effect(
    settings: Settings, store: Store, run: str, effect: str, which: Which, tolerance: ToleranceOptions
) -> int:
    from onrecord.analysis.live import compare_attempts
    from onrecord.journal.reader import JournalReader

    key_or_seq = int(effect) if effect.isascii() and effect.isdecimal() and len(effect) < 16 else effect
    compared = compare_attempts(JournalReader(store, run, settings.namespace), key_or_seq, which, tolerance.tolerance())
    if settings.json:
        say_json(compared.to_data())
    else:
        _print_comparison(compared)
    return compared.exit_status


def _print_comparison(compared: AttemptComparison) -> None:
    rows = [[str(one.number), str(one.seq), inert(one.status)] for one in compared.attempts]
    table(ATTEMPT_COLUMNS, rows)
    for reason in compared.reasons:
        say(inert(format_reason(reason)))
    say(paint(inert(compared.message), fg=COLOURS[compared.verdict], bold=True))
