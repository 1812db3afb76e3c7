"""One program of one framework: record it, replay it, kill and resume it, and change a prompt of a parallel tool."""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import socket
import subprocess
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from frameworks.server import ModelServer

PROGRAMS = Path(__file__).parent / "programs"
TIME_LIMIT_SECONDS = 120
LATE_SECONDS = 0.1
"""A kill comes up to so long after a request."""
IN_DOUBT = 6
WORD, OTHER_WORD = "noon", "dusk"


@dataclass(frozen=True)
class Done:
    """A process that has ended."""

    status: int
    output: str
    problems: str
    requests: int
    """How many requests came to the server meanwhile."""

    def __str__(self) -> str:
        return f"status {self.status}, {self.requests} requests\n{self.output}\n{self.problems}"


class ToolServer:
    """The MCP server of the programs, over HTTP."""

    def __init__(self, python: Path, folder: Path, model_url: str) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}/mcp"
        environment = {**os.environ, "FRAMEWORKS_URL": model_url}
        command = [str(python), "mcp_server.py", str(port)]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self._process = subprocess.Popen(command, cwd=folder, env=environment, **quiet)
        until = time.monotonic() + TIME_LIMIT_SECONDS
        while time.monotonic() < until and self._process.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                return
            except ConnectionRefusedError:
                time.sleep(0.05)
        self.stop()
        raise RuntimeError("the MCP server does not start")

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()


class Trial:
    """A folder with a copy of the programs and a store of its own."""

    def __init__(self, program: str, commands: Path, folder: Path, server: ModelServer) -> None:
        """Use the commands `onrecord` and `python` of a folder."""
        self.program = program
        self.folder = folder
        self._commands = commands
        self._server = server
        self._runs = 0
        self._tool_server: ToolServer | None = None
        shutil.copytree(PROGRAMS, folder, ignore=shutil.ignore_patterns("__pycache__"))

    def __enter__(self) -> Trial:
        if self.program == "mcp_http":
            self._tool_server = ToolServer(self._commands / "python", self.folder, self._server.url)
        return self

    def __exit__(self, *_: object) -> None:
        if self._tool_server is not None:
            self._tool_server.stop()

    def record(self) -> tuple[str, Done]:
        run = self._new_run()
        return run, self._call("run", "--run-id", run, f"{self.program}.py")

    def replay(self, run: str) -> Done:
        return self._call("replay", run)

    def resume(self, run: str) -> tuple[Done, int]:
        """Resume a run to its end. Effects in doubt are executed again; return how many there were."""
        resumed = self._call("resume", run)
        if resumed.status != IN_DOUBT:
            return resumed, 0
        settled = self._call("settle", run, "--retry")
        if settled.status == 0:
            return self._call("resume", run), 1
        effects = re.findall(r"\d+", settled.problems.partition("in doubt at seq ")[2].partition("[")[0])
        for effect in effects:
            self._call("settle", run, "--effect", effect, "--retry")
        return self._call("resume", run), len(effects)

    def kill(self, after_requests: int, late_seconds: float) -> tuple[str, Done]:
        """Record a run, and kill it a moment after a request. A run that ended before has status 0."""
        run = self._new_run()
        return run, self._call("run", "--run-id", run, f"{self.program}.py", dies=(after_requests, late_seconds))

    def replay_changed(self, run: str) -> Done:
        """Replay a run with another word in the prompt of a tool."""
        task = self.folder / "task.py"
        task.write_text(task.read_text().replace(WORD, OTHER_WORD))
        changed = self.replay(run)
        task.write_text(task.read_text().replace(OTHER_WORD, WORD))
        return changed

    def _new_run(self) -> str:
        self._runs += 1
        return f"run-{self._runs}"

    def _call(self, *arguments: str, dies: tuple[int, float] | None = None) -> Done:
        before = self._server.requests
        self._server.refused.clear()
        process = subprocess.Popen(
            [str(self._commands / "onrecord"), *arguments],
            cwd=self.folder,
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

        def end_all() -> None:
            os.killpg(process.pid, signal.SIGKILL)

        def count(number: int) -> None:
            if dies and number - before == dies[0]:
                threading.Timer(dies[1], process.kill).start()

        self._server.on_request = count
        limit = threading.Timer(TIME_LIMIT_SECONDS, end_all)
        limit.start()
        try:
            output, problems = process.communicate()
        finally:
            limit.cancel()
            self._server.on_request = lambda number: None
        return Done(process.returncode, output, problems, self._server.requests - before)

    def _environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("ONRECORD_")}
        tools = {} if self._tool_server is None else {"FRAMEWORKS_MCP_URL": self._tool_server.url}
        return {
            **kept,
            **tools,
            "FRAMEWORKS_URL": self._server.url,
            "ONRECORD_STORE": str(self.folder / "onrecord.db"),
            "ONRECORD_KEY_FILE": str(self.folder / "keys.json"),
            "HOME": str(self.folder),
            "NO_COLOR": "1",
            "COLUMNS": "200",
            "OPENAI_API_KEY": "none",
            "OPENAI_BASE_URL": f"{self._server.url}/v1",
            "CREWAI_DISABLE_TELEMETRY": "true",
            "OTEL_SDK_DISABLED": "true",
            "DO_NOT_TRACK": "1",
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        }


