"""Write docs/reference/errors.md: every stable error code, with the message and the hint that the code prints.

The source is read, not run. A call of an error class gives a row: its `code`, its message and its `hint`; a value
that is filled in later is shown as `…`.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "onrecord"
FILE = ROOT / "docs" / "reference" / "errors.md"
SHOWN_MESSAGES = 3

FAMILIES = {
    "InvalidValue": (
        "A value cannot be written",
        "The message names the path inside the value and the rule. Nothing was written.",
        "Change the value at the named path.",
    ),
    "InvalidInput": (
        "The caller asked for something impossible",
        "A bad id, position, option, file or combination. Nothing was done.",
        "Correct what the message names.",
    ),
    "NotFound": ("Not found", "No such run, file, event, key or store.", "Check the name."),
    "Refused": (
        "The store or run does not accept it",
        "Nothing was written. The journal handle stays usable.",
        "Read the current state of the run, then decide again.",
    ),
    "Divergence": (
        "A replay or resume diverges",
        "The code did not do what the record says. Nothing new was executed.",
        "`onrecord replay` shows the position and the difference. Restore the recorded code, or fork.",
    ),
    "Damaged": (
        "Recorded bytes are not what was written",
        "Reading stops at the damage; nothing altered is returned.",
        "`onrecord verify` locates the damage.",
    ),
    "StoreError": (
        "The store could not do it",
        "The store cannot be opened, reached or locked, it is full, or the result of an append is unknown.",
        "Remove the cause, then resume.",
    ),
    "OnrecordError": (
        "A run stopped, failed or waits",
        "The other errors, each with a status of its own.",
        "Follow the hint that is printed.",
    ),
}
"""Title, introduction and the advice where the code gives no hint, by the base class of a section."""

PLAIN_REASONS = {
    "replay_attestation_diff": "An attestation is missing, unexpected, moved or repeated.",
    "replay_attestation_forged": "The content of an attestation does not match its digest.",
    "replay_content_diff": "The text of the answer differs.",
    "replay_cost_drift": "A cost differs.",
    "replay_counter_missing": "A counter exists on one side only.",
    "replay_effect_missing": "The record has the effect, the replay does not.",
    "replay_effect_unexpected": "The replay has the effect, the record does not.",
    "replay_end_unexpected": "The replay ended, the recorded run did not.",
    "replay_not_replayable": "The recorded value cannot be compared: only its type was recorded, or it was erased.",
    "replay_number_drift": "A number under a tolerance rule differs.",
    "replay_structure_diff": "Something that is neither text nor counter differs.",
    "replay_token_drift": "A token counter differs.",
    "replay_tool_diff": "The tool calls differ.",
}
"""Reasons that need no docstring in the code."""
REASONS = ("analysis/compare/reasons.py", "analysis/live/reasons.py")


class ErrorClass(NamedTuple):
    name: str
    bases: list[str]
    code: str
    exit_status: int | None
    hint: str


class Use(NamedTuple):
    code: str
    error: str
    message: str
    hint: str


class Helper(NamedTuple):
    """A function that makes an error; `position` is that of its parameter `code`."""

    error: str
    hint: str
    position: int


def text_of(node: ast.expr | None) -> str:
    """Return the text that an expression makes, with `…` for what is filled in."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(text_of(part) if isinstance(part, ast.Constant) else "…" for part in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return text_of(node.left) + text_of(node.right)
    if isinstance(node, ast.IfExp):
        return text_of(node.body) or text_of(node.orelse)
    return "" if node is None else "…"


def sources() -> Iterator[Path]:
    """Yield the modules that a user meets: the shipped test suites raise errors of their own."""
    return (path for path in sorted(SOURCE.rglob("*.py")) if path.relative_to(SOURCE).parts[0] != "testing")


