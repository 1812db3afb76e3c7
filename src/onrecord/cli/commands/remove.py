"""Implement `onrecord gc` and `erase`. Without --yes both only list what they would remove."""

from __future__ import annotations

import re
import sys
from contextlib import nullcontext
from typing import TYPE_CHECKING

import click

from onrecord.cli.render.output import Column, note, say, say_json, table
from onrecord.cli.render.progress import Progress
from onrecord.cli.render.text import count_text, inert, iso_time, local_time
from onrecord.cli.settings import Settings, shared_options
from onrecord.cli.stores import reading, writing
from onrecord.errors import InvalidInput, NotFound, Refused

if TYPE_CHECKING:  # loaded when the command runs
    from onrecord.journal.erasure import ErasurePlan
    from onrecord.journal.retention import Retirable
    from onrecord.store.contract import Store

_AGE = re.compile(r"([0-9]{1,6})([smhdw])\Z")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
MAX_VALUE_BYTES = 1024 * 1024
RUNS_SHOWN = 50
GC_COLUMNS = (
    Column("run", "bold", flexible=True),
    Column("ended", "cyan"),
    Column("events", right=True, drop=1),
    Column("created", "dim", drop=2),
)


def age_microseconds(text: str) -> int:
    match = _AGE.match(text)
    if match is None:
        raise InvalidInput(f"not an age: {inert(text)[:40]}", hint="Write 90s, 15m, 12h, 30d or 8w.", code="bad_age")
    return int(match[1]) * _SECONDS[match[2]] * 1_000_000


@click.command()
@shared_options
@click.option("--older-than", metavar="AGE", help="Only runs created longer ago than this: 12h, 30d, 8w.")
@click.option("--keep", type=click.IntRange(0), metavar="N", help="Keep the N newest ended runs.")
@click.option("--yes", is_flag=True, help="Remove them; without it they are only listed.")
@click.pass_obj
def gc(settings: Settings, older_than: str | None, keep: int | None, yes: bool) -> None:
    """Remove ended runs by age or number. With both options, a run must match both.

    A run that has not ended is never removed. Each removal is recorded in the operations journal, with the run's head.

    \b
    onrecord gc --older-than 30d          list what would be removed
    onrecord gc --older-than 30d --keep 100 --yes
    """
    from onrecord.journal.retention import retirable_runs

    if older_than is None and keep is None:
        raise InvalidInput(
            "gc needs --older-than AGE or --keep N",
            hint="For example `onrecord gc --older-than 30d` or `onrecord gc --keep 100`; only --yes removes anything.",
            code="usage",
        )
    age = None if older_than is None else age_microseconds(older_than)
    rule = " ".join([f"--older-than {older_than}"] * (older_than is not None) + [f"--keep {keep}"] * (keep is not None))
    with reading(settings) as store:
        chosen = retirable_runs(store, settings.namespace, older_than_us=age, keep_newest=keep)
    if yes and chosen:
        chosen = _remove_runs(settings, chosen, f"gc {rule}")
    if settings.json:
        runs = [{**one._asdict(), "created": iso_time(one.created)} for one in chosen]
        say_json({"dry_run": not yes, "rule": rule, "runs": runs})
        return
    table(GC_COLUMNS, [[inert(one.run), one.ended, str(one.events), local_time(one.created)] for one in chosen])
    if yes:
        note(f"removed {count_text(len(chosen), 'run')}")
    elif chosen:
        note(f"{count_text(len(chosen), 'run')} would be removed; nothing was. Give --yes to remove.")
    else:
        note("no run would be removed")


def _remove_runs(settings: Settings, chosen: list[Retirable], reason: str) -> list[Retirable]:
    from onrecord.journal.retention import retire_run

    removed = []
    with writing(settings) as store, Progress("removing") as progress:
        # A store in a file is rewritten to erase removed bytes: once for all runs.
        with getattr(store, "scrubbing_once", nullcontext)():
            for number, one in enumerate(chosen):
                progress.step(number, len(chosen))
                try:
                    retire_run(store, one.run, settings.namespace, reason=reason)
                except NotFound:
                    continue  # another process removed it
                removed.append(one)
        _clear_indexes(store, settings.namespace)
    return removed


def _clear_indexes(store: Store, namespace: str) -> None:
    """Empty the search indexes on this machine: they hold words of removed contents."""
    from onrecord.index.files import empty_indexes

    empty_indexes(store, namespace)


