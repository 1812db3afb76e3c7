"""Where time, randomness and the identity of this process come from.

Everything above takes them from here, so that tests can supply their own.
"""

from __future__ import annotations

import os
import socket
import time
from typing import Protocol


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
        return time.time_ns() // 1000

    def entropy(self, size: int) -> bytes:
        return os.urandom(size)

    def holder(self) -> str:
        pid = os.getpid()
        return f"{_boot_id()}/{socket.gethostname()}/{pid}/{_started(pid)}"


def holder_is_gone(holder: str) -> bool:
    """True only when the holder was a process of this machine and this boot that no longer runs."""
    parts = holder.split("/")
    if len(parts) != 4 or parts[0] != _boot_id() or not parts[0] or not parts[2].isdecimal():
        return False
    return _started(int(parts[2])) != parts[3]


def _boot_id() -> str:
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            return file.read().strip()
    except OSError:
        return ""


def _started(pid: int) -> str:
    """The process' start time in clock ticks, so that a reused pid is not mistaken for its predecessor.

    A zombie has ended.
    """
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] in (b"Z", b"X") else fields[19].decode()
