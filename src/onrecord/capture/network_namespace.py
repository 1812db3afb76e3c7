"""Network namespace for a replay, if the kernel allows one: the program reaches no other machine, by any library.

The loopback device is up, so that the program can connect to itself. Without a namespace, only Python refuses
connections.
"""

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


def leave_network() -> bool:
    """Cut this process and its children off the network. Return False if that fails, or if there are threads."""
    if threading.active_count() > 1 or not _is_allowed():
        return False
    return _enter_namespace()


def _enter_namespace() -> bool:
    user, group = os.geteuid(), os.getegid()
    if not _unshare(_NEW_NETWORK) and not (_unshare(_NEW_USER | _NEW_NETWORK) and _map_user(user, group)):
        return False
    _bring_loopback_up()
    return True


def _is_allowed() -> bool:
    """Try it in a forked process first: a half-made namespace would leave this process without a user."""
    pid = os.fork()
    if pid == 0:
        os._exit(0 if _enter_namespace() else 1)
    return os.waitpid(pid, 0)[1] == 0


def _unshare(flags: int) -> bool:
    try:
        return bool(ctypes.CDLL(None, use_errno=True).unshare(flags) == 0)
    except (OSError, AttributeError):
        return False


def _map_user(user: int, group: int) -> bool:
    """Map the user and the group to themselves in the new user namespace."""
    try:
        for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
            with open(f"/proc/self/{name}", "w") as file:
                file.write(text)
    except OSError:
        return False
    return True


def _bring_loopback_up() -> None:
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
            name = b"lo".ljust(16, b"\0")
            answer = fcntl.ioctl(control, _GET_FLAGS, name + bytes(16))
            (flags,) = struct.unpack_from("h", answer, 16)
            fcntl.ioctl(control, _SET_FLAGS, name + struct.pack("h", flags | _UP) + bytes(14))
    except OSError:
        return  # the namespace has no loopback then
