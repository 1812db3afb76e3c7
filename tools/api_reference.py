"""Write docs/reference/api.md from the public names: their signatures and docstrings.

Run as a program, it writes docs/reference/errors.md too.
"""

from __future__ import annotations

import inspect
import re
import sys
import textwrap
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import error_reference

import onrecord
from onrecord.runtime.api.handle import RunHandle
from onrecord.runtime.api.tool import Effect

FILE = Path(__file__).parents[1] / "docs/reference/api.md"
SECTIONS: dict[str, tuple[str, tuple[str, ...]]] = {
    "Agents and their effects": (
        "What an agent developer writes ([guide](../guides/agents.md)).",
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
        "Each is recorded and replays with the same value. Await `sleep` in an asynchronous agent.",
        ("sleep", "now", "random", "uuid", "state", "set_state", "checkpoint", "restored"),
    ),
    "Waits": (
        "Wait for a value from outside ([guide](../guides/waits.md)). "
        "Await `wait_for` and `wait_for_first` in an asynchronous agent.",
        ("wait_for", "wait_for_first", "wait_key", "interrupt", "WaitCancelled", "WaitFailed"),
    ),
    "What an agent may do": (
        "Policies, budgets, retries and redaction ([guide](../guides/secrets.md)).",
        ("Policy", "Budget", "Retry", "Redaction"),
    ),
    "Resume, replay, fork": (
        "Continue a run, run it again on its record, or branch it "
        "([resume](../guides/resume.md), [fork](../guides/fork-and-compare.md)).",
        (
            *("resume", "replay", "settle", "cancel", "Worker", "sweep", "fork", "AnotherAnswer", "AnotherInput"),
            *("AnotherModel", "expected_tail", "patched_change"),
        ),
    ),
    "Errors": (
        "Each has a stable `code`, a `hint` and the `exit_status` of the command line ([all codes](errors.md)).",
        (
            *("OnrecordError", "Denied", "BudgetExceeded", "Divergence", "InDoubt", "NotCarriedOut", "NotReplayable"),
            *("Suspended", "UnrecordedWarning"),
        ),
    ),
    "Stores and journals": (
        "Open stores; read, write, verify and move journals ([format](../format.md), [guarantees](../guarantees.md)).",
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
        "`SequencedEvent.event` is one of these values.",
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
        "State is a fold of events. Snapshots only save time.",
        (
            *("Reducer", "StateUpdatedOnlyReducer", "state_hash", "StateFold", "SnapshotManager", "EveryEvents"),
            *("AtMarkedPoints", "WhenStateReaches"),
        ),
    ),
    "Compare and judge": (
        "Find where two runs diverge, and judge drift ([guide](../guides/live-replay.md)).",
        (
            *("compare_runs", "RunComparison", "ReplayEngine", "compare_outcomes", "Outcome", "StepDrift"),
            *("DriftTolerance", "PathRule", "Masks", "ExecutionLog", "KernelTraceEvent", "scan_execution_log"),
            *("scan_execution_log_with_state_hashes", "scan_execution_trace"),
        ),
    ),
    "Receipts and evidence": (
        "For auditors ([receipts](../guides/receipts.md), [evidence](../guides/evidence.md)).",
        (
            *("ReplayToken", "ReplayLog", "EffectInvoker", "mint", "replay_token", "replay_flow"),
            *("make_bundle", "write_bundle", "check_bundle"),
        ),
    ),
}
BESIDE = {"RunHandle": RunHandle, "Effect": Effect}
"""Objects that functions return, and that are not imported by name."""
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
"""The documented members of classes that have more."""
WIDTH = 100
LIST_ITEM = re.compile(r"\s*(?:[-*]|\d+\.)\s")


