"""`reenact demo`: an agent pays and mails, is killed in the middle, and goes on; its record is verified, and altered.

Everything here goes through the same doors as any other run: real processes, a real SIGKILL, the commands that users
type. The world is a folder that is gone afterwards, and so are the secrets that sign the demo's one wait key. Nothing
is left behind but the store.
"""

from __future__ import annotations

import os
import re
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from reenact.cli.output import paint, say, say_json
from reenact.cli.settings import Settings, shared_options
from reenact.cli.showing import print_timeline
from reenact.cli.stores import store_url, writing
from reenact.cli.text import count_text, inert, url_text
from reenact.errors import InvalidInput, ReenactError

if TYPE_CHECKING:  # loaded when the command runs
    from reenact.cli.demo_agent import World
    from reenact.journal.verify import VerificationReport
    from reenact.store.contract import Store

AGENT = "reenact.cli.demo_agent"
QUESTION = "Where is my order A-17? I have been waiting for three weeks."
PRICE, ALTERED_PRICE = "costs us 42.00 EUR", "costs us 92.00 EUR"
PATIENCE_SECONDS = 60.0
LOOK_SECONDS = 0.02


class Lives(NamedTuple):
    """What came of the agent's two lives, and of those of the plain script."""

    run: str
    mails: int
    payments: int
    mails_without: int
    payments_without: int
    answer: str


@click.command()
@shared_options
@click.pass_obj
def demo(settings: Settings) -> None:
    """Kill an agent and let it go on; verify its record, alter a copy and see it found. Leaves only the store.

    \b
    reenact demo
    reenact demo --store demo.db
    """
    from reenact.journal.verify import verify_run

    if store_url(settings).startswith("memory:"):
        raise InvalidInput(
            "the demo needs a store that outlives a process", hint="Leave --store out, or name a file.", code="usage"
        )
    with writing(settings) as store, tempfile.TemporaryDirectory(prefix="reenact-demo-") as folder:
        lives = live(settings, store, Path(folder))
        report = verify_run(store, lives.run, settings.namespace, deep=True)
        report.raise_if_invalid()
        altered = alter_and_verify(store, lives.run, settings.namespace, Path(folder))
        if settings.json:
            say_json(_as_json(lives, report, altered))
        else:
            _tell(store, settings, lives, report, altered)


# The lives


def live(settings: Settings, store: Store, folder: Path) -> Lives:
    from reenact.cli.demo_agent import World

    plain, recorded = folder / "without", folder / "with"
    for place in (plain, recorded):
        place.mkdir()
    _live_without(plain)
    run, answer = _live_with(settings, store, recorded)
    without, world = World(str(plain)), World(str(recorded))
    lives = Lives(
        run, world.count("mail"), world.count("payment"), without.count("mail"), without.count("payment"), answer
    )
    if (lives.mails, lives.mails_without) != (1, 2):
        raise _failed(f"{lives.mails_without} mails without Reenact, {lives.mails} with")
    return lives


def _live_without(folder: Path) -> None:
    """A plain script is killed in the middle and started again, from the start."""
    from reenact.cli.demo_agent import World

    command = [sys.executable, "-m", AGENT]
    with _process(command, folder) as script:
        _until(lambda: World(str(folder)).find("middle") is not None, script)
        os.kill(script.pid, signal.SIGKILL)
    with _process(command, folder) as script:
        _ended_well(script)


def _live_with(settings: Settings, store: Store, folder: Path) -> tuple[str, str]:
    """`reenact run`, killed in the middle; `reenact resume`; an approval that arrives by key."""
    from reenact.cli.demo_agent import World

    run, world = f"demo-{secrets.token_hex(5)}", World(str(folder))
    reenact = [sys.executable, "-m", "reenact.cli.main", "--namespace", settings.namespace]
    begin = [*reenact, "run", "-m", f"{AGENT}:support", "--run-id", run, "--input", f'["{QUESTION}"]']
    with _process(begin, folder, settings) as first:
        _until(lambda: world.find("middle") is not None, first)
        os.kill(first.pid, signal.SIGKILL)
    with _process([*reenact, "resume", run], folder, settings) as second:
        _until(lambda: world.find("key") is not None, second)
        _approve(store, settings, world, folder)
        answer = _ended_well(second)
    return run, answer.strip()


def _approve(store: Store, settings: Settings, world: World, folder: Path) -> None:
    from reenact.core.wait_keys import Resolution
    from reenact.effect.keys import KeyRing
    from reenact.effect.waits.desk import WaitDesk

    desk = WaitDesk(store, settings.namespace, keyring=KeyRing(_keys(folder)))
    outcome = desk.resolve(world.find("key") or "", Resolution.ok({"approved": True, "by": "dana"}))
    if outcome.status != "accepted":
        raise _failed("the approval was not accepted")


