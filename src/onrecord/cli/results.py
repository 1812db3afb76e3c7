"""Print how `run`, `resume` and `replay` end: the agent's result on stdout, an error in two lines on stderr.

0    the agent returned
1    the agent failed, or the run was cancelled
6    the run has not ended: blocked, waiting, in doubt, diverged, held by another process; the hint says how to resume
125  Onrecord itself failed
130, 143  interrupted, terminated: the run is suspended; the hint says how to resume
"""

from __future__ import annotations

import shlex
import signal
from typing import TYPE_CHECKING, Any

from onrecord.cli.error_exit import complaint_of
from onrecord.cli.render.output import json_text, on_terminal, say, say_json, value_lines
from onrecord.cli.render.text import brief, fit, inert
from onrecord.errors import InvalidInput, InvalidValue, NotFound, OnrecordError, Refused, StoreError

if TYPE_CHECKING:  # loaded when a command runs
    from onrecord.cli.settings import Settings
    from onrecord.cli.suspend import RunSuspended
    from onrecord.store.contract import Store

AGENT_FAILED = 1
NOT_ENDED = 6
OWN_FAILURE = 125
SHOWN_ERROR_CHARACTERS = 500
_CAUSED_BY_REQUEST = (InvalidInput, NotFound, Refused)


class AgentFailed(OnrecordError):
    code = "agent_failed"
    exit_status = AGENT_FAILED


class RunNotEnded(OnrecordError):
    """Report that a run has not ended. The hint says how to resume it."""

    exit_status = NOT_ENDED


def command_for(settings: Settings, verb: str, run: str, *rest: str) -> str:
    """Return the command line of a verb for this run. A store URL that may hold a password is left out."""
    words = ["onrecord", verb, run, *rest]
    if settings.store and "@" not in settings.store:
        words += ["--store", settings.store]
    if settings.namespace != "default":
        words += ["--namespace", settings.namespace]
    return " ".join(shlex.quote(word) for word in words)


def say_result(settings: Settings, run: str, tree: Any) -> None:
    """Print a result in its encoded form, which exists for every value."""
    if settings.json:
        say_json({"run": run, "status": "completed", "result": tree})
    elif isinstance(tree, str):
        # A pipe gets the text unchanged; a terminal gets it without control characters.
        say("\n".join(map(inert, tree.split("\n"))) if on_terminal() else tree)
    elif isinstance(tree, dict | list):
        for line in value_lines(tree):
            say(line)
    elif tree is not None:
        say(json_text(tree))


def agent_failed(settings: Settings, run: str, error: BaseException | str) -> AgentFailed:
    """Return an `AgentFailed` that shows the agent's own error on one line, as Python does."""
    text = error if isinstance(error, str) else _error_text(error)
    failed = AgentFailed(
        f"the agent failed: {fit(inert(text), SHOWN_ERROR_CHARACTERS)}",
        hint=f"See what it did: {command_for(settings, 'show', run)}",
    )
    if isinstance(error, BaseException):
        failed.__cause__ = error
    return failed


def _error_text(error: BaseException) -> str:
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:  # the agent's own `__str__`
        return type(error).__name__


def run_cancelled(settings: Settings, run: str) -> AgentFailed:
    hint = f"See what it did: {command_for(settings, 'show', run)}"
    return AgentFailed(f"run {run} was cancelled", hint=hint, code="cancelled")


def explain_stop(settings: Settings, run: str, reason: OnrecordError) -> OnrecordError:
    """Return the error that stopped a run, with a hint that names the command to continue."""
    from onrecord.runtime.engine.stops import (
        CodeChanged,
        Divergence,
        InDoubt,
        NotCarriedOut,
        NotReplayable,
        Superseded,
        Suspended,
    )
    from onrecord.runtime.replay.in_doubt import settling_hint

    if isinstance(reason, InDoubt):
        settle = command_for(settings, "settle", reason.run or run, "--effect", str(reason.seq))
        hint = f"{settling_hint(settle)} Then: {command_for(settings, 'resume', run)}"
        return RunNotEnded(reason.message, hint=hint, code=reason.code)
    if isinstance(reason, Divergence):
        again = command_for(settings, "resume", run)
        accept = command_for(settings, "resume", run, "--accept-code")
        hint = f"Nothing was executed. Restore the recorded code, then: {again}; or accept the new code: {accept}"
        return RunNotEnded(reason.message, hint=hint, code=reason.code)
    if isinstance(reason, Suspended):
        return RunNotEnded(reason.message, hint=f"Go on: {command_for(settings, 'resume', run)}", code=reason.code)
    if isinstance(reason, (CodeChanged, NotCarriedOut, Superseded)) or reason.code == "class_missing":
        return RunNotEnded(reason.message, hint=reason.hint, code=reason.code)
    if isinstance(reason, NotReplayable):
        fork = command_for(settings, "fork", run, "--event", str(reason.seq)) if reason.seq else ""
        answer_it = f"; or fork the run and give the answer: {fork} --answer null" if fork else ""
        return RunNotEnded(reason.message, hint=f"Change the code to return data{answer_it}", code=reason.code)
    if isinstance(reason, InvalidValue):
        go_on = command_for(settings, "resume", run)
        hint = f"The value was not written. Change the code to pass plain data there, then: {go_on}"
        return RunNotEnded(reason.message, hint=hint, code=reason.code)
    if isinstance(reason, StoreError):
        complaint = complaint_of(reason)
        hint = f"{complaint.hint} Then: {command_for(settings, 'resume', run)}"
        return type(reason)(reason.message, hint=hint, code=reason.code)
    return reason


