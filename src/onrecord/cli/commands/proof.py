"""Implement `onrecord receipt` and `onrecord evidence`: proofs that are checked without the store."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from onrecord.cli.commands.completion import complete_run
from onrecord.cli.commands.transfer import check_output
from onrecord.cli.render.output import Column, note, say, say_json, table
from onrecord.cli.render.progress import Progress, Watched
from onrecord.cli.render.text import bytes_text, count_text, inert, local_time
from onrecord.cli.settings import Settings, shared_options
from onrecord.cli.stores import reading, writing
from onrecord.errors import InvalidInput, NotFound

if TYPE_CHECKING:  # loaded when the command runs
    from onrecord.proof.receipts import ReplayToken
    from onrecord.store.contract import Store

INTEGRITY_BROKEN = 4
COLUMNS = (
    Column("#", "bold", right=True),
    Column("time", "dim", drop=3),
    Column("effect", "cyan"),
    Column("status"),
    Column("model", drop=2),
    Column("receipt", flexible=True),
)


@click.group(invoke_without_command=True)
@shared_options
@click.pass_context
def receipt(context: click.Context) -> None:
    """Make, check and find receipts. A receipt proves one answered effect and is checked without the store.

    \b
    onrecord receipt mint @last -o receipts.jsonl
    onrecord receipt check receipts.jsonl
    onrecord receipt find --tag purpose=billing
    """
    _print_help_if_alone(context)


def _print_help_if_alone(context: click.Context) -> None:
    if context.invoked_subcommand is None:
        say(context.get_help())


@receipt.command()
@shared_options
@click.argument("run", shell_complete=complete_run)
@click.option("-o", "--output", metavar="FILE", help="Write the receipts to FILE, one JSON document per line.")
@click.option("--force", is_flag=True, help="Replace FILE if it exists.")
@click.pass_obj
def mint(settings: Settings, run: str, output: str | None, force: bool) -> None:
    """Make the receipts of RUN. Making them again gives the same receipts.

    \b
    onrecord receipt mint @last -o receipts.jsonl
    """
    from onrecord.cli.selection import selected_run
    from onrecord.journal.reader import JournalReader
    from onrecord.proof.receipts import mint as minted

    if output is not None:
        check_output(Path(output), force)
    with reading(settings) as store, Progress("making receipts") as progress:
        name = selected_run(store, settings.namespace, run)
        last = store.last_event(settings.namespace, name)
        watched = Watched(store, progress, 0 if last is None else last.seq)
        tokens = list(minted(JournalReader(cast("Store", watched), name, settings.namespace)))
    if output is not None:
        Path(output).write_bytes(b"".join(one.to_json() + b"\n" for one in tokens))
    _print_receipts(settings, tokens)
    if output is not None:
        note(f"wrote {count_text(len(tokens), 'receipt')} to {inert(output)}; `onrecord receipt check` checks them")


@receipt.command()
@shared_options
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@click.option("--last", metavar="HASH", help="Require this hash of the last receipt: detects a missing end.")
@click.pass_obj
def check(settings: Settings, file: str, last: str | None) -> int | None:
    """Check each receipt of a file, and that none of a flow is missing, moved or repeated.

    \b
    onrecord receipt check receipts.jsonl
    """
    from onrecord.proof.receipts import ReplayToken, check_chain

    lines = [line for line in Path(file).read_bytes().splitlines() if line.strip()]
    report = check_chain([ReplayToken.from_json(line) for line in lines], last=last)
    if settings.json:
        problems = [{"receipt": one.at, "code": one.code, "message": one.message} for one in report.problems]
        say_json({"whole": report.whole, "receipts": report.tokens, "last": report.last, "problems": problems})
    else:
        say(f"{inert(str(report))} - {'VALID' if report.whole else 'INVALID'}")
        for one in report.problems:
            say(f"  receipt {one.at}: {inert(one.message)} [{one.code}]")
    return None if report.whole else INTEGRITY_BROKEN


@receipt.command()
@shared_options
@click.option("--tag", "tags", multiple=True, metavar="NAME=TEXT", help="Only receipts with this tag; repeatable.")
@click.option("--since", metavar="TIME", help="Only receipts since this time (ISO 8601).")
@click.option("--until", metavar="TIME", help="Only receipts before this time (ISO 8601).")
@click.pass_obj
def find(settings: Settings, tags: tuple[str, ...], since: str | None, until: str | None) -> None:
    """Find receipts of all runs by tag and time.

    \b
    onrecord receipt find --tag purpose=billing --since 2026-01-31
    """
    from onrecord.cli.selection import parse_time
    from onrecord.proof.receipts import JournalReplayLog

    wanted = {}
    for text in tags:
        name, found, value = text.partition("=")
        if not found:
            raise InvalidInput(f"{text!r} is not NAME=TEXT", hint="For example: --tag purpose=billing", code="bad_tag")
        wanted[name] = value
    with reading(settings) as store, Progress("looking for receipts"):
        log = JournalReplayLog(store, settings.namespace)
        _print_receipts(settings, list(log.query(wanted, since=parse_time(since), until=parse_time(until))))


def _print_receipts(settings: Settings, tokens: list[ReplayToken]) -> None:
    from onrecord.reports.receipts import receipts_report

    if settings.json:
        say_json(receipts_report(tokens))
        return
    table(
        COLUMNS,
        [
            [
                str(number),
                local_time(one.time),
                inert(one.effect_name),
                one.status,
                inert(one.model_version or "-"),
                one.token_hash,
            ]
            for number, one in enumerate(tokens, start=1)
        ],
    )
    if not tokens:
        note("no receipts")


@click.group(invoke_without_command=True)
@shared_options
@click.pass_context
def evidence(context: click.Context) -> None:
    """Sign runs in one file, and check such a file without the store.

    \b
    onrecord evidence make @last -o run.evidence
    onrecord evidence key > onrecord.pub
    onrecord evidence check run.evidence --key onrecord.pub
    """
    _print_help_if_alone(context)


@evidence.command()
@shared_options
@click.argument("runs", shell_complete=complete_run, nargs=-1, required=True, metavar="RUN...")
@click.option("-o", "--output", metavar="FILE", required=True, help="Write this file.")
@click.option("--diff", "compared", is_flag=True, help="Compare the two runs, and sign the comparison with them.")
@click.option("--force", is_flag=True, help="Replace FILE if it exists.")
@click.pass_obj
def make(settings: Settings, runs: tuple[str, ...], output: str, compared: bool, force: bool) -> None:
    """Verify and sign one RUN or several. A damaged run is never signed.

    \b
    onrecord evidence make @last -o run.evidence
    onrecord evidence make @last~1 @last --diff -o runs.evidence
    """
    from onrecord.analysis.diff.runs import compare_runs
    from onrecord.cli.selection import selected_run
    from onrecord.proof.evidence import write_bundle

    check_output(Path(output), force)
    if compared and len(runs) != 2:
        raise InvalidInput("--diff needs two runs", hint="Name both runs.", code="usage")
    with writing(settings) as store:
        names = [selected_run(store, settings.namespace, run) for run in runs]
        result: Any = None
        if compared:
            space = settings.namespace
            result = compare_runs(store, names[0], store, names[1], namespace_a=space, namespace_b=space).to_data()
        with Progress("signing"):
            size = write_bundle(output, store, names, settings.namespace, result=result)
    if settings.json:
        say_json({"runs": names, "file": output, "bytes": size})
    else:
        say(f"signed {inert(', '.join(names))}: {inert(output)}, {bytes_text(size)}")
        note("run `onrecord evidence key` to print the public key that checks it")


@evidence.command("check")
@shared_options
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@click.option(
    "--key",
    "files",
    multiple=True,
    required=True,
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False),
    help="Trust this public key, printed by `onrecord evidence key`; repeatable.",
)
@click.pass_obj
def check_evidence(settings: Settings, file: str, files: tuple[str, ...]) -> int | None:
    """Check signed evidence with the public keys that you trust. No store is needed.

    \b
    onrecord evidence check run.evidence --key key.pem
    """
    from onrecord.proof.evidence import check_bundle

    with Progress("checking"):
        report = check_bundle(Path(file), [_read_public_key(Path(one)) for one in files])
    if settings.json:
        problems = [{"code": one.code, "message": one.message} for one in report.problems]
        found = {"valid": report.valid, "code": report.code, "signed_by": report.signed_by, "problems": problems}
        say_json({**found, "result": report.result if report.valid else None})
    else:
        say(inert(report.line))
    return None if report.valid else INTEGRITY_BROKEN


def _read_public_key(path: Path) -> bytes | str:
    """Return a PEM key as text, and any other file as bytes."""
    data = path.read_bytes()
    return data.decode() if data.startswith(b"-----BEGIN") and data.isascii() else data


@evidence.command()
@shared_options
@click.pass_obj
def key(settings: Settings) -> None:
    """Print the public key that signs evidence.

    \b
    onrecord evidence key > key.pem
    """
    from onrecord.proof.evidence import SigningKeys

    keys = SigningKeys().public_keys()
    if not keys:
        raise NotFound("nothing has been signed yet", hint="`onrecord evidence make` creates the key.", code="no_key")
    current = keys[-1]
    if settings.json:
        say_json({"id": current.id, "pem": current.to_pem()})
    else:
        say(current.to_pem().strip())
