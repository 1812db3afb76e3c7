"""`reenact token` and `reenact evidence`: what can be given to somebody who does not have the store."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from reenact.cli.completing import complete_run
from reenact.cli.copying import check_output
from reenact.cli.output import Column, note, say, say_json, table
from reenact.cli.progress import Progress, Watched
from reenact.cli.settings import Settings, shared_options
from reenact.cli.stores import reading, writing
from reenact.cli.text import bytes_text, count_text, inert, local_time
from reenact.errors import InvalidInput, NotFound

if TYPE_CHECKING:  # loaded when the command runs
    from reenact.store.contract import Store
    from reenact.tokens import ReplayToken

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
def token(context: click.Context) -> None:
    """Receipts of effects: one for each that was answered, which anybody can check alone.

    \b
    reenact token mint @last -o receipts.jsonl
    reenact token check receipts.jsonl
    reenact token find --tag purpose=billing
    """
    _help_if_alone(context)


def _help_if_alone(context: click.Context) -> None:
    if context.invoked_subcommand is None:
        say(context.get_help())


@token.command()
@shared_options
@click.argument("run", shell_complete=complete_run)
@click.option("-o", "--output", metavar="FILE", help="Write the receipts there, one JSON document a line.")
@click.option("--force", is_flag=True, help="Write over FILE if it exists.")
@click.pass_obj
def mint(settings: Settings, run: str, output: str | None, force: bool) -> None:
    """Make the receipts of RUN. They are the same every time.

    \b
    reenact token mint @last -o receipts.jsonl
    """
    from reenact.cli.selection import selected_run
    from reenact.journal.reader import JournalReader
    from reenact.tokens import mint as minted

    if output is not None:
        check_output(Path(output), force)
    with reading(settings) as store, Progress("making receipts") as progress:
        name = selected_run(store, settings.namespace, run)
        last = store.last_event(settings.namespace, name)
        watched = Watched(store, progress, 0 if last is None else last.seq)
        tokens = list(minted(JournalReader(cast("Store", watched), name, settings.namespace)))
    if output is not None:
        Path(output).write_bytes(b"".join(one.to_json() + b"\n" for one in tokens))
    _tell(settings, tokens)
    if output is not None:
        note(f"wrote {count_text(len(tokens), 'receipt')} to {inert(output)}; `reenact token check` checks them")


@token.command()
@shared_options
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@click.option("--last", metavar="HASH", help="The hash of the last receipt, as you know it: then none can be missing.")
@click.pass_obj
def check(settings: Settings, file: str, last: str | None) -> int | None:
    """Check a file of receipts: each by itself, and that none of a flow is missing, moved or doubled.

    \b
    reenact token check receipts.jsonl
    """
    from reenact.tokens import ReplayToken, check_chain

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


@token.command()
@shared_options
@click.option("--tag", "tags", multiple=True, metavar="NAME=TEXT", help="Tagged so; may be given more than once.")
@click.option("--since", metavar="TIME", help="Not before that time (ISO 8601).")
@click.option("--until", metavar="TIME", help="Before that time (ISO 8601).")
@click.pass_obj
def find(settings: Settings, tags: tuple[str, ...], since: str | None, until: str | None) -> None:
    """Find receipts of all runs by what they are tagged with, and when.

    \b
    reenact token find --tag purpose=billing --since 2026-01-31
    """
    from reenact.tokens import JournalReplayLog

    wanted = {}
    for text in tags:
        name, found, value = text.partition("=")
        if not found:
            raise InvalidInput(f"{text!r} is not NAME=TEXT", hint="For example: --tag purpose=billing", code="bad_tag")
        wanted[name] = value
    with reading(settings) as store, Progress("looking for receipts"):
        log = JournalReplayLog(store, settings.namespace)
        _tell(settings, list(log.query(wanted, since=_time(since), until=_time(until))))


def _time(text: str | None) -> int | None:
    from datetime import datetime

    if text is None:
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidInput(f"{text!r} is not a time", hint="For example: 2026-01-31T12:00Z", code="bad_time") from None
    return int(found.astimezone().timestamp() * 1_000_000)


def _tell(settings: Settings, tokens: list[ReplayToken]) -> None:
    from reenact.reports.receipts import receipts_report

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
    """Signed evidence: a run, or two and what was found about them, in one file that a stranger can check.

    \b
    reenact evidence make @last -o run.evidence
    reenact evidence key > reenact.pub
    reenact evidence check run.evidence --key reenact.pub
    """
    _help_if_alone(context)


@evidence.command()
@shared_options
@click.argument("runs", shell_complete=complete_run, nargs=-1, required=True, metavar="RUN...")
@click.option("-o", "--output", metavar="FILE", required=True, help="The file to write.")
@click.option("--diff", "compared", is_flag=True, help="Compare the two runs, and sign what was found with them.")
@click.option("--force", is_flag=True, help="Write over FILE if it exists.")
@click.pass_obj
def make(settings: Settings, runs: tuple[str, ...], output: str, compared: bool, force: bool) -> None:
    """Sign RUN, or several. They are verified first: a damaged run is never signed.

    \b
    reenact evidence make @last -o run.evidence
    reenact evidence make @last~1 @last --diff -o runs.evidence
    """
    from reenact.cli.selection import selected_run
    from reenact.replays.divergence.comparing_runs import compare_runs
    from reenact.replays.evidence import write_bundle

    check_output(Path(output), force)
    if compared and len(runs) != 2:
        raise InvalidInput("--diff compares two runs", hint="Name both.", code="usage")
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
        note("`reenact evidence key` shows the key that a stranger checks it with")


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
    help="A public key that you trust, as `reenact evidence key` shows it; may be given more than once.",
)
@click.pass_obj
def check_evidence(settings: Settings, file: str, files: tuple[str, ...]) -> int | None:
    """Check a bundle with the public keys that you trust. No store is needed.

    \b
    reenact evidence check run.evidence --key key.pem
    """
    from reenact.replays.evidence import check_bundle

    with Progress("checking"):
        report = check_bundle(Path(file), [_public_key(Path(one)) for one in files])
    if settings.json:
        problems = [{"code": one.code, "message": one.message} for one in report.problems]
        found = {"valid": report.valid, "code": report.code, "signed_by": report.signed_by, "problems": problems}
        say_json({**found, "result": report.result if report.valid else None})
    else:
        say(inert(report.line))
    return None if report.valid else INTEGRITY_BROKEN


def _public_key(path: Path) -> bytes | str:
    """As text where it is PEM; anything else is left to whoever reads keys."""
    data = path.read_bytes()
    return data.decode() if data.startswith(b"-----BEGIN") and data.isascii() else data


@evidence.command()
@shared_options
@click.pass_obj
def key(settings: Settings) -> None:
    """Show the public key that evidence is signed with.

    \b
    reenact evidence key > key.pem
    """
    from reenact.replays.evidence import SigningKeys

    keys = SigningKeys().public_keys()
    if not keys:
        raise NotFound("nothing has been signed yet", hint="`reenact evidence make` makes the key.", code="no_key")
    current = keys[-1]
    if settings.json:
        say_json({"id": current.id, "pem": current.to_pem()})
    else:
        say(current.to_pem().strip())
