"""Sources of time, randomness and the identity of this process.

All other modules take them from here, so that tests can replace them.
"""

from __future__ import annotations

import os
import socket
from os import urandom  # the real one: recorded code sees a patched `os.urandom`
from time import time_ns
from typing import Protocol


class Sources(Protocol):
    def now_us(self) -> int:
        """Return microseconds since 1970, UTC. Recorded, never used for ordering."""
        ...

    def entropy(self, size: int) -> bytes: ...

    def holder(self) -> str:
        """Return the identity of a lease holder, from which its machine can tell whether the process still runs."""
        ...


class SystemSources:
    def now_us(self) -> int:
        return time_ns() // 1000

    def entropy(self, size: int) -> bytes:
        return urandom(size)

    def holder(self) -> str:
        pid = os.getpid()
        return f"{_read_boot_id()}/{socket.gethostname()}/{_read_pid_namespace()}/{pid}/{_read_start_time(pid)}"


def holder_is_gone(holder: str) -> bool:
    """Return True only if the holder was a process of this machine, boot and container that no longer runs.

    Several holders of one process have its identity in common, followed by a part of their own.
    """
    parts = holder.split("/")[:5]
    here = [_read_boot_id(), socket.gethostname(), _read_pid_namespace()]
    if len(parts) != 5 or parts[:3] != here or not all(here) or not parts[3].isdecimal():
        return False
    started = _read_start_time(int(parts[3]))
    return started is not None and started != parts[4]


def _read_pid_namespace() -> str:
    """Return the pid namespace: /proc shows no processes of other containers."""
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""


def _read_boot_id() -> str:
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            return file.read().strip()
    except OSError:
        return ""


def _read_start_time(pid: int) -> str | None:
    """Return the start time of a process in clock ticks, which distinguishes a reused pid.

    Return "" if the process has ended (a zombie has), None if unknown.
    """
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return ""
    except OSError:
        return None
    return "" if fields[0] in (b"Z", b"X") else fields[19].decode()
