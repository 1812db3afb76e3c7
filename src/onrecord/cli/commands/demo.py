"""`onrecord demo`: kill an agent, resume it, verify its record, and find an altered digit.

The demo uses real processes, a real SIGKILL and the commands that users type. What the agent does outside is a line in
a temporary folder, which is removed with the keys that sign the demo's one wait key. Only the run in the store remains.
"""

from __future__ import annotations

import os
import re
import secrets
import shlex
import shutil
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

from onrecord.cli.commands.show import print_timeline
from onrecord.cli.render.output import paint, say, say_json
from onrecord.cli.render.text import count_text, inert, url_text
from onrecord.cli.results import command_for
from onrecord.cli.settings import Settings, shared_options
from onrecord.cli.stores import store_url, writing
from onrecord.errors import InvalidInput, OnrecordError

if TYPE_CHECKING:  # loaded when the command runs
    from onrecord.cli.commands.demo_agent import World
    from onrecord.journal.verify import VerificationReport
    from onrecord.store.contract import Store

AGENT = "onrecord.cli.commands.demo_agent"
QUESTION = "Where is my order A-17? I have been waiting for three weeks."
PRICE, ALTERED_PRICE = "costs us 42.00 EUR", "costs us 92.00 EUR"
PATIENCE_SECONDS = 60.0
LOOK_SECONDS = 0.02


class Lives(NamedTuple):
    """Count the effects of the agent, and of the same steps as a plain script, each killed once."""

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
    """Kill an agent, resume it, verify its record, and find an altered copy. Only the run in the store remains.

    \b
    onrecord demo
    onrecord demo --store demo.db
    """
    from onrecord.journal.verify import verify_run

    if store_url(settings).startswith("memory:"):
        raise InvalidInput(
            "the demo needs a store that outlives a process", hint="Leave --store out, or name a file.", code="usage"
        )
    with writing(settings) as store, tempfile.TemporaryDirectory(prefix="onrecord-demo-") as folder:
        lives = live(settings, store, Path(folder))
        report = verify_run(store, lives.run, settings.namespace, deep=True)
        report.raise_if_invalid()
        altered = alter_and_verify(store, lives.run, settings.namespace, Path(folder))
        if settings.json:
            say_json(_as_json(lives, report, altered))
        else:
            _print_record(store, settings, lives, report, altered)


# The two lives


def live(settings: Settings, store: Store, folder: Path) -> Lives:
    from onrecord.cli.commands.demo_agent import World

    plain, recorded = folder / "without", folder / "with"
    for outside in (plain, recorded):
        outside.mkdir()
    say_now = _say_nothing if settings.json else _say_now
    say_now("", _heading("1. An agent pays and mails. It is killed (SIGKILL) in the middle, and started again"))
    say_now("As a plain script it starts over …")
    _live_without(plain)
    say_now("With Onrecord, `onrecord resume` continues where it was …")
    run, answer = _live_with(settings, store, recorded)
    without, world = World(str(plain)), World(str(recorded))
    lives = Lives(
        run, world.count("mail"), world.count("payment"), without.count("mail"), without.count("payment"), answer
    )
    if (lives.mails, lives.mails_without) != (1, 2):
        raise _failed(f"{lives.mails_without} mails without Onrecord, {lives.mails} with")
    counted = f"{lives.mails_without} mails without Onrecord, {lives.mails} with"
    say_now(paint(counted, fg="green", bold=True))
    say_now("", _heading("2. It waited for an approval, which arrived by a signed key, and ended"), inert(lives.answer))
    return lives


def _say_now(*lines: str) -> None:
    """Print and flush: the next stage takes a moment."""
    for line in lines:
        say(line)
    sys.stdout.flush()


def _say_nothing(*_: str) -> None:
    """Print nothing: with --json the one document is printed at the end."""


def _live_without(folder: Path) -> None:
    """Kill a plain script in the middle and start it again, from its start."""
    from onrecord.cli.commands.demo_agent import World

    command = [sys.executable, "-m", AGENT]
    with _process(command, folder) as script:
        _until(lambda: World(str(folder)).find("middle") is not None, script)
        os.kill(script.pid, signal.SIGKILL)
    with _process(command, folder) as script:
        _ended_well(script)


def _live_with(settings: Settings, store: Store, folder: Path) -> tuple[str, str]:
    """Kill `onrecord run` in the middle, resume the run, and resolve its wait by key."""
    from onrecord.cli.commands.demo_agent import World

    run, world = f"demo-{secrets.token_hex(5)}", World(str(folder))
    onrecord = [sys.executable, "-m", "onrecord.cli.main", "--namespace", settings.namespace]
    begin = [*onrecord, "run", "-m", f"{AGENT}:support", "--run-id", run, "--input", f'["{QUESTION}"]']
    with _process(begin, folder, settings) as first:
        _until(lambda: world.find("middle") is not None, first)
        os.kill(first.pid, signal.SIGKILL)
    with _process([*onrecord, "resume", run], folder, settings) as second:
        _until(lambda: world.find("key") is not None, second)
        _approve(store, settings, world, folder)
        answer = _ended_well(second)
    return run, answer.strip()