@click.command()
@shared_options
@click.option("--value", metavar="TEXT", help="Erase this value. It stays in the shell's history: prefer --value-file.")
@click.option("--value-file", metavar="FILE", help="Read the value from a file; - is stdin.")
@click.option(
    "--reason",
    metavar="TEXT",
    default="requested",
    show_default=True,
    help="Record this reason; must not contain the value.",
)
@click.option("--yes", is_flag=True, help="Erase it; without it the contents are only listed.")
@click.pass_obj
def erase(settings: Settings, value: str | None, value_file: str | None, reason: str, yes: bool) -> None:
    """Erase every content of the namespace that holds a value.

    A content is erased as a whole; the chain stays and still verifies. Without --value or --value-file the command
    prompts for the value, or reads it from stdin when that is not a terminal. Exported copies are not changed.

    \b
    onrecord erase --value-file name.txt
    onrecord erase --yes < name.txt
    """
    from onrecord.journal.erasure import erase_value, plan_erasure

    wanted = _read_value(value, value_file)
    if not wanted:
        raise InvalidInput("no value to erase was given", hint="Pipe it in, or give --value-file.", code="no_value")
    if wanted in reason:
        raise InvalidInput("the reason contains the value to erase", code="bad_reason")
    if yes:
        with reading(settings):
            pass  # raise if there is no store, instead of creating one
        with writing(settings) as store, Progress("erasing"):
            try:
                plan = erase_value(store, wanted, settings.namespace, reason=reason)
            except NotFound as missing:
                raise (_value_not_found() if missing.code == "value_not_found" else missing) from None
            _clear_indexes(store, settings.namespace)
    else:
        with reading(settings) as store, Progress("looking for the value"):
            plan = plan_erasure(store, wanted, settings.namespace)
        _check_plan(plan)
    if settings.json:
        say_json({"dry_run": not yes, "contents": [{"run": run, "seq": seq} for run, seq in plan.contents]})
        return
    _print_contents(plan)
    runs = len({run for run, _ in plan.contents})
    what = f"{count_text(len(plan.contents), 'content')} in {count_text(runs, 'run')}"
    note(f"erased {what}" if yes else f"{what} would be erased; nothing was. Give --yes to erase.")


def _check_plan(plan: ErasurePlan) -> None:
    """Raise the error that erasing would raise, so that a dry run ends like the real one."""
    if plan.blocked:
        raise Refused(f"the value cannot be erased: {plan.blocked[0]}", code="erasure_refused")
    if not plan.contents:
        raise _value_not_found()


def _value_not_found() -> NotFound:
    return NotFound(
        "no content of the namespace holds the value",
        hint="Check its spelling: capitals and spaces count.",
        code="value_not_found",
    )


def _print_contents(plan: ErasurePlan) -> None:
    by_run: dict[str, list[int]] = {}
    for run, seq in plan.contents:
        by_run.setdefault(run, []).append(seq)
    for run, seqs in list(by_run.items())[:RUNS_SHOWN]:
        places = ", ".join("facts" if seq == 0 else str(seq) for seq in seqs[:20])
        say(f"{inert(run)}  {places}{f' and {len(seqs) - 20} more' if len(seqs) > 20 else ''}")
    if len(by_run) > RUNS_SHOWN:
        say(f"… and {count_text(len(by_run) - RUNS_SHOWN, 'more run')}")


def _read_value(value: str | None, value_file: str | None) -> str:
    if value is not None and value_file is not None:
        raise InvalidInput("--value and --value-file exclude each other", code="usage")
    if value is not None:
        return value
    if value_file is None and sys.stdin is not None and sys.stdin.isatty():
        typed: str = click.prompt("Value to erase", hide_input=True, err=True)
        return typed
    data = _read_bytes(value_file or "-")
    if len(data) > MAX_VALUE_BYTES:
        raise InvalidInput(f"a value to erase has at most {MAX_VALUE_BYTES:,} bytes", code="bad_value")
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise InvalidInput("the value to erase is not UTF-8 text", code="bad_value") from None
    return text.removesuffix("\n").removesuffix("\r")  # the end of the line is not part of the value


def _read_bytes(name: str) -> bytes:
    if name == "-":
        return b"" if sys.stdin is None else sys.stdin.buffer.read(MAX_VALUE_BYTES + 1)
    try:
        with open(name, "rb") as file:
            return file.read(MAX_VALUE_BYTES + 1)
    except OSError as error:
        raise NotFound(
            f"cannot read {name}: {error.strerror}", hint="Give the file that holds the value.", code="no_file"
        ) from None