def write() -> str:
    listed = [name for _, names in SECTIONS.values() for name in names if name not in BESIDE]
    missing, twice = set(onrecord.__all__) - set(listed), len(listed) != len(set(listed))
    if missing - {"__version__"} or twice:
        raise SystemExit(f"in no section, or in two: {sorted(missing) or listed}")
    lines = [
        "# Python",
        "",
        "`make reference` writes this page from the code. Every name is a member of the package `onrecord`,",
        f"except {' and '.join(f'`{name}`' for name in BESIDE)}, which functions return. Other names may change.",
    ]
    for title, (introduction, names) in SECTIONS.items():
        lines += ["", f"## {title}", "", *_wrapped(introduction)]
        for name in names:
            lines += ["", *_entry(name, BESIDE.get(name) or getattr(onrecord, name))]
    return "\n".join(lines) + "\n"


def _entry(name: str, value: Any) -> Iterator[str]:
    """Yield the lines of one name, then those of its members, without blank lines at the end."""
    yield f"### `{name}`"
    for signature in _signatures(value):
        yield from ("", "```text", _laid_out(name, signature), "```")
    yield from _paragraph_lines(value)
    if inspect.isclass(value):
        for member, signature, is_method in _members(value):
            yield from ("", f"#### `{name}.{member}`")
            if is_method:
                yield from ("", "```text", _laid_out(member, signature), "```")
            yield from _paragraph_lines(inspect.getattr_static(value, member))


def _paragraph_lines(value: Any) -> Iterator[str]:
    for paragraph in _paragraphs(value):
        yield ""
        yield from paragraph


def _wrapped(text: str, indent: str = "") -> list[str]:
    return textwrap.wrap(
        text, WIDTH - 1, initial_indent=indent, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def _signatures(value: Any) -> list[inspect.Signature]:
    overloads = [inspect.signature(one) for one in typing.get_overloads(value)] if inspect.isfunction(value) else []
    if overloads:
        return overloads
    if inspect.isclass(value) and (getattr(value, "_is_protocol", False) or issubclass(value, BaseException)):
        return []
    return [inspect.signature(value)]


def _members(cls: type) -> Iterator[tuple[str, inspect.Signature, bool]]:
    fields = getattr(cls, "__struct_fields__", getattr(cls, "_fields", ()))
    shown = SHOWN.get(cls.__name__, tuple(vars(cls)))
    if issubclass(cls, BaseException):
        return
    for member, value in sorted(vars(cls).items()):
        if member.startswith("_") or member in fields or member not in shown:
            continue
        function = value.__func__ if isinstance(value, (classmethod, staticmethod)) else value
        if inspect.isfunction(function):
            yield member, _without_self(function, isinstance(value, staticmethod)), True
        elif isinstance(value, property):
            yield member, inspect.Signature(), False


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
    while "onrecord." in text:  # names, not where they are
        before, _, rest = text.partition("onrecord.")
        path = rest[: next((at for at, sign in enumerate(rest) if not (sign.isalnum() or sign in "._")), len(rest))]
        text = before + path.rpartition(".")[2] + rest[len(path) :]
    return text


def _value(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 and " at 0x" not in text else "…"


def _paragraphs(value: Any) -> list[list[str]]:
    """Return the wrapped paragraphs of a docstring, without those that a library writes for every class."""
    doc = getattr(value, "__doc__", None)
    inherited = inspect.isclass(value) and "__doc__" not in vars(value)
    if not doc or inherited or doc.startswith(f"{getattr(value, '__name__', '')}("):
        return []
    found = []
    for paragraph in inspect.cleandoc(doc).split("\n\n"):
        lines = paragraph.splitlines()
        if all(line.startswith("    ") for line in lines):
            found.append(["```text", *(line[4:] for line in lines), "```"])
        elif any(LIST_ITEM.match(line) for line in lines):
            found.append(lines)
        else:
            found.append(_wrapped(" ".join(paragraph.split())))
    return found


if __name__ == "__main__":
    for file, text in ((FILE, write()), (error_reference.FILE, error_reference.write())):
        file.write_text(text, encoding="utf-8")
        sys.stdout.write(f"{file.name}: {len(text.splitlines())} lines\n")