class Reader:
    """Collects error classes first, then every place where one is made."""

    def __init__(self) -> None:
        self.trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in sources()}
        self.classes = {"OnrecordError": ErrorClass("OnrecordError", [], "onrecord_error", 70, "")}
        defined = [
            (node, constants)
            for tree in self.trees.values()
            for constants in [_constants(tree)]
            for node in ast.walk(tree)
            if isinstance(node, ast.ClassDef)
        ]
        for _ in range(3):  # a class may be read before its base
            for node, constants in defined:
                self._add_class(node, constants)
        self.uses = [use for tree in self.trees.values() for use in self._uses_in(tree)]
        self.uses += [Use(one.code, one.name, "", "") for one in self.classes.values() if one.code]

    def _add_class(self, node: ast.ClassDef, constants: dict[str, object]) -> None:
        bases = [base.id for base in node.bases if isinstance(base, ast.Name)]
        if not any(base in self.classes for base in bases):
            return
        own: dict[str, object] = {}
        for statement in node.body:
            if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
                value = statement.value
                own[statement.targets[0].id] = (
                    constants.get(value.id) if isinstance(value, ast.Name) else getattr(value, "value", None)
                )
        status = own.get("exit_status")
        self.classes[node.name] = ErrorClass(
            node.name,
            bases,
            str(own.get("code") or ""),
            status if isinstance(status, int) else None,
            str(own.get("default_hint") or ""),
        )

    def _uses_in(self, tree: ast.Module) -> Iterator[Use]:
        constants = _constants(tree)
        helpers = self._helpers(tree)
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call):
                continue
            name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
            given = {word.arg: word.value for word in node.keywords if word.arg}
            if name in self.classes:
                code = self._code(given.get("code"), constants) or (
                    self.classes[name].code if "code" not in given else ""
                )
                if code:
                    message = text_of(node.args[0]) if node.args else ""
                    yield Use(code, name, message, self._hint(given.get("hint"), constants))
            elif name in helpers:
                yield from _helper_use(node, helpers[name])

    def _code(self, node: ast.expr | None, constants: dict[str, object]) -> str:
        if isinstance(node, ast.Name):
            return str(constants.get(node.id) or "")
        found = text_of(node)
        return "" if found == "…" else found

    def _hint(self, node: ast.expr | None, constants: dict[str, object]) -> str:
        if isinstance(node, ast.Name):
            return str(constants.get(node.id) or "")
        return text_of(node)

    def _helpers(self, tree: ast.Module) -> dict[str, Helper]:
        """Return functions that pass their parameter `code` to an error, or to another such function."""
        found: dict[str, Helper] = {}
        constants = _constants(tree)
        functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
        for _ in range(2):
            for function in functions:
                names = [one.arg for one in function.args.args if one.arg != "self"]
                if "code" not in names or function.name in found:
                    continue
                for call in ast.walk(function):
                    name = getattr(call.func, "id", "") if isinstance(call, ast.Call) else ""
                    if name in found:
                        found[function.name] = found[name]._replace(position=names.index("code"))
                    elif name in self.classes:
                        given = {word.arg: word.value for word in call.keywords}  # type: ignore[attr-defined]
                        if "code" in given:
                            hint = self._hint(given.get("hint"), constants)
                            found[function.name] = Helper(name, hint, names.index("code"))
        return found

    def family(self, error: str) -> str:
        while error not in FAMILIES:
            error = next(base for base in self.classes[error].bases if base in self.classes)
        return error

    def exit_status(self, error: str) -> int:
        while self.classes[error].exit_status is None:
            error = next(base for base in self.classes[error].bases if base in self.classes)
        return self.classes[error].exit_status  # type: ignore[return-value]

    def default_hint(self, error: str) -> str:
        while not self.classes[error].hint and self.classes[error].bases:
            error = next(base for base in self.classes[error].bases if base in self.classes)
        return self.classes[error].hint


def _helper_use(node: ast.Call, helper: Helper) -> Iterator[Use]:
    given = [text_of(value) for value in node.args]
    by_name = {word.arg: text_of(word.value) for word in node.keywords}
    code = by_name.get("code") or (given[helper.position] if helper.position < len(given) else "")
    if re.fullmatch(r"[a-z][a-z0-9_]+", code):
        texts = [one for one in [*given, *by_name.values()] if one not in (code, "…", "")]
        yield Use(code, helper.error, texts[0] if texts else "", helper.hint)


def _constants(tree: ast.Module) -> dict[str, object]:
    return {
        node.targets[0].id: node.value.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and isinstance(node.value, ast.Constant)
    }


