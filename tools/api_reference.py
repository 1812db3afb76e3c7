"""Writes docs/api.md from the public names themselves: their signatures and what is said beside them in the code."""

from __future__ import annotations

import inspect
import sys
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import reenact
from reenact.effect.handles import RunHandle
from reenact.effect.tools import Effect

FILE = Path(__file__).parents[1] / "docs/api.md"
SECTIONS: dict[str, tuple[str, tuple[str, ...]]] = {
    "Agents and their effects": (
        "What an agent developer writes. [agents.md](agents.md) tells how it fits together.",
        (
            "agent",
            "Agent",
            "RunHandle",
            "tool",
            "step",
            "Effect",
            "run_step",
            "idempotency_key",
            "note_attempt",
            "record",
        ),
    ),
    "Inside a run": (
        "Each is on record, and comes back as it was. `sleep`, `wait_for` and `wait_for_first` are awaited in a task.",
        ("sleep", "now", "random", "uuid", "state", "set_state", "checkpoint", "restored"),
    ),
    "Waits": (
        "A word from outside ([guides/waits.md](guides/waits.md)).",
        ("wait_for", "wait_for_first", "wait_key", "interrupt", "WaitCancelled", "WaitFailed"),
    ),
    "What an agent may do": (
        "Policies, budgets, retries, redaction ([secrets.md](secrets.md)).",
        ("Policy", "Budget", "Retry", "Redaction"),
    ),
    "Coming back": (
        "After a crash, on the record alone, or another way ([resume](guides/resume.md), [forks](forks.md)).",
        (
            *("resume", "replay", "settle", "cancel", "Worker", "sweep", "fork", "AnotherAnswer", "AnotherInput"),
            *("AnotherModel", "expected_tail", "patched_change"),
        ),
    ),
    "Errors": (
        "By who has to act. Each has a stable `code`, a `hint`, and the `exit_status` of the command line.",
        (
            *("ReenactError", "Denied", "BudgetExceeded", "Divergence", "InDoubt", "NotCarriedOut", "NotReplayable"),
            "Suspended",
        ),
    ),
    "The log": (
        "Stores, journals and what is in them ([format.md](format.md), [guarantees.md](guarantees.md)).",
        (
            *(
                "open_store",
                "Store",
                "Journal",
                "JournalReader",
                "Draft",
                "SequencedEvent",
                "Head",
                "OperationsJournal",
            ),
            *("register_type", "export_run", "import_file", "verify_file", "verify_run", "VerificationReport"),
        ),
    ),
    "Events": (
        "Past-tense values; `SequencedEvent.event` is one of them.",
        (
            *("Event", "ActionRequested", "ActionSucceeded", "ActionFailed", "ActionDenied", "AttemptRecorded"),
            *(
                "StateUpdated",
                "WaitCreated",
                "WaitResolved",
                "Interrupted",
                "Resumed",
                "Completed",
                "Failed",
                "Cancelled",
            ),
        ),
    ),
    "State and snapshots": (
        "State is a fold of events; snapshots only make it quicker to find.",
        (
            *("Reducer", "StateUpdatedOnlyReducer", "state_hash", "StateFold", "SnapshotManager", "EveryEvents"),
            *("AtMarkedPoints", "WhenStateReaches"),
        ),
    ),
    "Reading and judging": (
        "Where two runs part, and what drifted ([live-replay.md](live-replay.md)).",
        (
            *("compare_runs", "RunComparison", "ReplayEngine", "compare_outcomes", "Outcome", "StepDrift"),
            *("DriftTolerance", "PathRule", "Masks", "ExecutionLog", "KernelTraceEvent", "scan_execution_log"),
            *("scan_execution_log_with_state_hashes", "scan_execution_trace"),
        ),
    ),
    "Receipts and evidence": (
        "For auditors ([tokens.md](tokens.md), [evidence.md](evidence.md)).",
        (
            *("ReplayToken", "ReplayLog", "EffectInvoker", "mint", "replay_token", "replay_flow"),
            *("make_bundle", "write_bundle", "check_bundle"),
        ),
    ),
}
BESIDE = {"RunHandle": RunHandle, "Effect": Effect}
"""Met by everybody, although nobody imports them."""
SHOWN = {
    "Agent": ("run", "start", "resume", "replay", "replay_live", "fork"),
    "Effect": (),
    "Event": (),
    "Policy": (),
    "Redaction": (),
    "Retry": (),
    "JournalReader": ("scan", "follow", "event", "facts", "head", "children", "imported"),
    "Journal": ("create", "open", "append", "append_async", "renew", "release", "reopen", "head"),
    "OperationsJournal": ("open", "note"),
}
"""Of classes that have more than is meant for their users."""
WIDTH = 100


