"""A network namespace of its own for a replay, where the kernel allows it: nothing that the program does, by whatever
library, reaches anybody. Its loopback device is up, so that the program can listen and talk to itself; nobody else is
there. Where it is not allowed, connections are refused by Python alone."""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import struct
import threading

_NEW_USER = 0x10000000
_NEW_NETWORK = 0x40000000
_GET_FLAGS, _SET_FLAGS, _UP = 0x8913, 0x8914, 0x1


def leave_the_network() -> bool:
    """True: this process and all that it starts have no network any more. Before there are threads."""
    if threading.active_count() > 1 or not _is_allowed():
        return False
    return _left()


def _left() -> bool:
    user, group = os.geteuid(), os.getegid()
    if not _unshare(_NEW_NETWORK) and not (_unshare(_NEW_USER | _NEW_NETWORK) and _map_back(user, group)):
        return False
    _bring_loopback_up()
    return True


def _is_allowed() -> bool:
    """Tried by another process: one that has left by half would be nobody."""
    pid = os.fork()
    if pid == 0:
        os._exit(0 if _left() else 1)
    return os.waitpid(pid, 0)[1] == 0


def _unshare(flags: int) -> bool:
    try:
        return bool(ctypes.CDLL(None, use_errno=True).unshare(flags) == 0)
    except (OSError, AttributeError):
        return False


def _map_back(user: int, group: int) -> bool:
    """In a user namespace of its own the process is who it was."""
    try:
        for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
            with open(f"/proc/self/{name}", "w") as file:
                file.write(text)
    except OSError:
        return False
    return True


def _bring_loopback_up() -> None:
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
            name = b"lo".ljust(16, b"\0")
            answer = fcntl.ioctl(asked, _GET_FLAGS, name + bytes(16))
            (flags,) = struct.unpack_from("h", answer, 16)
            fcntl.ioctl(asked, _SET_FLAGS, name + struct.pack("h", flags | _UP) + bytes(14))
    except OSError:
        return  # then there is not even that