def explain_exit(settings: Settings, run: str, exiting: SystemExit) -> RunNotEnded:
    """Return the error for an agent that ended the process: its run has no end, and can be resumed."""
    error = RunNotEnded(
        f"run {run} was suspended: its code ended the process ({brief(exiting.code, 80)})",
        hint=f"An agent ends its run by returning or raising an error. Go on: {command_for(settings, 'resume', run)}",
        code="suspended",
    )
    if isinstance(exiting.code, int) and exiting.code:  # 0 would mean that the run has ended
        error.exit_status = exiting.code
    return error


def explain_suspension(settings: Settings, store: Store, run: str, reason: RunSuspended) -> OnrecordError:
    if store.run_row(settings.namespace, run) is None:
        error = OnrecordError("interrupted before the run began", hint="Nothing was recorded.", code="interrupted")
        error.exit_status = 128 + reason.number
        return error
    go_on = command_for(settings, "resume", run)
    if reason.standing is not None:
        return _explain_wait(settings, store, run, reason.standing.status, reason.standing.about)
    word = "interrupted" if reason.number == signal.SIGINT else "terminated"
    error = RunNotEnded(f"run {run} was suspended: this process was {word}", hint=f"Go on: {go_on}", code="suspended")
    error.exit_status = 128 + reason.number
    return error


def _explain_wait(settings: Settings, store: Store, run: str, status: str, about: tuple[str, ...]) -> RunNotEnded:
    from onrecord.reports.status import with_called_runs
    from onrecord.runtime.waits.listed_waits import load_waits

    if status == "blocked":
        decide = command_for(settings, "resume", run, "--decision", '"yes"')
        return RunNotEnded(f"run {run} is blocked: it needs a decision", hint=f"Decide: {decide}", code="blocked")
    names = fit(inert(", ".join(about)), 80)
    runs = with_called_runs(store, settings.namespace, run)
    waits = [(one, wait) for one in runs for wait in load_waits(store, one, settings.namespace) if wait.state == "open"]
    waiting, which = (waits[0][0], ("--wait", waits[0][1].name)) if waits else (run, ())
    resolve = command_for(settings, "resolve", "--run", waiting, *which, "--value", "true")
    hint = f"Resolve it by its wait key, or here: {resolve}; then: {command_for(settings, 'resume', run)}"
    return RunNotEnded(f"run {run} waits for {names}", hint=hint, code="waiting")


def mark_own_failure(error: Exception) -> OnrecordError:
    """Return an error with status 125, unless the agent or the user's request caused it: then return it unchanged."""
    if isinstance(error, (AgentFailed, RunNotEnded)) or (isinstance(error, OnrecordError) and error.exit_status == 1):
        return error
    if isinstance(error, _CAUSED_BY_REQUEST):
        return error
    complaint = complaint_of(error)
    failure = OnrecordError(complaint.message, hint=complaint.hint, code=complaint.code)
    failure.exit_status = OWN_FAILURE
    failure.__cause__ = error
    return failure


def format_recorded_error(tree: Any) -> str:
    """Return a recorded error on one line, without restoring the exception."""
    members = tree.get("$error") if isinstance(tree, dict) else None
    if not isinstance(members, dict):
        return brief(tree, SHOWN_ERROR_CHARACTERS)
    kind = str(members.get("type", "")).rpartition(".")[2].rpartition(":")[2]
    return f"{kind}: {members.get('message', '')}"