def write() -> str:
    reader = Reader()
    by_family: dict[str, dict[str, list[Use]]] = defaultdict(lambda: defaultdict(list))
    for use in reader.uses:
        by_family[reader.family(use.error)][use.code].append(use)
    lines = [INTRODUCTION]
    for family, (title, introduction, advice) in FAMILIES.items():
        lines += [
            f"## {title}",
            "",
            introduction,
            "",
            "| code | status | what happened | what to do |",
            "|---|---|---|---|",
        ]
        for code, uses in sorted(by_family[family].items()):
            lines.append(_row(reader, code, uses, advice))
        lines.append("")
    lines += ["## Findings of `verify`", "", FINDINGS, "", "| code | finding |", "|---|---|"]
    lines += [f"| `{code}` | {_cell(found)} |" for code, found in sorted(_findings(reader).items())]
    lines += ["", "## Reasons of a live replay", "", REASONS_TEXT, "", "| code | reason |", "|---|---|"]
    lines += [f"| `{code}` | {why} |" for code, why in sorted(_reasons())]
    return "\n".join(lines) + "\n"


def _row(reader: Reader, code: str, uses: list[Use], advice: str) -> str:
    statuses = sorted({reader.exit_status(use.error) for use in uses})
    hints = [use.hint for use in uses if use.hint.strip("… ")] or [
        hint for use in uses if (hint := reader.default_hint(use.error))
    ]
    messages = [use.message for use in uses]
    return f"| `{code}` | {', '.join(map(str, statuses))} | {_cell(messages)} | {_cell(hints[:2]) or advice} |"


def _cell(texts: list[str]) -> str:
    """Return the texts of a table cell: each once, the first ones only."""
    plain = [" ".join(text.split()).rstrip(".") for text in texts]
    kept = list(dict.fromkeys(text for text in plain if re.search(r"[a-z] ", text)))
    more = "; …" if len(kept) > SHOWN_MESSAGES else ""
    return "; ".join(kept[:SHOWN_MESSAGES]).replace("|", "\\|").replace("<", "&lt;").replace("__", "\\_\\_") + more


def _findings(reader: Reader) -> dict[str, list[str]]:
    """Return the problems that a verification reports, by code."""
    found: dict[str, list[str]] = defaultdict(list)
    for path, tree in reader.trees.items():
        if path.parent.name not in ("journal", "receipts", "evidence"):
            continue
        for node in ast.walk(tree):
            name = getattr(node.func, "attr", getattr(node.func, "id", "")) if isinstance(node, ast.Call) else ""
            if name not in ("problem", "Problem", "FlawError", "BundleProblem", "ChainProblem", "_problem", "_fail"):
                continue
            texts = [text_of(one) for one in [*node.args, *(word.value for word in node.keywords)]]  # type: ignore[attr-defined]
            codes = [one for one in texts if re.fullmatch(r"[a-z]+(?:_[a-z0-9]+)+", one)]
            if codes:
                found[codes[0]] += [one for one in texts if one != codes[0] and " " in one]
    return found


def _reasons() -> Iterator[tuple[str, str]]:
    for path in REASONS:
        source = (SOURCE / path).read_text(encoding="utf-8")
        tree = ast.parse(source)
        for node, following in zip(tree.body, [*tree.body[1:], None], strict=True):
            if isinstance(node, ast.Assign) and text_of(node.value).startswith("replay_"):
                said = following.value if isinstance(following, ast.Expr) else None
                code = text_of(node.value)
                yield code, " ".join(text_of(said).split()) or PLAIN_REASONS[code]


INTRODUCTION = """# Errors

`make reference` writes this page from the code.

An error has a stable `code`, a message that says what happened and where, and a hint that says what
to do. The command line prints message and hint in two lines and ends with the status below. With
`--json` it prints `{"error": {"code", "message", "hint"}}`; the HTTP interface answers the same. A
message never holds a recorded value. In Python every error derives from `onrecord.OnrecordError`
and has the attributes `code`, `message`, `hint` and `exit_status`.

A value that is filled in is shown as `…`. `run` and `resume` pass the program's own status through
and end with 125 when Onrecord itself fails. [The command line](cli.md#exit-status) lists the
statuses.
"""
FINDINGS = """`onrecord verify`, `receipt verify` and `evidence check` report findings by code and position. A
finding ends the command with status 4."""
REASONS_TEXT = """A live replay compares each step with the record. A step that differs has one of these reasons.
The command ends with 1 when a step is broken, with 7 when a step cannot be replayed."""


if __name__ == "__main__":
    FILE.write_text(write(), encoding="utf-8")
    sys.stdout.write(f"{FILE.name}: {len(FILE.read_text(encoding='utf-8').splitlines())} lines\n")
