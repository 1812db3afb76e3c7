"""A replay has no network: not for Python, and where the kernel allows it not for anything else either."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from onrecord.capture.network_namespace import leave_network

NATIVE = """
import ctypes, socket, struct, sys, threading
from work import work
print(work(1))
libc = ctypes.CDLL(None, use_errno=True)
descriptor = libc.socket(socket.AF_INET, socket.SOCK_STREAM, 0)
address = struct.pack("=HH4s8x", socket.AF_INET, socket.htons(int(sys.argv[1])), socket.inet_aton("127.0.0.1"))
print("connected", libc.connect(descriptor, address, len(address)) == 0, file=sys.stderr)
"""
OWN_SERVER = """
import socket
from work import work
server = socket.create_server(("127.0.0.1", 0))
print(work(1), bool(server.getsockname()[1]))
"""


@pytest.fixture
def server() -> Iterator[tuple[int, list[Any]]]:
    """A port, and who has connected to it."""
    came: list[Any] = []
    listening = socket.create_server(("127.0.0.1", 0))

    def accept() -> None:
        while True:
            try:
                connection, address = listening.accept()
            except OSError:
                return
            came.append(address)
            connection.close()

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    yield listening.getsockname()[1], came
    listening.shutdown(socket.SHUT_RDWR)
    listening.close()
    thread.join()


def is_allowed() -> bool:
    code = "from onrecord.capture.network_namespace import leave_network; raise SystemExit(not leave_network())"
    return subprocess.run([sys.executable, "-c", code]).returncode == 0


needs_namespace = pytest.mark.skipif(not is_allowed(), reason="the kernel allows no network namespace here")


@needs_namespace
def test_what_goes_past_python_reaches_nobody(box: Any, server: tuple[int, list[Any]]) -> None:
    port, came = server
    box.write("program.py", NATIVE)
    recorded = box.onrecord("run", "program.py", str(port))
    assert "connected True" in recorded.stderr
    assert len(came) == 1
    replayed = box.onrecord("replay", "@last")
    assert (replayed.returncode, replayed.stdout) == (0, "10\n"), replayed.stderr
    assert "connected False" in replayed.stderr
    assert replayed.stderr.rstrip().endswith("without a network")
    assert len(came) == 1, "nobody has come again"


@needs_namespace
def test_children_have_no_network_either(box: Any, server: tuple[int, list[Any]]) -> None:
    port, came = server
    box.write("child.py", NATIVE)
    box.write(
        "program.py", f"import subprocess, sys\nsubprocess.run([sys.executable, 'child.py', '{port}'], check=True)\n"
    )
    assert box.onrecord("run", "program.py").returncode == 0
    replayed = box.onrecord("replay", "@last")
    assert replayed.returncode == 0, replayed.stderr
    assert "connected False" in replayed.stderr
    assert len(came) == 1


def test_a_program_may_listen_in_a_replay(box: Any) -> None:
    box.write("program.py", OWN_SERVER)
    assert box.onrecord("run", "program.py").returncode == 0
    replayed = box.onrecord("replay", "@last")
    assert (replayed.returncode, replayed.stdout) == (0, "10 True\n"), replayed.stderr


def test_where_it_is_not_allowed_python_refuses(box: Any, server: tuple[int, list[Any]]) -> None:
    """A process with a second thread may not leave: as where the kernel does not let it."""
    held = threading.Event()
    thread = threading.Thread(target=held.wait)
    thread.start()
    try:
        assert leave_network() is False
    finally:
        held.set()
        thread.join()
    port, came = server
    box.write(
        "program.py",
        f"import socket\nfrom work import work\nwork(1)\nsocket.create_connection(('127.0.0.1', {port}))\n",
    )
    assert box.onrecord("run", "program.py").returncode == 0
    replayed = box.onrecord("replay", "@last")
    assert replayed.returncode == 1
    assert "[trapped]" in replayed.stderr
    assert len(came) == 1
