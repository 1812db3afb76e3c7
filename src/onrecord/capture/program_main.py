"""Process that runs a program: records, resumes or replays it.

The task is in one environment variable, which is removed before the program starts: its children get their own. The
program keeps its own input, output and exit code.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any, NoReturn

import msgspec

from onrecord.capture.install import install_interceptors
from onrecord.capture.network_namespace import leave_network
from onrecord.capture.processes import exits, process_run
from onrecord.capture.processes.process_run import ProcessRun
from onrecord.capture.processes.session import Session
from onrecord.capture.program_agent import ProgramAgent
from onrecord.capture.program_task import VARIABLE, ProgramTask
from onrecord.capture.program_verdict import ProgramVerdict
from onrecord.capture.unrecorded import guard
from onrecord.errors import OnrecordError
from onrecord.runtime.engine import boundary
from onrecord.runtime.replay import sandbox
from onrecord.runtime.replay.divergence import record_ended

INTERRUPTED = 130


def main() -> NoReturn:
    text = os.environ.pop(VARIABLE, None)
    if text is None:
        sys.exit("this module is started by `onrecord run`")
    task = msgspec.json.decode(text.encode(), type=ProgramTask)
    status = _run_task(task)
    exits.forget_uncaught()
    if status < 0:
        _end_by_signal(-status)
    sys.exit(status)


def _run_task(task: ProgramTask) -> int:
    isolated = task.mode == "replay" and (task.store or "").startswith("sqlite") and leave_network()
    agent = ProgramAgent(task.program, instead=task.instead, store=task.store, namespace=task.namespace)
    agent.replaying = task.replaying
    session = Session(isolated=isolated)
    verdict = ProgramVerdict(task, agent, session)
    current = ProcessRun(None, session, mode=task.mode, strict=task.strict, name=agent.name)
    current.conclude = verdict.conclude
    process_run.set_current(current)
    exits.install()
    if task.mode == "replay":
        sandbox.set_traps()  # before the interceptors, which start recorded processes below them
    install_interceptors()
    if task.mode == "replay":
        verdict.watch()
        boundary.strict_outside = True  # effects outside any run are refused, too
    else:
        guard.watch()
    code, problem = 0, None
    try:
        result = _run_agent(agent, task)
        code = int(result["exit"])
    except KeyboardInterrupt:
        problem = _find_record_end(agent) if task.mode == "replay" else None
        if problem is None:
            verdict.print_lines(f"run {task.run} was interrupted", f"Resume it: onrecord resume {task.run}")
            current.is_over = True
            session.end()
            return INTERRUPTED
    except OnrecordError as stopped:
        problem = stopped
    except Exception as error:
        exits.print_uncaught(error)
        code = 1
    current.is_over = True
    current.note_unrecorded()
    if agent.live is not None:
        agent.live.failure = None  # its traceback keeps the program's objects alive
    return verdict.conclude(code, problem)


def _find_record_end(agent: ProgramAgent) -> OnrecordError | None:
    """Return the stop for a replay that was interrupted where its record ends: nothing is left to compare."""
    live = agent.live
    if live is None or live.history is None or live.history.is_whole:
        return None
    with live.lock:
        return record_ended(live) if live.kernel.history.first_unmade() is None else None


def _run_agent(agent: ProgramAgent, task: ProgramTask) -> Any:
    if task.mode == "replay":
        return agent.replay(task.run, store=task.store)
    if task.mode == "resume":
        return agent.resume(task.run, store=task.store)
    return agent.run(task.program.to_fact(), run_id=task.run, store=task.store)


def _end_by_signal(number: int) -> None:
    """End this process by the signal that ended the command."""
    if number != signal.SIGKILL:
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