@contextmanager
def _process(command: list[str], folder: Path, settings: Settings | None = None) -> Iterator[subprocess.Popen[str]]:
    environment = {**os.environ, "REENACT_DEMO_WORLD": str(folder), "REENACT_KEY_FILE": str(_keys(folder))}
    if settings is not None and settings.store:
        environment["REENACT_STORE"] = settings.store  # not an argument: others see those, and it may hold a password
    with subprocess.Popen(  # noqa: S603 - our own modules, by this interpreter
        command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def _keys(folder: Path) -> Path:
    return folder / "keys.json"


def _until(reached: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not reached():
        if process.poll() is not None or time.monotonic() > deadline:
            raise _failed("a process of the demo did not get to the middle of its work")
        time.sleep(LOOK_SECONDS)


def _ended_well(process: subprocess.Popen[str]) -> str:
    try:
        answer, _ = process.communicate(timeout=PATIENCE_SECONDS)
    except subprocess.TimeoutExpired:
        raise _failed("a process of the demo did not end") from None
    if process.returncode != 0:
        raise _failed(f"a process of the demo ended with {process.returncode}")
    return answer


def _failed(what: str) -> ReenactError:
    return ReenactError(f"the demo failed: {what}", code="demo_failed")


# The alteration


def alter_and_verify(store: Store, run: str, namespace: str, folder: Path) -> VerificationReport:
    """One digit of a recorded answer is changed in an exported copy, which is then verified like any file."""
    from reenact.journal.exporting import export_run
    from reenact.journal.importing import verify_file
    from reenact.journal.reader import JournalReader

    copy = folder / f"{run}.jsonl"
    export_run(JournalReader(store, run, namespace), copy)
    whole = copy.read_bytes()
    # The first place is the model's answer; the same text stands in the mail that was made of it.
    changed, count = re.subn(re.escape(PRICE.encode()), ALTERED_PRICE.encode(), whole, count=1)
    if count != 1 or not verify_file(copy).valid:
        raise _failed("its copy is not what was recorded")
    copy.write_bytes(changed)
    report = verify_file(copy)
    if report.valid:
        raise _failed("an altered copy was taken for valid")
    return report


# Telling


def _as_json(lives: Lives, report: VerificationReport, altered: VerificationReport) -> dict[str, Any]:
    return {
        "run": lives.run,
        "with": {"mails": lives.mails, "payments": lives.payments},
        "without": {"mails": lives.mails_without, "payments": lives.payments_without},
        "answer": lives.answer,
        "events": report.events,
        "valid": report.valid,
        "line": report.line,
        "altered_copy": {
            "valid": altered.valid,
            "line": altered.line,
            "problems": [problem._asdict() for problem in altered.problems],
        },
    }


def _tell(
    store: Store, settings: Settings, lives: Lives, report: VerificationReport, altered: VerificationReport
) -> None:
    _heading("1. An agent pays and mails. In the middle it is killed (SIGKILL), and started again")
    say("As a plain script it begins anew. With Reenact, `reenact resume` goes on where it stood:")
    say(paint(f"{lives.mails_without} mails without Reenact, {lives.mails} with", fg="green", bold=True))
    _heading("2. It waits for an approval, which arrives by a signed key, and ends")
    say(inert(lives.answer))
    _heading(f"3. What is on record in {url_text(store.url)}")
    print_timeline(store, lives.run, settings.namespace)
    say()
    kept = count_text(report.nodes, "shared value")
    say(f"Both chat calls hold the whole conversation; what is long in it is kept once ({kept}).")
    _heading("4. It is verified")
    say(paint(report.line, fg="green", bold=True))
    _heading("5. In an exported copy, one digit of an answer is changed, 42.00 to 92.00, and the copy is verified")
    for problem in altered.problems:
        say(f"event {problem.seq}: {inert(problem.message)} [{problem.code}]")
    say(paint(altered.line, fg="red", bold=True))
    _heading("6. Go on. Nothing is left of the demo but its run in the store")
    for command, about in _next_steps():
        say(f"  {paint(command.ljust(35), bold=True)} {about}")


def _next_steps() -> tuple[tuple[str, str], ...]:
    return (
        ("reenact show @last", "what happened"),
        ("reenact show @last --event 6", "one event in full: a request with its whole conversation"),
        ("reenact show @last --state 12", "the agent's state at a position"),
        ("reenact replay @last", "the same code again, on the record alone: no mail is sent"),
        ("reenact export @last -o run.jsonl", "one text file that anybody can verify"),
        ("reenact verify run.jsonl", "as it was written?"),
    )


def _heading(text: str) -> None:
    say()
    say(paint(text, fg="cyan", bold=True))
