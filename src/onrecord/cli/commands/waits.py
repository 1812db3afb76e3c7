"""`reenact resolve`, `waits` and `keys`: ending a wait from outside, seeing what waits, and the secrets behind it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from reenact.cli.completing import complete_run
from reenact.cli.output import Column, fields, note, say, say_json, suggest, table
from reenact.cli.removing import age_microseconds
from reenact.cli.results import command_for
from reenact.cli.selection import selected_run
from reenact.cli.settings import Settings, shared_options
from reenact.cli.stores import reading, store_exists, writing
from reenact.cli.text import brief, inert, iso_time, local_time
from reenact.errors import InvalidInput, InvalidValue, NotFound, Refused, UnknownOrRevoked

if TYPE_CHECKING:  # loaded when the command runs
    from reenact.core.wait_keys import Resolution, WaitKey
    from reenact.effect.keys import KeyInfo, KeyRing
    from reenact.effect.waits.desk import WaitDesk

MAX_KEY_BYTES = 16 * 1024
KEY_COLUMNS = (
    Column("id", "bold"),
    Column("for"),
    Column("state", "cyan"),
    Column("created", "dim"),
    Column("until", drop=1),
)
WAIT_COLUMNS = (
    Column("kind", drop=1),
    Column("name", "bold", flexible=True),
    Column("number", right=True),
    Column("state", "cyan"),
    Column("session", "dim", flexible=True, drop=2),
)


@click.command()
@shared_options
@click.argument("key", required=False)
@click.option("--run", metavar="RUN", shell_complete=complete_run, help="Instead of KEY: the run that waits.")
@click.option("--wait", metavar="NAME", help="With --run: which of its waits, if there are several.")
@click.option("--number", type=click.IntRange(1), metavar="N", help="With --wait: which one of that name.")
@click.option("--value", metavar="JSON", help="Resolve with this value.")
@click.option("--error", metavar="TEXT", help="Resolve as failed, saying why.")
@click.option("--cancel", is_flag=True, help="Resolve as cancelled.")
@click.pass_obj
def resolve(
    settings: Settings, /, key: str | None, run: str | None, wait: str | None, number: int | None, **said: Any
) -> None:
    """Resolve a wait: give the run that handed out KEY what it waits for.

    The first resolution stands. The same one again is fine; another one ends with 6 and shows the first.
    KEY opens the wait for whoever has it; - reads it from stdin, so that it stays out of the shell's history.
    Without it, --run names the run, on the machine that has the secret which signs its keys.

    \b
    reenact resolve KEY --value '{"approved": true}'
    reenact resolve --run @last --wait approval --value true
    reenact resolve KEY --error 'the budget is used up'
    reenact resolve - --cancel < key.txt
    """
    from reenact.core.codec import encode
    from reenact.effect.waits.desk import WaitDesk

    resolution = _resolution(**said)
    if (key is None) == (run is None) or (wait is not None and run is None) or (number is not None and wait is None):
        raise InvalidInput(
            "resolve needs a KEY, or --run and, if it has several waits, --wait, with --number if they have one name",
            hint="For example: `reenact resolve --run @last --value true`.",
            code="usage",
        )
    with reading(settings) as store:  # resolving in a store that is not there must not make one
        name = selected_run(store, settings.namespace, run) if run is not None else ""
    with writing(settings) as store:
        desk = WaitDesk(store, settings.namespace)
        opening = _key(key) if key is not None else _made_key(desk, name, wait, number)
        outcome = desk.resolve(opening, resolution)
    if outcome.status == "unknown_or_revoked":
        raise UnknownOrRevoked(
            f"this wait key is not known in namespace {settings.namespace!r} of this store, or was revoked",
            hint="Check --store, --namespace and the file of secrets (`reenact keys where`), or ask for a new key.",
        )
    if not outcome.stands(resolution) and outcome.terminal is not None:
        first = encode(outcome.terminal.value).tree
        if not settings.json:
            say(brief({"status": outcome.terminal.status, "value": first}, limit=2000))
        raise Refused(
            f"the wait was resolved before, as {outcome.terminal.status}",
            hint="The first resolution stands; nothing was written.",
            code="already_resolved",
        )
    if settings.json:
        say_json({"status": "resolved", "first": outcome.status == "accepted"})
    else:
        note("resolved" if outcome.status == "accepted" else "resolved before, in the same way")
        suggest(settings, (command_for(settings, "ls", "--status", "interrupted"), "runs that can be resumed now"))


def _resolution(value: str | None, error: str | None, cancel: bool) -> Resolution:
    from reenact.core.strict_json import read_strict
    from reenact.core.wait_keys import Resolution

    if (value is not None) + (error is not None) + cancel != 1:
        raise InvalidInput(
            "resolve needs one of --value, --error and --cancel",
            hint="For example: `reenact resolve KEY --value true`.",
            code="usage",
        )
    if error is not None:
        return Resolution.error(error)
    if value is None:
        return Resolution.cancelled()
    try:
        return Resolution.ok(read_strict(value.encode("utf-8", "surrogatepass")))
    except InvalidValue as refused:
        raise InvalidInput(
            f"--value: {refused.message}", hint="""Text needs quotes of its own: --value '"yes"'.""", code="bad_value"
        ) from None


def _made_key(desk: WaitDesk, run: str, wait: str | None, number: int | None) -> WaitKey:
    """The key of the wait that is meant, made as its agent made it: with the secret on this machine."""
    from reenact.reports.needs import open_waits, signs_here, wait_named

    waits = open_waits(desk.store, desk.namespace, run, signs_here)
    meant = []
    for one in waits:
        found = wait_named(desk.store, desk.namespace, run, one["wait"])
        if found is not None and wait in (None, one["name"], found[0].name) and number in (None, one["ordinal"]):
            meant.append((one, found))
    if not meant:
        return _key_of_ended(desk, run, wait, number, [one["name"] for one in waits])
    if len(meant) > 1:
        listed = inert(", ".join(str(one["name" if wait is None else "ordinal"]) for one, _ in meant))
        several, option = ("several", "--wait") if wait is None else ("several of that name", "--number")
        raise InvalidInput(
            f"run {run} waits for {several}: {listed}", hint=f"Name one with {option}.", code="which_wait"
        )
    told, (identity, session) = meant[0]
    if not told["answerable"]:
        raise Refused(
            "the secret that signs the key of this wait is not on this machine",
            hint="Resolve it with its key, or where its agent runs; `reenact keys` lists the secrets here.",
            code="no_key",
        )
    return desk.key(run, identity, session=session)


def _key_of_ended(desk: WaitDesk, run: str, wait: str | None, number: int | None, still_open: list[str]) -> WaitKey:
    """Of the last one of that name: the same resolution again is fine, and another one is shown the first."""
    from reenact.core.wait_keys import WaitIdentity
    from reenact.effect.waits.listing import waits_of

    named = [one for one in waits_of(desk.store, run, desk.namespace) if (one.kind, one.name) == ("named", wait)]
    meant = [one for one in named if number in (None, one.ordinal)]
    if not meant:
        names = inert(", ".join(still_open))
        hint = f"It waits for {names}." if names else "`reenact waits RUN --all` lists what it has waited for."
        raise NotFound(f"run {run} has no such wait", hint=hint, code="unknown_wait")
    return desk.key(run, WaitIdentity.named(meant[-1].name, meant[-1].ordinal), session=meant[-1].session)


def _key(text: str) -> str:
    if text != "-":
        return text
    data = b"" if sys.stdin is None else sys.stdin.buffer.read(MAX_KEY_BYTES)
    return data.decode("utf-8", "replace").strip()


@click.command()
@shared_options
@click.argument("run", shell_complete=complete_run)
@click.option("--all", "everything", is_flag=True, help="Ended waits too.")
@click.pass_obj
def waits(settings: Settings, run: str, everything: bool) -> None:
    """List what RUN waits for. Keys are not shown: whoever has one can resolve the wait.

    \b
    reenact waits @last
    reenact waits @last --all
    """
    from reenact.effect.waits.listing import waits_of

    with reading(settings) as store:
        run = selected_run(store, settings.namespace, run)
        found = [one for one in waits_of(store, run, settings.namespace) if everything or one.state == "open"]
    if settings.json:
        say_json({"run": run, "waits": [one._asdict() for one in found]})
        return
    rows = [[one.kind, inert(one.name), str(one.ordinal), one.state, inert(one.session or "")] for one in found]
    table(WAIT_COLUMNS, rows)
    if not found:
        note("nothing" if everything else "nothing is open")
    elif any(one.state == "open" for one in found):
        suggest(
            settings,
            (command_for(settings, "resolve", "--run", run, "--value", "JSON"), "here, without its key"),
            ("reenact resolve KEY --value JSON", "for whoever has the key"),
        )


@click.group(invoke_without_command=True)
@shared_options
@click.pass_context
def keys(context: click.Context) -> None:
    """The secrets that sign wait keys and evidence: where they are, and how they are replaced.

    They are made on first use, in a file of mode 0600 in the configuration folder or where REENACT_KEY_FILE says, and
    stand nowhere else. Keep a copy: without them, keys that went out open nothing. Alone: `keys list`.

    \b
    reenact keys
    reenact keys rotate --overlap 7d
    reenact keys where
    """
    if context.invoked_subcommand is None:
        context.invoke(list_keys)


@keys.command("list")
@shared_options
@click.pass_obj
def list_keys(settings: Settings) -> None:
    """List the secrets by their ids. The secrets themselves are never shown.

    \b
    reenact keys list
    """
    ring = _ring()
    entries = ring.entries() if ring.path.exists() else []  # listing makes none
    if settings.json:
        say_json({"keys": [_as_json(entry) for entry in entries]})
        return
    rows = [
        [
            inert(entry.id),
            inert(entry.purpose),
            entry.state,
            local_time(entry.created),
            "" if entry.until is None else local_time(entry.until),
        ]
        for entry in entries
    ]
    table(KEY_COLUMNS, rows)
    if not entries:
        note("no secrets yet; the first wait makes one")


@keys.command()
@shared_options
@click.option("--overlap", metavar="AGE", default="7d", show_default=True, help="How long the old one has to stay.")
@click.option("--evidence", is_flag=True, help="The key that signs evidence instead of the one that signs wait keys.")
@click.pass_obj
def rotate(settings: Settings, overlap: str, evidence: bool) -> None:
    """Make a new secret, which signs from now on. The old ones go on verifying until they are retired.

    Of a key for evidence the public half stays: what it signed can be checked for ever.

    \b
    reenact keys rotate --overlap 7d
    """
    if evidence:
        _rotate_signer(settings)
        return
    seconds = age_microseconds(overlap) / 1_000_000
    made = _changed(settings, lambda ring, **where: ring.rotate(overlap_seconds=seconds, **where))
    if settings.json:
        say_json(_as_json(made))
    else:
        say(inert(made.id))
        note(f"new wait keys are signed with {inert(made.id)}; the old secret can be retired in {overlap}")


def _rotate_signer(settings: Settings) -> None:
    from reenact.replays.evidence import SigningKeys

    made = _changed(settings, lambda _, **where: SigningKeys().rotate_signer(**where))
    if settings.json:
        say_json(_as_json(made))
    else:
        say(inert(made.id))
        note("`reenact evidence key` shows its public half")


@keys.command()
@shared_options
@click.argument("key_id", metavar="ID")
@click.option("--now", is_flag=True, help="Also before its overlap has ended.")
@click.pass_obj
def retire(settings: Settings, key_id: str, now: bool) -> None:
    """Drop a replaced secret: wait keys signed with it open nothing any more.

    \b
    reenact keys retire ID
    """
    gone = _changed(settings, lambda ring, **where: ring.retire(key_id, force=now, **where))
    if settings.json:
        say_json(_as_json(gone))
    else:
        note(f"retired {inert(gone.id)}")


@keys.command()
@shared_options
@click.pass_obj
def where(settings: Settings) -> None:
    """Say where the secrets are, or would be made.

    \b
    reenact keys where
    """
    ring = _ring()
    exists = ring.path.exists()
    if settings.json:
        say_json({"path": str(ring.path), "exists": exists})
        return
    fields([("secrets", inert(str(ring.path))), ("state", "there" if exists else "made on first use")])


def _ring() -> KeyRing:
    from reenact.effect.keys import KeyRing

    return KeyRing()


def _changed(settings: Settings, change: Any) -> KeyInfo:
    """Notes the change in the operations journal of the store, where there is one."""
    if not store_exists(settings):
        made: KeyInfo = change(_ring())
        return made
    with writing(settings) as store:
        noted: KeyInfo = change(_ring(), store=store, namespace=settings.namespace)
        return noted


def _as_json(entry: KeyInfo) -> dict[str, Any]:
    return {
        **entry._asdict(),
        "created": iso_time(entry.created),
        "until": None if entry.until is None else iso_time(entry.until),
    }
