"""A real pseudo-terminal with a terminal emulator behind it: what a person would see on the screen."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
import unicodedata
from collections.abc import Sequence

import pyte

from kit.command_server import ForkedProcess
from kit.processes import restore_interrupts

PATIENCE_SECONDS = 60.0
SGR = re.compile(r"\x1b\[[0-9;]*m")
PROGRESS = re.compile(r"(?:\r\x1b\[2K[^\r\n\x1b]*)+\r\x1b\[2K")
"""Drawn over and over, and gone at the end."""


class Terminal:
    """A command on a terminal of its own; or a piece of Python that prepares one."""

    def __init__(
        self,
        *arguments: str,
        columns: int = 100,
        rows: int = 40,
        env: dict[str, str] | None = None,
        code: str | None = None,
    ) -> None:
        self.raw = b""
        self._screen = pyte.Screen(columns, rows)
        self._stream = pyte.ByteStream(self._screen)
        self._leader, follower = pty.openpty()
        fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        environment = {**os.environ, "TERM": "xterm-256color", "PYTHONUTF8": "1", **(env or {})}
        self._process: ForkedProcess | subprocess.Popen[bytes]
        if any(name.startswith("PYTHON") for name in env or ()):
            self._process = _start_interpreter(arguments, follower, environment)
        else:
            streams = dict.fromkeys((0, 1, 2), follower)
            self._process = ForkedProcess(arguments, streams, code=code, env=environment, terminal=True)
        os.close(follower)

    @property
    def screen(self) -> list[str]:
        """The rows, without the empty ones at the end."""
        return _rows(self._screen)

    @property
    def text(self) -> str:
        return "\n".join(self.screen)

    @property
    def written(self) -> str:
        return self.raw.decode()

    def wait_for(self, text: str) -> None:
        """Until it stands on the screen."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while text not in self.text:
            assert time.monotonic() < deadline, f"{text!r} is not on the screen:\n{self.text}"
            assert self._read(0.1) or text in self.text, f"it ended without {text!r}:\n{self.text}"

    def type(self, text: str) -> None:
        os.write(self._leader, text.encode())

    def press_ctrl_c(self) -> None:
        """As a person does: the terminal sends the signal."""
        self.type("\x03")

    def end(self) -> int:
        """The exit status, once it has ended and all was read."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while self._read(0.1):
            assert time.monotonic() < deadline, f"it does not end:\n{self.text}"
        return self._process.wait(PATIENCE_SECONDS)

    def close(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait(PATIENCE_SECONDS)
        os.close(self._leader)

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _read(self, seconds: float) -> bool:
        """False: nobody writes there any more."""
        if not select.select([self._leader], [], [], seconds)[0]:
            return True
        try:
            part = os.read(self._leader, 65536)
        except OSError:  # the last follower is closed
            part = b""
        self.raw += part
        self._stream.feed(part)
        return bool(part)


def _start_interpreter(arguments: Sequence[str], follower: int, environment: dict[str, str]) -> subprocess.Popen[bytes]:
    """Start the command in an interpreter that reads its own settings from the environment."""

    def prepare() -> None:
        restore_interrupts()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    return subprocess.Popen(
        [sys.executable, "-m", "onrecord.cli.main", *arguments],
        stdin=follower,
        stdout=follower,
        stderr=follower,
        start_new_session=True,
        preexec_fn=prepare,
        env=environment,
    )


def shown(
    *arguments: str, columns: int = 100, rows: int = 400, status: int = 0, env: dict[str, str] | None = None
) -> Terminal:
    """A command that has ended; the screen is high enough for all that it wrote."""
    with Terminal(*arguments, columns=columns, rows=rows, env=env) as terminal:
        assert terminal.end() == status, terminal.text
        return terminal


def assert_nothing_acted(terminal: Terminal) -> None:
    """Colours, and our own progress line, are all that a terminal was told; everything stands where it was written."""
    plain = SGR.sub("", PROGRESS.sub("", terminal.written)).replace("\r\n", "\n")
    for character in plain:
        assert character == "\n" or unicodedata.category(character) not in ("Cc", "Cf", "Zl", "Zp"), repr(character)
    assert unwrapped(plain, terminal) == terminal.screen


def unwrapped(plain: str, terminal: Terminal) -> list[str]:
    """What a screen of that width looks like after these lines, if nothing in them acts."""
    other = pyte.Screen(terminal._screen.columns, terminal._screen.lines)
    stream = pyte.Stream(other)
    stream.feed(plain.replace("\n", "\r\n"))
    return _rows(other)


def _rows(screen: pyte.Screen) -> list[str]:
    """Return the rows, without the empty ones at the end. `Screen.display` renders every cell of an empty screen."""
    rows = []
    for number in range(max(screen.buffer, default=-1) + 1):
        row: dict[int, pyte.screens.Char] = screen.buffer.get(number, {})
        rows.append("".join(row[column].data for column in range(max(row, default=-1) + 1)).rstrip())
    while rows and not rows[-1]:
        rows.pop()
    return rows
