"""Implement `onrecord resolve`, `waits` and `keys`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from onrecord.cli.commands.completion import complete_run
from onrecord.cli.commands.remove import age_microseconds
from onrecord.cli.render.output import Column, fields, note, say, say_json, suggest, table
from onrecord.cli.render.text import brief, inert, iso_time, local_time
from onrecord.cli.results import command_for
from onrecord.cli.selection import selected_run
from onrecord.cli.settings import Settings, shared_options
from onrecord.cli.stores import reading, store_exists, writing
from onrecord.errors import InvalidInput, InvalidValue, NotFound, Refused, UnknownOrRevoked

if TYPE_CHECKING:  # loaded when the command runs
    from onrecord.core.wait_keys import Resolution, WaitKey
    from onrecord.runtime.secrets.keys import KeyInfo, KeyRing
    from onrecord.runtime.waits.registry import WaitRegistry

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
@click.option("--run", metavar="RUN", shell_complete=complete_run, help="Resolve a wait of this run, without its key.")
@click.option("--wait", metavar="NAME", help="With --run: select the wait by name, if there are several.")
@click.option("--number", type=click.IntRange(1), metavar="N", help="With --wait: select one of several of that name.")
@click.option("--value", metavar="JSON", help="Resolve with this value.")
@click.option("--error", metavar="TEXT", help="Resolve as failed, with this message.")
@click.option("--cancel", is_flag=True, help="Resolve as cancelled.")
@click.pass_obj
def resolve(
    settings: Settings, /, key: str | None, run: str | None, wait: str | None, number: int | None, **given: Any
) -> None:
    """Resolve a wait by its KEY, or with --run on the machine that has the secret of the keys.

    The first resolution wins. The same one again succeeds; another one exits with 6 and shows the first. A wait key
    permits anyone who has it to resolve the wait: use - to read it from stdin and keep it out of the shell's history.

    \b
    onrecord resolve KEY --value '{"approved": true}'
    onrecord resolve --run @last --wait approval --value true
    onrecord resolve KEY --error 'the budget is used up'
    onrecord resolve - --cancel < key.txt
    """
    from onrecord.core.codec import encode
    from onrecord.runtime.waits.registry import WaitRegistry

    resolution = _parse_resolution(**given)
    if (key is None) == (run is None) or (wait is not None and run is None) or (number is not None and wait is None):
        raise InvalidInput(
            "resolve needs a KEY or --run; --wait goes with --run, and --number with --wait",
            hint="For example: `onrecord resolve --run @last --value true`.",
            code="usage",
        )
    with reading(settings) as store:  # raise if there is no store, instead of creating one
        name = selected_run(store, settings.namespace, run) if run is not None else ""
    with writing(settings) as store:
        registry = WaitRegistry(store, settings.namespace)
        wait_key = _read_key(key) if key is not None else _make_key(registry, name, wait, number)
        outcome = registry.resolve(wait_key, resolution)
    if outcome.status == "unknown_or_revoked":
        raise UnknownOrRevoked(
            f"this wait key is not known in namespace {settings.namespace!r} of this store, or was revoked",
            hint="Check --store, --namespace and the file of secrets (`onrecord keys where`), or get a new key.",
        )
    if not outcome.confirms(resolution) and outcome.terminal is not None:
        first = encode(outcome.terminal.value).tree
        if not settings.json:
            say(brief({"status": outcome.terminal.status, "value": first}, limit=2000))
        raise Refused(
            f"the wait was resolved before, as {outcome.terminal.status}",
            hint="The first resolution wins; nothing was written.",
            code="already_resolved",
        )
    if settings.json:
        say_json({"status": "resolved", "first": outcome.status == "accepted"})
    else:
        note("resolved" if outcome.status == "accepted" else "already resolved, with the same resolution")
        suggest(settings, (command_for(settings, "ls", "--status", "interrupted"), "list the runs to resume"))


def _parse_resolution(value: str | None, error: str | None, cancel: bool) -> Resolution:
    from onrecord.core.strict_json import read_strict
    from onrecord.core.wait_keys import Resolution

    if (value is not None) + (error is not None) + cancel != 1:
        raise InvalidInput(
            "resolve needs one of --value, --error and --cancel",
            hint="For example: `onrecord resolve KEY --value true`.",
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


def _make_key(registry: WaitRegistry, run: str, wait: str | None, number: int | None) -> WaitKey:
    """Make the key of a wait as its agent did, with the secret on this machine."""
    from onrecord.reports.open_questions import open_waits, signs_here, wait_named

    waits = open_waits(registry.store, registry.namespace, run, signs_here)
    matching = []
    for one in waits:
        found = wait_named(registry.store, registry.namespace, run, one["wait"])
        if found is not None and wait in (None, one["name"], found[0].name) and number in (None, one["ordinal"]):
            matching.append((one, found))
    if not matching:
        return _make_ended_key(registry, run, wait, number, [one["name"] for one in waits])
    if len(matching) > 1:
        listed = inert(", ".join(str(one["name" if wait is None else "ordinal"]) for one, _ in matching))
        which, option = ("waits", "--wait") if wait is None else (f"waits named {inert(wait)}", "--number")
        raise InvalidInput(
            f"run {run} has several open {which}: {listed}", hint=f"Name one with {option}.", code="which_wait"
        )
    row, (identity, session) = matching[0]
    if not row["answerable"]:
        raise Refused(
            "the secret that signs the key of this wait is not on this machine",
            hint="Resolve it with its key, or where its agent runs; `onrecord keys` lists the secrets here.",
            code="no_key",
        )
    return registry.key(run, identity, session=session)


def _make_ended_key(
    registry: WaitRegistry, run: str, wait: str | None, number: int | None, still_open: list[str]
) -> WaitKey:
    """Make the key of the last ended wait of that name: resolving it again reports the first resolution."""
    from onrecord.core.wait_keys import WaitIdentity
    from onrecord.runtime.waits.listed_waits import load_waits

    named = [
        one for one in load_waits(registry.store, run, registry.namespace) if (one.kind, one.name) == ("named", wait)
    ]
    matching = [one for one in named if number in (None, one.ordinal)]
    if not matching:
        names = inert(", ".join(still_open))
        hint = f"It waits for {names}." if names else "`onrecord waits RUN --all` lists its waits."
        raise NotFound(f"run {run} has no such wait", hint=hint, code="unknown_wait")
    return registry.key(run, WaitIdentity.named(matching[-1].name, matching[-1].ordinal), session=matching[-1].session)


def _read_key(text: str) -> str:
    if text != "-":
        return text
    data = b"" if sys.stdin is None else sys.stdin.buffer.read(MAX_KEY_BYTES)
    return data.decode("utf-8", "replace").strip()


@click.command()
@shared_options
@click.argument("run", shell_complete=complete_run)
@click.option("--all", "everything", is_flag=True, help="Include ended waits.")
@click.pass_obj
def waits(settings: Settings, run: str, everything: bool) -> None:
    """List what RUN waits for. Wait keys are not shown: anyone who has one can resolve its wait.

    \b
    onrecord waits @last
    onrecord waits @last --all
    """
    from onrecord.runtime.waits.listed_waits import load_waits

    with reading(settings) as store:
        run = selected_run(store, settings.namespace, run)
        found = [one for one in load_waits(store, run, settings.namespace) if everything or one.state == "open"]
    if settings.json:
        say_json({"run": run, "waits": [one._asdict() for one in found]})
        return
    rows = [[one.kind, inert(one.name), str(one.ordinal), one.state, inert(one.session or "")] for one in found]
    table(WAIT_COLUMNS, rows)
    if not found:
        note("no waits" if everything else "no open waits")
    elif any(one.state == "open" for one in found):
        suggest(
            settings,
            (command_for(settings, "resolve", "--run", run, "--value", "JSON"), "resolve it here, without its key"),
            ("onrecord resolve KEY --value JSON", "resolve it by its key"),
        )


@click.group(invoke_without_command=True)
@shared_options
@click.pass_context
def keys(context: click.Context) -> None:
    """List, rotate and retire the secrets that sign wait keys and evidence.

    They are created on first use, in one file of mode 0600: ONRECORD_KEY_FILE, or a file in the configuration folder.
    Keep a copy of it: without it, wait keys that were sent stop working. Without a command, `keys` lists the secrets.

    \b
    onrecord keys
    onrecord keys rotate --overlap 7d
    onrecord keys where
    """
    if context.invoked_subcommand is None:
        context.invoke(list_keys)


@keys.command("list")
@shared_options
@click.pass_obj
def list_keys(settings: Settings) -> None:
    """List the secrets by their ids. The secret values are never shown.

    \b
    onrecord keys list
    """
    ring = _ring()
    entries = ring.entries() if ring.path.exists() else []  # listing creates no file
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
        note("no secrets yet; the first wait creates one")


@keys.command()
@shared_options
@click.option("--overlap", metavar="AGE", default="7d", show_default=True, help="Keep the old secret this long.")
@click.option("--evidence", is_flag=True, help="Rotate the key that signs evidence instead.")
@click.pass_obj
def rotate(settings: Settings, overlap: str, evidence: bool) -> None:
    """Create a new secret that signs from now on. Old secrets still verify until they are retired.

    The public half of an evidence key is kept, so old signatures can always be checked.

    \b
    onrecord keys rotate --overlap 7d
    """
    if evidence:
        _rotate_signer(settings)
        return
    seconds = age_microseconds(overlap) / 1_000_000
    made = _change_keys(settings, lambda ring, **where: ring.rotate(overlap_seconds=seconds, **where))
    if settings.json:
        say_json(_as_json(made))
    else:
        say(inert(made.id))
        note(f"new wait keys are signed with {inert(made.id)}; the old secret can be retired in {overlap}")


def _rotate_signer(settings: Settings) -> None:
    from onrecord.proof.evidence import SigningKeys

    made = _change_keys(settings, lambda _, **where: SigningKeys().rotate_signer(**where))
    if settings.json:
        say_json(_as_json(made))
    else:
        say(inert(made.id))
        note("run `onrecord evidence key` to print its public half")


@keys.command()
@shared_options
@click.argument("key_id", metavar="ID")
@click.option("--now", is_flag=True, help="Retire it before its overlap has ended.")
@click.pass_obj
def retire(settings: Settings, key_id: str, now: bool) -> None:
    """Delete a replaced secret: wait keys that it signed stop working.

    \b
    onrecord keys retire ID
    """
    gone = _change_keys(settings, lambda ring, **where: ring.retire(key_id, force=now, **where))
    if settings.json:
        say_json(_as_json(gone))
    else:
        note(f"retired {inert(gone.id)}")


@keys.command()
@shared_options
@click.pass_obj
def where(settings: Settings) -> None:
    """Print the path of the secrets file.

    \b
    onrecord keys where
    """
    ring = _ring()
    exists = ring.path.exists()
    if settings.json:
        say_json({"path": str(ring.path), "exists": exists})
        return
    fields([("secrets", inert(str(ring.path))), ("state", "exists" if exists else "created on first use")])


def _ring() -> KeyRing:
    from onrecord.runtime.secrets.keys import KeyRing

    return KeyRing()


def _change_keys(settings: Settings, change: Any) -> KeyInfo:
    """Change the secrets, and record the change in the operations journal if there is a store."""
    if not store_exists(settings):
        unrecorded: KeyInfo = change(_ring())
        return unrecorded
    with writing(settings) as store:
        recorded: KeyInfo = change(_ring(), store=store, namespace=settings.namespace)
        return recorded


def _as_json(entry: KeyInfo) -> dict[str, Any]:
    return {
        **entry._asdict(),
        "created": iso_time(entry.created),
        "until": None if entry.until is None else iso_time(entry.until),
    }
