"""The recorders: how each is installed, and how its documentation says that a program is recorded, replayed, continued.

Each of them has an environment of its own, so that none is held back by what another one needs.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Literal

HERE = Path(__file__).parent
NEEDED = HERE.parent / "requirements-situations.txt"
INSTALL_SECONDS = 600

Mode = Literal["record", "replay", "resume"]
Command = Callable[[Path, Mode, Path, Path, Mapping[str, str]], list[str]]
"""Of the folder of programs of its environment, what to do, the program, the records, and the settings."""


class NotInstalled(Exception):
    """Why a recorder cannot be had here."""


@dataclass
class Subject:
    name: str
    package: str
    how: Command
    kit: str = "plain"
    requirements: tuple[str, ...] = ()
    """Besides its own package: what its documentation names, and what replaces a library that it cannot use."""
    python: tuple[int, int] = (3, 11)
    note: str = ""
    """How it was used, for whoever wants to know."""
    bin: Path = field(default_factory=Path)
    version: str = ""

    def command(self, mode: Mode, program: Path, records: Path, settings: Mapping[str, str]) -> list[str]:
        return self.how(self.bin, mode, program, records, settings)

    def install(self, cache: Path) -> None:
        """Into an environment of its own, once."""
        home = cache / self.name
        stamp = home / ".installed"
        self.bin = home / "bin"
        wanted = "\n".join([self.package, *self.requirements, NEEDED.read_text()])
        if not stamp.exists() or stamp.read_text() != wanted:
            shutil.rmtree(home, ignore_errors=True)
            _run([_python_of(self.python), "-m", "venv", str(home)])
            _run([*self._pip(), "install", "--quiet", self.package, *self.requirements, "--requirement", str(NEEDED)])
            stamp.write_text(wanted)
        listed = json.loads(_run([*self._pip(), "list", "--format", "json"]))
        name = self.package.partition("[")[0].partition("==")[0].partition(">=")[0]
        self.version = next((one["version"] for one in listed if one["name"].lower() == name.lower()), "")

    def _pip(self) -> list[str]:
        return [str(self.bin / "python"), "-m", "pip", "--disable-pip-version-check"]


def here(subject: Subject) -> Subject:
    """One that lives in the environment that this runs in."""
    subject.bin = Path(sys.executable).parent
    subject.version = version(subject.package) if subject.package else ""
    return subject


def _python_of(least: tuple[int, int]) -> str:
    """An interpreter that is new enough: ours, one on the path, or one of pyenv."""
    if sys.version_info[:2] >= least:
        return sys.executable
    names = [f"python{least[0]}.{minor}" for minor in range(least[1], least[1] + 3)]
    found = [path for name in names if (path := shutil.which(name))]
    found += [str(path) for name in names for path in Path.home().glob(f".pyenv/versions/*/bin/{name}")]
    for candidate in found:
        if subprocess.run([candidate, "-c", "import venv"], capture_output=True).returncode == 0:
            return candidate
    raise NotInstalled(f"needs Python {least[0]}.{least[1]}, which is not here")


def _run(command: list[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_SECONDS)
    except subprocess.TimeoutExpired:
        raise NotInstalled(f"installing took more than {INSTALL_SECONDS} seconds") from None
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or done.stderr.splitlines()
        raise NotInstalled((lines or ["pip said nothing"])[-1].removeprefix("ERROR: ")[:160])
    return done.stdout


# How each of them is used


def _onrecord(bin_: Path, mode: Mode, program: Path, records: Path, settings: Mapping[str, str]) -> list[str]:
    ours = [str(bin_ / "onrecord")]
    if mode == "record":
        return [*ours, "run", *(["--strict"] if "SITUATIONS_STRICT" in settings else []), str(program)]
    return [*ours, mode, "@last"]


def _reeltime(bin_: Path, mode: Mode, program: Path, records: Path, settings: Mapping[str, str]) -> list[str]:
    if mode == "record":
        return [str(bin_ / "tape"), "run", str(bin_ / "python"), str(program)]
    if mode == "replay":
        return [str(bin_ / "tape"), "replay", *(["--strict"] if "SITUATIONS_EXACT" in settings else [])]
    runs = sorted((records / ".tape" / "runs").glob("*.jsonl"), key=os.path.getmtime)
    events = sum(line.startswith('{"i":') for line in runs[-1].read_text().splitlines()) if runs else 0
    return [str(bin_ / "tape"), "fork", "--at", str(events)]


def _nobody(bin_: Path, mode: Mode, program: Path, records: Path, settings: Mapping[str, str]) -> list[str]:
    return [str(bin_ / "python"), str(program)]


def _wrapper(name: str) -> Command:
    """A script of ours that does around the program what the documentation shows."""

    def command(bin_: Path, mode: Mode, program: Path, records: Path, settings: Mapping[str, str]) -> list[str]:
        return [str(bin_ / "python"), str(HERE / "wrappers" / f"{name}.py"), mode, str(program)]

    return command


def _pytest_recording(bin_: Path, mode: Mode, program: Path, records: Path, settings: Mapping[str, str]) -> list[str]:
    modes = {"record": ["rewrite"], "replay": ["none", "--block-network"], "resume": ["new_episodes"]}
    test = shutil.copy(HERE / "wrappers" / "test_in_pytest.py", records)
    how = ["--record-mode", *modes[mode], "-p", "no:cacheprovider", "-q", "-s", "--tb=short"]
    return [str(bin_ / "python"), "-m", "pytest", test, *how]


OURS = Subject("onrecord", "onrecord", _onrecord, kit="onrecord", note="`onrecord run`, `replay`, `resume`")
CONTROL = Subject(
    "no recorder", "", _nobody, note="the program is run again, each time: what holds here proves nothing"
)
PEERS = [
    Subject(
        "reeltime",
        "reeltime",
        _reeltime,
        kit="reeltime",
        note="`tape run`, `tape replay` (`--strict` where a change is to be found); it goes on with `tape fork` at the "
        "last event that was kept",
    ),
    Subject(
        "tracefork",
        "tracefork",
        _wrapper("with_tracefork"),
        kit="tracefork",
        python=(3, 12),
        note="its transports under the clients, checkpoints on; it goes on in mode `new_episodes`",
    ),
    Subject(
        "agent-rewind",
        "agent-rewind",
        _wrapper("with_agent_rewind"),
        kit="agent_rewind",
        note="`auto_patch`, `patch_thread_pool`; `match='parallel'` for concurrent programs; it goes on with `fork`",
    ),
    Subject(
        "kinescope",
        "kinescope",
        _wrapper("with_kinescope"),
        kit="kinescope",
        requirements=("openai<2.40", "anthropic<1"),
        note="clients built with its HTTP clients, policy strict, `capture='all'` where clock and chance matter "
        "(elsewhere it breaks the client library); it goes on with `fork`",
    ),
    Subject(
        "agentrr",
        "agentrr>=0.1.0a1",
        _wrapper("with_agentrr"),
        kit="agentrr",
        note="clients wrapped; nothing to go on with",
    ),
    Subject(
        "agenttape",
        "agenttape",
        _wrapper("with_agenttape"),
        kit="agenttape",
        note="`use_cassette`; it goes on in mode `new_episodes`",
    ),
    Subject(
        "vcrpy",
        "vcrpy",
        _wrapper("with_vcrpy"),
        note="`use_cassette`, matching on the body too; it goes on in mode `new_episodes`",
    ),
    Subject(
        "pytest-recording",
        "pytest-recording",
        _pytest_recording,
        note="a test with the marker `vcr`, `--block-network`; it goes on with `--record-mode new_episodes`",
    ),
]
