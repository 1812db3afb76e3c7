"""One situation and one recorder: a folder, a server, and the program in processes of its own."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from situations.server import ModelServer
from situations.subjects import Mode, Subject

HERE = Path(__file__).parent
TIME_LIMIT_SECONDS = 60
KEY = "-".join(("sk", "situations", "0123456789abcdefghij"))


_TELLING = re.compile(r"error|exception|diverg|mismatch|no recorded|not recorded|refuse|unmatched|warning|exit", re.I)


@dataclass(frozen=True)
class Done:
    """A process that has come to its end, or was ended."""

    status: int
    said: tuple[str, ...]
    """What the program itself said."""
    words: str
    """Everything that was written, also by the recorder."""
    requests: int
    """How many came to the server meanwhile."""
    timed_out: bool = False

    @property
    def last_words(self) -> str:
        """What the recorder said of what went wrong, as far as a line can be found."""
        lines = [line.strip() for line in self.words.splitlines() if line.strip() and not line.startswith("says:")]
        telling = [line for line in lines if _TELLING.search(line)]
        return (telling or lines or ["it said nothing"])[-1][:140]


class Place:
    def __init__(self, subject: Subject, program: str, folder: Path, settings: Mapping[str, str] | None = None) -> None:
        self.subject = subject
        self.records = folder / "records"
        """The working folder of the recorder: whatever is in it is its recording."""
        self.notes = folder / "notes"
        self.programs = folder / "programs"
        self.records.mkdir(parents=True)
        self.notes.mkdir()
        shutil.copytree(HERE / "programs", self.programs)
        self.program = self.programs / f"{program}.py"
        self.server = ModelServer(self.notes)
        self._settings = dict(settings or {})

    def record(self, **settings: str) -> Done:
        return self._run("record", settings)

    def replay(self, **settings: str) -> Done:
        """By now what was slow is fast."""
        self.server.swapped = True
        return self._run("replay", settings)

    def resume(self, **settings: str) -> Done:
        return self._run("resume", settings)

    def command(self, *arguments: str) -> Done:
        return self._carry(list(arguments), {})

    def ledger(self) -> list[str]:
        ledger = self.notes / "ledger"
        return ledger.read_text().split() if ledger.exists() else []

    def close(self) -> None:
        self.server.stop()

    def _run(self, mode: Mode, settings: dict[str, str]) -> Done:
        environment = {**self._settings, **settings}
        return self._carry(self.subject.command(mode, self.program, self.records, environment), environment)

    def _carry(self, command: list[str], settings: dict[str, str]) -> Done:
        before = self.server.requests
        process = subprocess.Popen(
            command,
            cwd=self.records,
            env=self._environment(settings),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        ended = _read_to_the_end(process)
        return replace(ended, requests=self.server.requests - before)

    def _environment(self, settings: dict[str, str]) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("ONRECORD_", "PYTHON"))}
        kits = HERE / "kits"
        return {
            **kept,
            "PYTHONPATH": os.pathsep.join(map(str, (kits / self.subject.kit, kits / "common", HERE / "wrappers"))),
            "SITUATIONS_URL": self.server.url,
            "SITUATIONS_NOTES": str(self.notes),
            "SITUATIONS_PROGRAM": str(self.program),
            "OPENAI_API_KEY": KEY,
            "ONRECORD_STORE": str(self.records / "onrecord.db"),
            "ONRECORD_KEY_FILE": str(self.notes / "keys.json"),
            "NO_COLOR": "1",
            "COLUMNS": "200",
            **settings,
        }


def _read_to_the_end(process: subprocess.Popen[str]) -> Done:
    """A child that was left behind keeps the pipes open: the whole group is ended, once the time is up."""
    timed_out = threading.Event()

    def end_all() -> None:
        timed_out.set()
        os.killpg(process.pid, signal.SIGKILL)

    timer = threading.Timer(TIME_LIMIT_SECONDS, end_all)
    timer.start()
    try:
        output, problems = process.communicate()
    finally:
        timer.cancel()
    said = tuple(line.removeprefix("says: ") for line in output.splitlines() if line.startswith("says:"))
    return Done(process.returncode, said, output + problems, 0, timed_out.is_set())
