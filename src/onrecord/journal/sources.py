"""Where time, randomness and the identity of this process come from.

Everything above takes them from here, so that tests can supply their own.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from os import urandom  # the system's own, whatever a recorded program is made to see
from typing import Protocol

system_clock: Callable[[], int] | None = None
"""The system's own as well, in nanoseconds, where `time` has been made to show a recorded program something else."""


class Sources(Protocol):
    def now_us(self) -> int:
        """Microseconds since 1970, UTC. Recorded, never used for ordering."""
        ...

    def entropy(self, size: int) -> bytes: ...

    def holder(self) -> str:
        """Who holds a lease: enough to tell whether that process still lives on this machine."""
        ...


class SystemSources:
    def now_us(self) -> int:
        return (system_clock or time.time_ns)() // 1000

    def entropy(self, size: int) -> bytes:
        return urandom(size)

    def holder(self) -> str:
        pid = os.getpid()
        return f"{_boot_id()}/{socket.gethostname()}/{_pid_namespace()}/{pid}/{_started(pid)}"


def holder_is_gone(holder: str) -> bool:
    """True only when the holder was a process of this machine, this boot and this container that no longer runs."""
    parts = holder.split("/")
    here = [_boot_id(), socket.gethostname(), _pid_namespace()]
    if len(parts) != 5 or parts[:3] != here or not all(here) or not parts[3].isdecimal():
        return False
    started = _started(int(parts[3]))
    return started is not None and started != parts[4]


def _pid_namespace() -> str:
    """Pids are looked up in our own /proc, which shows nothing of another container's processes."""
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""


def _boot_id() -> str:
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            return file.read().strip()
    except OSError:
        return ""


def _started(pid: int) -> str | None:
    """The process' start time in clock ticks, so that a reused pid is not mistaken for its predecessor.

    Empty when it has ended (a zombie has); None when that cannot be told.
    """
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return ""
    except OSError:
        return None
    return "" if fields[0] in (b"Z", b"X") else fields[19].decode()