@dataclass
class Figures:
    """The result of a trial. `problems` holds the text of everything that went wrong."""

    requests: int
    replays: int
    same: int
    kills: int
    resumed: int
    settled: int
    """Effects in doubt, which were executed again by order."""
    change_is_reported: bool
    problems: list[str]


def measure(trial: Trial, recordings: int, replays: int, kills: int) -> Figures:
    """Record, replay, kill, resume and change a program; each recording has other latencies."""
    figures = Figures(0, 0, 0, 0, 0, 0, False, [])
    run = ""
    for _ in range(recordings):
        run, recorded = trial.record()
        if recorded.status or not recorded.output:
            figures.problems.append(f"recording: {recorded}")
            return figures
        figures.requests = recorded.requests
        for _ in range(replays // recordings):
            figures.replays += 1
            figures.same += _replay(trial, run, recorded, "replay", figures)
    _change(trial, run, figures)
    while figures.kills < kills:
        _kill(trial, figures)
    return figures


def is_same(replayed: Done, recorded: Done) -> bool:
    """Return True if a replay printed what was recorded, and made no request."""
    return (replayed.status, replayed.requests) == (0, 0) and recorded.output in replayed.output


def names_both_words(changed: Done) -> bool:
    """Return True if a replay of the changed program stopped, and its report has the old and the new word."""
    report = changed.output + changed.problems
    return (changed.status, changed.requests) == (1, 0) and WORD in report and OTHER_WORD in report


def _replay(trial: Trial, run: str, recorded: Done, what: str, figures: Figures) -> bool:
    replayed = trial.replay(run)
    if not is_same(replayed, recorded):
        figures.problems.append(f"{what}: {replayed}\nrecorded: {recorded}")
        return False
    return True


def _kill(trial: Trial, figures: Figures) -> None:
    after = random.randint(1, figures.requests)
    run, killed = trial.kill(after, random.random() * LATE_SECONDS)
    if killed.status == 0:
        return
    resumed, settled = trial.resume(run)
    if "has ended" in resumed.problems:
        return  # the kill came after the end
    figures.kills += 1
    figures.settled += settled
    if resumed.status or not resumed.output:
        figures.problems.append(f"resume after request {after}: {resumed}\nkilled: {killed}")
        return
    figures.resumed += _replay(trial, run, resumed, f"replay of a resume after request {after}", figures)


def _change(trial: Trial, run: str, figures: Figures) -> None:
    changed = trial.replay_changed(run)
    figures.change_is_reported = names_both_words(changed)
    if not figures.change_is_reported:
        figures.problems.append(f"change: {changed}")