def write() -> str:
    listed = [name for _, names in SECTIONS.values() for name in names if name not in BESIDE]
    missing, twice = set(reenact.__all__) - set(listed), len(listed) != len(set(listed))
    if missing - {"__version__"} or twice:
        raise SystemExit(f"in no section, or in two: {sorted(missing) or listed}")
    lines = [
        "# The Python interface",
        "",
        "Written by `make reference` from the code itself. Everything here is a name of the package `reenact`, but for",
        f"{' and '.join(f'`{name}`' for name in BESIDE)}, which are handed out by others. What is not here may move.",
    ]
    for title, (said, names) in SECTIONS.items():
        lines += ["", f"## {title}", "", said]
        for name in names:
            lines += ["", *_entry(name, BESIDE.get(name) or getattr(reenact, name))]
    return "\n".join(lines) + "\n"


def _entry(name: str, it: Any) -> Iterator[str]:
    yield f"### `{name}`"
    yield ""
    for signature in _signatures(it):
        yield from ("```text", _laid_out(name, signature), "```", "")
    yield from _paragraphs(it)
    if inspect.isclass(it):
        for member, function, how in _members(it):
            shown = _on_one_line(f"{name}.{member}", function)[0] if how == "method" else f"{name}.{member}"
            said = " ".join(_paragraphs(inspect.getattr_static(it, member)))
            yield from ("", f"- `{shown}`{': ' if said else ''}{said}")


def _signatures(it: Any) -> list[inspect.Signature]:
    overloads = [inspect.signature(one) for one in typing.get_overloads(it)] if inspect.isfunction(it) else []
    if overloads:
        return overloads
    if inspect.isclass(it) and (getattr(it, "_is_protocol", False) or issubclass(it, BaseException)):
        return []
    return [inspect.signature(it)]


def _members(cls: type) -> Iterator[tuple[str, inspect.Signature, str]]:
    fields = getattr(cls, "__struct_fields__", getattr(cls, "_fields", ()))
    shown = SHOWN.get(cls.__name__, tuple(vars(cls)))
    if issubclass(cls, BaseException):
        return
    for member, value in sorted(vars(cls).items()):
        if member.startswith("_") or member in fields or member not in shown:
            continue
        function = value.__func__ if isinstance(value, (classmethod, staticmethod)) else value
        if inspect.isfunction(function):
            yield member, _without_self(function, isinstance(value, staticmethod)), "method"
        elif isinstance(value, property):
            yield member, inspect.Signature(), "property"


def _without_self(function: Callable[..., Any], static: bool) -> inspect.Signature:
    signature = inspect.signature(function)
    parameters = list(signature.parameters.values())
    return signature if static else signature.replace(parameters=parameters[1:])


def _laid_out(name: str, signature: inspect.Signature) -> str:
    """On one line, or with a line for each parameter where that is too long."""
    line, parts, result = _on_one_line(name, signature)
    return line if len(line) <= WIDTH else f"{name}(\n    " + ",\n    ".join(parts) + f",\n){result}"


def _on_one_line(name: str, signature: inspect.Signature) -> tuple[str, list[str], str]:
    parts: list[str] = []
    last: Any = None
    for parameter in signature.parameters.values():
        if last == parameter.POSITIONAL_ONLY != parameter.kind:
            parts.append("/")
        if parameter.kind == parameter.KEYWORD_ONLY and last not in (parameter.KEYWORD_ONLY, parameter.VAR_POSITIONAL):
            parts.append("*")
        parts.append(_parameter(parameter))
        last = parameter.kind
    if last == inspect.Parameter.POSITIONAL_ONLY:
        parts.append("/")
    given = signature.return_annotation
    result = "" if given in (signature.empty, None, "None") else f" -> {_named(given)}"
    return f"{name}({', '.join(parts)}){result}", parts, result


def _parameter(parameter: inspect.Parameter) -> str:
    stars = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
    text = f"{stars}{parameter.name}"
    if parameter.annotation is not parameter.empty:
        text += f": {_named(parameter.annotation)}"
    if parameter.default is not parameter.empty:
        text += f" = {_value(parameter.default)}"
    return text


def _named(annotation: Any) -> str:
    if isinstance(annotation, typing.ForwardRef):
        return annotation.__forward_arg__
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    for module in ("collections.abc.", "typing."):
        text = text.replace(module, "")
    while "reenact." in text:  # names, not where they are
        before, _, rest = text.partition("reenact.")
        path = rest[: next((at for at, sign in enumerate(rest) if not (sign.isalnum() or sign in "._")), len(rest))]
        text = before + path.rpartition(".")[2] + rest[len(path) :]
    return text


def _value(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 and " at 0x" not in text else "…"


def _paragraphs(it: Any) -> list[str]:
    """What is said of it; not what a library says of everything that it makes."""
    doc = getattr(it, "__doc__", None)
    inherited = inspect.isclass(it) and "__doc__" not in vars(it)
    if not doc or inherited or doc.startswith(f"{getattr(it, '__name__', '')}("):
        return []
    return [" ".join(paragraph.split()) for paragraph in inspect.cleandoc(doc).split("\n\n")]


if __name__ == "__main__":
    FILE.write_text(write())
    sys.stdout.write(f"{FILE.name}: {len(FILE.read_text().splitlines())} lines\n")
