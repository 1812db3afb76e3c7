"""`reenact demo`: a small agent's run is recorded, verified, altered in a copy, and the alteration is found.

Everything here goes through the same doors as any other recording. Nothing is left behind but the store.
"""

from __future__ import annotations

import re
import secrets
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from reenact.cli.output import paint, say, say_json
from reenact.cli.settings import Settings, shared_options
from reenact.cli.showing import print_timeline
from reenact.cli.stores import writing
from reenact.cli.text import count_text, inert, url_text
from reenact.errors import ReenactError

if TYPE_CHECKING:  # loaded when the command runs
    from reenact.journal.journal import Journal
    from reenact.journal.verify import VerificationReport
    from reenact.store.contract import Store

ANSWER = "Order A-17 was lost on the way. I suggest a refund of 42.00 EUR."
ALTERED_ANSWER = ANSWER.replace("42.00", "92.00")
POLICY = (
    "You are the support agent of a small bookshop. Be brief and friendly. Look an order up before you speak about it. "
    "A parcel that is not delivered after ten days counts as lost; the customer chooses a new copy or a refund. "
    "Never promise more than the price of the order. A refund is paid to the card the order was paid with, and only "
    "after a person of the shop has agreed to it. If anything about an order looks odd, say so and stop. Do not ask "
    "for card numbers, addresses or birthdays: what you never see you cannot give away."
)


@click.command()
@shared_options
@click.pass_obj
def demo(settings: Settings) -> None:
    """Record a small run, verify it, alter a copy and see it found. Takes a second and leaves only the store."""
    from reenact.journal.verify import verify_run

    with writing(settings) as store:
        run = record(store, settings.namespace)
        report = verify_run(store, run, settings.namespace, deep=True)
        report.raise_if_invalid()
        with tempfile.TemporaryDirectory(prefix="reenact-demo-") as folder:
            altered = alter_and_verify(store, run, settings.namespace, Path(folder))
        if settings.json:
            say_json(_as_json(run, report, altered))
            return
        _tell(store, settings, run, report, altered)


def record(store: Store, namespace: str) -> str:
    from reenact.journal.journal import Journal

    facts = {"agent": "bookshop-support", "command": ["reenact", "demo"]}
    with Journal.create(store, f"demo-{secrets.token_hex(5)}", namespace, facts=facts) as journal:
        _live(journal)
        return journal.run


def _live(journal: Journal) -> None:
    """The agent's life: it looks something up, asks a person, and does one thing that matters."""
    from reenact.core.events import Completed, Interrupted, Resumed, StateUpdated
    from reenact.journal.chain import Draft

    conversation: list[dict[str, Any]] = [
        {"role": "system", "content": POLICY},
        {"role": "user", "content": "Where is my order A-17? I have been waiting for three weeks."},
    ]
    journal.append(StateUpdated(payload={"order": None, "step": "asked"}, step_id="start"))
    _call(journal, "chat", "model_call", {"messages": list(conversation)}, {"tool": "find_order", "order": "A-17"})
    order = {"order": "A-17", "title": "The Sea", "cents": 4200, "delivered": False, "days": 21}
    _call(journal, "find_order", "tool_call", {"order": "A-17"}, order)
    journal.append(StateUpdated(payload={"order": "A-17", "step": "found"}, step_id="found"))
    conversation += [{"role": "assistant", "tool": "find_order"}, {"role": "tool", "content": order}]
    _call(journal, "chat", "model_call", {"messages": list(conversation)}, ANSWER)
    asked = journal.append(Interrupted(value={"question": "Refund 42.00 EUR for order A-17?"}))[0]
    journal.append(Draft(Resumed(value={"approved": True, "by": "dana"}), parent=asked.seq))
    _call(journal, "refund", "tool_call", {"order": "A-17", "cents": 4200}, {"receipt": "R-0881"})
    journal.append(Completed(output="Refunded 42.00 EUR, receipt R-0881."))


def _call(journal: Journal, name: str, effect: str, payload: Any, output: Any) -> None:
    from reenact.core.events import ActionRequested, ActionSucceeded
    from reenact.journal.chain import Draft

    action = f"a{journal.head().seq + 1}"
    request = ActionRequested(action_id=action, payload=payload, name=name, effect=effect)
    requested = journal.append(Draft(request, key=f"0/{name}/{action}"), sync=False)[0]
    journal.append(Draft(ActionSucceeded(action_id=action, output=output), parent=requested.seq))


def alter_and_verify(store: Store, run: str, namespace: str, folder: Path) -> VerificationReport:
    """One digit of a recorded answer is changed in an exported copy, which is then verified like any file."""
    from reenact.journal.exporting import export_run
    from reenact.journal.importing import verify_file
    from reenact.journal.reader import JournalReader

    copy = folder / f"{run}.jsonl"
    export_run(JournalReader(store, run, namespace), copy)
    whole = copy.read_bytes()
    changed, count = re.subn(re.escape(ANSWER.encode()), ALTERED_ANSWER.encode(), whole)
    if count != 1 or not verify_file(copy).valid:
        raise ReenactError("the demo's copy is not what was recorded", code="demo_failed")
    copy.write_bytes(changed)
    report = verify_file(copy)
    if report.valid:
        raise ReenactError("an altered copy was taken for valid", code="demo_failed")
    return report


def _as_json(run: str, report: VerificationReport, altered: VerificationReport) -> dict[str, Any]:
    return {
        "run": run,
        "events": report.events,
        "valid": report.valid,
        "line": report.line,
        "altered_copy": {
            "valid": altered.valid,
            "line": altered.line,
            "problems": [problem._asdict() for problem in altered.problems],
        },
    }


def _tell(store: Store, settings: Settings, run: str, report: VerificationReport, altered: VerificationReport) -> None:
    _heading(f"1. An agent's run was recorded into {url_text(store.url)}")
    print_timeline(store, run, settings.namespace)
    say()
    kept = count_text(report.nodes, "shared value")
    say(f"Both chat calls hold the whole conversation; what is long in it is kept once ({kept}).")
    _heading("2. It is verified")
    say(paint(report.line, fg="green", bold=True))
    _heading("3. In an exported copy, one digit of an answer is changed, 42.00 to 92.00, and the copy is verified")
    for problem in altered.problems:
        say(f"event {problem.seq}: {inert(problem.message)} [{problem.code}]")
    say(paint(altered.line, fg="red", bold=True))
    _heading("4. Go on")
    for command, about in (
        ("reenact show @last", "what happened"),
        ("reenact show @last --event 7", "one event in full: a request with its whole conversation"),
        ("reenact show @last --state 6", "the agent's state at a position"),
        ("reenact export @last -o run.jsonl", "one text file that anybody can verify"),
        ("reenact verify run.jsonl", "as it was written?"),
    ):
        say(f"  {paint(command.ljust(35), bold=True)} {about}")


def _heading(text: str) -> None:
    say()
    say(paint(text, fg="cyan", bold=True))
