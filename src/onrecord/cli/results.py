"""What `run`, `resume` and `replay` say at the end: the agent's result on stdout, whatever went wrong in two lines.

0    the agent returned
1    the agent failed, or the run was cancelled
6    the run stands: blocked, waiting, in doubt, diverged, held by another process; the second line says how it goes on
125  Reenact itself failed
130, 143  interrupted, terminated: suspended, the second line says how it goes on
"""

from __future__ import annotations

import shlex
import signal
from typing import TYPE_CHECKING, Any

from reenact.cli.output import json_text, on_terminal, say, say_json, value_lines
from reenact.cli.problems import complaint_of
from reenact.cli.text import brief, fit, inert
from reenact.errors import InvalidInput, InvalidValue, NotFound, ReenactError, Refused, StoreError

if TYPE_CHECKING:  # loaded when a command runs
    from reenact.cli.carrying import SuspendedHere
    from reenact.cli.settings import Settings
    from reenact.store.contract import Store

AGENT_FAILED = 1
STANDS = 6
OWN_FAILURE = 125
SHOWN_ERROR_CHARACTERS = 500
_ABOUT_THE_REQUEST = (InvalidInput, NotFound, Refused)


class AgentFailed(ReenactError):
    code = "agent_failed"
    exit_status = AGENT_FAILED


class RunStands(ReenactError):
    """It has not ended; the hint says how it goes on."""

    exit_status = STANDS


def command_for(settings: Settings, verb: str, run: str, *rest: str) -> str:
    """The command that does it, ready to be typed. A store's password is not shown."""
    words = ["reenact", verb, run, *rest]
    if settings.store and "@" not in settings.store:
        words += ["--store", settings.store]
    if settings.namespace != "default":
        words += ["--namespace", settings.namespace]
    return " ".join(shlex.quote(word) for word in words)


def say_result(settings: Settings, run: str, tree: Any) -> None:
    """The result as it was recorded: encoded, so that whatever it is can be shown."""
    if settings.json:
        say_json({"run": run, "status": "completed", "result": tree})
    elif isinstance(tree, str):
        # Whoever pipes a text gets that text; on a terminal nothing in it acts.
        say("\n".join(map(inert, tree.split("\n"))) if on_terminal() else tree)
    elif isinstance(tree, dict | list):
        for line in value_lines(tree):
            say(line)
    elif tree is not None:
        say(json_text(tree))


