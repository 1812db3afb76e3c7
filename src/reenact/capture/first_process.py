"""The process that runs a program, recorded, resumed or replayed.

It is told what to do by one variable of the environment, which it takes away: children of the program are told their
own. The program's output, input and exit code are its own.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any, NoReturn

import msgspec

from reenact.capture.concluding import Conclusion
from reenact.capture.guard import guard
from reenact.capture.isolation import leave_the_network
from reenact.capture.processes import ending, own_run
from reenact.capture.processes.own_run import OwnRun
from reenact.capture.processes.session import Session
from reenact.capture.programs import ProgramAgent
from reenact.capture.terms import VARIABLE, Task
from reenact.effect import boundary
from reenact.effect.divergences import beyond_the_record
from reenact.errors import ReenactError

INTERRUPTED = 130


def main() -> NoReturn:
    told = os.environ.pop(VARIABLE, None)
    if told is None:
        sys.exit("this is started by `reenact run`")
    task = msgspec.json.decode(told.encode(), type=Task)
    status = _carried(task)
    ending.forget_uncaught()
    if status < 0:
        _end_by_signal(-status)
    sys.exit(status)


def _carried(task: Task) -> int:
    isolated = task.mode == "replay" and (task.store or "").startswith("sqlite") and leave_the_network()
    agent = ProgramAgent(task.program, instead=task.instead, store=task.store, namespace=task.namespace)
    agent.replaying = task.replaying
    session = Session(isolated=isolated)
    conclusion = Conclusion(task, agent, session)
    own = OwnRun(None, session, mode=task.mode, strict=task.strict, name=agent.name)
    own.conclude = conclusion.said
    own_run.set_own(own)
    ending.install()
    if task.mode == "replay":
        conclusion.watch()
        boundary.strict_outside = True  # whatever is in no run at all is not done either
    else:
        guard.watch(strict=task.strict)
    code, problem = 0, None
    try:
        result = _result(agent, task)
        code = int(result["exit"])
    except KeyboardInterrupt:
        problem = _where_the_record_ends(agent) if task.mode == "replay" else None
        if problem is None:
            conclusion.say(f"run {task.run} was interrupted", f"Go on: reenact resume {task.run}")
            own.is_over = True
            session.end()
            return INTERRUPTED
    except ReenactError as stopped:
        problem = stopped
    except Exception as error:
        ending.tell_uncaught(error)
        code = 1
    own.is_over = True
    own.note_unseen()
    return conclusion.said(code, problem)


def _where_the_record_ends(agent: ProgramAgent) -> ReenactError | None:
    """A replay that is interrupted where its record was: there is nothing left that it could be compared with."""
    return None if agent.live is None or agent.live.past is None else beyond_the_record(agent.live)


def _result(agent: ProgramAgent, task: Task) -> Any:
    if task.mode == "replay":
        return agent.replay(task.run, store=task.store)
    if task.mode == "resume":
        return agent.resume(task.run, store=task.store)
    return agent.run(msgspec.to_builtins(task.program), run_id=task.run, store=task.store)


def _end_by_signal(number: int) -> None:
    """As the command ended, so does this process."""
    if number != signal.SIGKILL:
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
