"""`python -m reenact.capture.entry`: the process that runs a program, recorded, resumed or replayed.

It is told what to do by one variable of the environment, which it takes away: children of the program are told their
own. The program's output, input and exit code are its own.
"""

from __future__ import annotations

import os
import sys
import traceback
from typing import Any, NoReturn

import msgspec

from reenact.capture.guard import Unseen, guard
from reenact.capture.programs import ProgramAgent
from reenact.capture.summing_up import Stopwatch, Summary
from reenact.capture.terms import VARIABLE, Task
from reenact.effect.stopping import RecordEnded
from reenact.errors import ReenactError

FAILED_ITSELF = 125
STANDS = 6
INTERRUPTED = 130


def main() -> NoReturn:
    told = os.environ.pop(VARIABLE, None)
    if told is None:
        sys.exit("this is started by `reenact run`")
    task = msgspec.json.decode(told.encode(), type=Task)
    sys.exit(_carried(task))


def _carried(task: Task) -> int:
    agent = ProgramAgent(task.program, store=task.store, namespace=task.namespace)
    watch = Stopwatch()
    if task.mode != "replay":
        guard.watch(strict=task.strict)
    try:
        result = _result(agent, task)
        code = int(result["exit"])
        if "said" in result:
            print(result["said"], file=sys.stderr)
    except KeyboardInterrupt:
        _say(task, f"run {task.run} was interrupted", f"Go on: reenact resume {task.run}")
        return INTERRUPTED
    except RecordEnded as ended:
        _say(task, ended.message)
        return 0
    except ReenactError as stopped:
        _say(task, f"error: {stopped.message} [{stopped.code}]", stopped.hint)
        return _status(task, stopped)
    except Exception as error:
        _print_as_python_does(error)
        code = 1
    summary = watch.summary(agent, task.run, task.store)
    if task.mode != "replay":
        _say(task, summary.line)
        return code
    return _verdict(task, summary)


def _status(task: Task, stopped: ReenactError) -> int:
    """A replay reports the check; of a program that goes on, only what is no fault of ours is told apart."""
    if task.mode == "replay" or isinstance(stopped, Unseen):
        return stopped.exit_status
    return STANDS if stopped.exit_status in (1, STANDS) else FAILED_ITSELF


def _verdict(task: Task, summary: Summary) -> int:
    """A replay that comes here has done what the record says. Nothing of nothing is not a pass."""
    if not summary.effects and not summary.has_draws:
        _say(task, f"error: run {task.run} has nothing in it that a replay could compare [nothing_to_replay]")
        return 1
    _say(task, f"replayed {task.run}: the same in all {summary.events:,} events")
    return 0


def _result(agent: ProgramAgent, task: Task) -> Any:
    if task.mode == "replay":
        return agent.replay(task.run, store=task.store)
    if task.mode == "resume":
        return agent.resume(task.run, store=task.store)
    return agent.run(msgspec.to_builtins(task.program), run_id=task.run, store=task.store)


def _say(task: Task, *lines: str) -> None:
    if not task.quiet:
        for line in lines:
            if line:
                print(line, file=sys.stderr)


def _print_as_python_does(error: Exception) -> None:
    """The traceback begins with the program's own line."""
    ours = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(ours):
        trace = trace.tb_next
    traceback.print_exception(type(error), error, trace)


if __name__ == "__main__":
    main()