def agent_failed(settings: Settings, run: str, error: BaseException | str) -> AgentFailed:
    """The agent's own error, as Python would show it, on one line."""
    what = error if isinstance(error, str) else _error_text(error)
    failed = AgentFailed(
        f"the agent failed: {fit(inert(what), SHOWN_ERROR_CHARACTERS)}",
        hint=f"What it did until then: {command_for(settings, 'show', run)}",
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
    hint = f"What it did until then: {command_for(settings, 'show', run)}"
    return AgentFailed(f"run {run} was cancelled", hint=hint, code="cancelled")


def stopped(settings: Settings, run: str, reason: ReenactError) -> ReenactError:
    """Why a run could not go on, with the command that lets it."""
    from reenact.effect.stopping import (
        CodeChanged,
        Divergence,
        InDoubt,
        NotCarriedOut,
        NotReplayable,
        Superseded,
        Suspended,
    )

    if isinstance(reason, InDoubt):
        settle = command_for(settings, "settle", reason.run or run, "--effect", str(reason.seq))
        go_on = "resume it." if reason.run in ("", run) else command_for(settings, "resume", run)
        return RunStands(
            reason.message,
            hint=f"Find out, then: {settle} --done JSON | --retry | --fail MESSAGE; then {go_on}",
            code=reason.code,
        )
    if isinstance(reason, Divergence):
        again = command_for(settings, "resume", run)
        hint = f"Nothing was done. Put the recorded code back, then: {again}; or go on with this one: --accept-code"
        return RunStands(reason.message, hint=hint, code=reason.code)
    if isinstance(reason, Suspended):
        return RunStands(reason.message, hint=f"Go on: {command_for(settings, 'resume', run)}", code=reason.code)
    if isinstance(reason, (CodeChanged, NotCarriedOut, Superseded)):
        return RunStands(reason.message, hint=reason.hint, code=reason.code)
    if isinstance(reason, NotReplayable):
        other = command_for(settings, "fork", run, "--event", str(reason.seq)) if reason.seq else ""
        go_on = f"; the run goes on as a fork that is told what it was: {other} --answer JSON" if other else ""
        return RunStands(reason.message, hint=f"Let it return data{go_on}", code=reason.code)
    if isinstance(reason, InvalidValue):
        go_on = command_for(settings, "resume", run)
        hint = f"Nothing of it was written. Change what the code hands over there, then: {go_on}"
        return RunStands(reason.message, hint=hint, code=reason.code)
    if isinstance(reason, StoreError):
        complaint = complaint_of(reason)
        hint = f"{complaint.hint} Then: {command_for(settings, 'resume', run)}"
        return type(reason)(reason.message, hint=hint, code=reason.code)
    return reason


def left_by_agent(settings: Settings, run: str, left: SystemExit) -> RunStands:
    """The agent's code has ended the process, with that status: its run has no end, and goes on like any other."""
    stands = RunStands(
        f"run {run} was suspended: its code ended the process ({brief(left.code, 80)})",
        hint=f"An agent ends its run by returning or raising an error. Go on: {command_for(settings, 'resume', run)}",
        code="suspended",
    )
    if isinstance(left.code, int) and left.code:  # but for 0, which would say that the run has ended
        stands.exit_status = left.code
    return stands


def suspended(settings: Settings, store: Store, run: str, reason: SuspendedHere) -> ReenactError:
    if store.run_row(settings.namespace, run) is None:
        error = ReenactError("interrupted before the run began", hint="Nothing was recorded.", code="interrupted")
        error.exit_status = 128 + reason.number
        return error
    go_on = command_for(settings, "resume", run)
    if reason.standing is not None:
        return _stands(settings, run, reason.standing.status, reason.standing.about)
    word = "interrupted" if reason.number == signal.SIGINT else "terminated"
    error = RunStands(f"run {run} was suspended: this process was {word}", hint=f"Go on: {go_on}", code="suspended")
    error.exit_status = 128 + reason.number
    return error


def _stands(settings: Settings, run: str, status: str, about: tuple[str, ...]) -> RunStands:
    if status == "blocked":
        go_on = command_for(settings, "resume", run, "--decision")
        return RunStands(f"run {run} is blocked: it needs a decision", hint=f"Decide: {go_on} JSON", code="blocked")
    names = fit(inert(", ".join(about)), 80)
    go_on = command_for(settings, "resume", run)
    return RunStands(f"run {run} waits for {names}", hint=f"Resolve it by its key, then: {go_on}", code="waiting")


def own_failure(error: Exception) -> ReenactError:
    """Whatever is neither the agent's nor the user's doing ends with 125."""
    if isinstance(error, (AgentFailed, RunStands)) or (isinstance(error, ReenactError) and error.exit_status == 1):
        return error
    if isinstance(error, _ABOUT_THE_REQUEST):
        return error
    complaint = complaint_of(error)
    failure = ReenactError(complaint.message, hint=complaint.hint, code=complaint.code)
    failure.exit_status = OWN_FAILURE
    failure.__cause__ = error
    return failure


def recorded_error(tree: Any) -> str:
    """A recorded error in a line, without building it."""
    members = tree.get("$error") if isinstance(tree, dict) else None
    if not isinstance(members, dict):
        return brief(tree, SHOWN_ERROR_CHARACTERS)
    kind = str(members.get("type", "")).rpartition(".")[2].rpartition(":")[2]
    return f"{kind}: {members.get('message', '')}"
