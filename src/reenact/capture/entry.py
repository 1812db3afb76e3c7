"""`python -m reenact.capture.entry`: the process that runs a program, recorded, resumed or replayed.

It is told what to do by one variable of the environment, which it takes away: children of the program are told their
own. The program's output, input and exit code are its own.
"""

from __future__ import annotations

import os
import sys
import traceback
from typing import Any, Literal, NoReturn

import msgspec

from reenact.capture.programs import Program, ProgramAgent

VARIABLE = "REENACT_CAPTURE"
FAILED_ITSELF = 125
INTERRUPTED = 130


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """What the process is to do."""

    program: Program
    run: str
    mode: Literal["record", "resume", "replay"]
    store: str | None = None
    namespace: str = "default"
    strict: bool = False
    quiet: bool = False

    def to_environment(self) -> dict[str, str]:
        made = {VARIABLE: msgspec.json.encode(self).decode()}
        if self.program.hash_seed is not None:
            made["PYTHONHASHSEED"] = str(self.program.hash_seed)
        return made


def main() -> NoReturn:
    told = os.environ.pop(VARIABLE, None)
    if told is None:
        sys.exit("this is started by `reenact run`")
    task = msgspec.json.decode(told.encode(), type=Task)
    sys.exit(_carried(task))


def _carried(task: Task) -> int:
    from reenact.errors import ReenactError

    agent = ProgramAgent(task.program, store=task.store, namespace=task.namespace)
    try:
        result = _result(agent, task)
    except KeyboardInterrupt:
        _say(task, f"run {task.run} was interrupted", f"Go on: reenact resume {task.run}")
        return INTERRUPTED
    except ReenactError as stopped:
        _say(task, f"error: {stopped.message} [{stopped.code}]", stopped.hint)
        return stopped.exit_status if task.mode == "replay" else FAILED_ITSELF
    except Exception as error:
        _print_as_python_does(error)
        return 1
    if "said" in result:
        print(result["said"], file=sys.stderr)
    return int(result["exit"])


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