def _approve(store: Store, settings: Settings, world: World, folder: Path) -> None:
    from onrecord.core.wait_keys import Resolution
    from onrecord.runtime.secrets.keys import KeyRing
    from onrecord.runtime.waits.registry import WaitRegistry

    desk = WaitRegistry(store, settings.namespace, keyring=KeyRing(_keys(folder)))
    outcome = desk.resolve(world.find("key") or "", Resolution.ok({"approved": True, "by": "dana"}))
    if outcome.status != "accepted":
        raise _failed("the approval was not accepted")


@contextmanager
def _process(command: list[str], folder: Path, settings: Settings | None = None) -> Iterator[subprocess.Popen[str]]:
    environment = {**os.environ, "ONRECORD_DEMO_WORLD": str(folder), "ONRECORD_KEY_FILE": str(_keys(folder))}
    if settings is not None and settings.store:
        environment["ONRECORD_STORE"] = settings.store  # other users see arguments, and a URL may hold a password
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


def _failed(what: str) -> OnrecordError:
    return OnrecordError(f"the demo failed: {what}", code="demo_failed")


# The alteration


def alter_and_verify(store: Store, run: str, namespace: str, folder: Path) -> VerificationReport:
    """Change one digit of a recorded answer in an exported copy, and return the report of its verification."""
    from onrecord.journal.export import export_run
    from onrecord.journal.import_file import verify_file
    from onrecord.journal.reader import JournalReader

    copy = folder / f"{run}.jsonl"
    export_run(JournalReader(store, run, namespace), copy)
    whole = copy.read_bytes()
    # The first match is the model's answer; the mail repeats its text.
    changed, count = re.subn(re.escape(PRICE.encode()), ALTERED_PRICE.encode(), whole, count=1)
    if count != 1 or not verify_file(copy).valid:
        raise _failed("the exported copy is not the recorded run")
    copy.write_bytes(changed)
    report = verify_file(copy)
    if report.valid:
        raise _failed("an altered copy passed verification")
    return report


# Printing


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


def _print_record(
    store: Store, settings: Settings, lives: Lives, report: VerificationReport, altered: VerificationReport
) -> None:
    _say_now("", _heading(f"3. The record in {url_text(store.url)}"))
    print_timeline(store, lives.run, settings.namespace)
    shared = count_text(report.nodes, "shared value")
    say(f"\nBoth chat calls hold the whole conversation; its long values are stored once ({shared}).")
    _say_now("", _heading("4. The record is verified"), paint(report.line, fg="green", bold=True))
    say(f"\n{_heading('5. One digit of an answer is changed in an exported copy, 42.00 to 92.00')}")
    for problem in altered.problems:
        say(f"event {problem.seq}: {inert(problem.message)} [{problem.code}]")
    say(paint(altered.line, fg="red", bold=True))
    say(f"\n{_heading('6. Next. Only the run in the store is left of the demo')}")
    steps = _next_steps(own_command(), command_for(settings, "show", "@last").partition("@last")[2], lives.run)
    width = max(len(command) for command, _ in steps)
    for command, about in steps:
        say(f"  {paint(command.ljust(width), bold=True)}  {about}")


def _next_steps(onrecord: str, where: str, run: str) -> tuple[tuple[str, str], ...]:
    """Return commands that work as printed. `where` names the store and the namespace, if the demo was given one."""
    return (
        (f"{onrecord} show @last{where}", "what happened"),
        (f"{onrecord} show @last --event 6{where}", "one event in full: a request with its conversation"),
        (f"{onrecord} show @last --state 12{where}", "the agent's state after an event"),
        (f"{onrecord} replay @last{where}", "the same code on the record alone: no mail is sent"),
        (f"{onrecord} export @last -o {run}.jsonl{where}", "one text file that anyone can verify"),
        (f"{onrecord} verify {run}.jsonl", "is it unaltered?"),
    )


def own_command() -> str:
    """Return what the user types for `onrecord` in this folder: an environment need not be on the PATH."""
    script = os.path.abspath(sys.argv[0])
    if os.path.basename(script) != "onrecord":
        return f"{shlex.quote(sys.executable)} -m onrecord.cli.main"
    if shutil.which("onrecord") == script:
        return "onrecord"
    relative = os.path.relpath(script)
    return shlex.quote(script if relative.startswith(os.pardir) else relative)


def _heading(text: str) -> str:
    return paint(text, fg="cyan", bold=True)
