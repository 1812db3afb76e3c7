"""The official clients in programs with no line changed, replayed with the server gone and without a network."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import sdk_uses
from numbered_server import Server

PROGRAM = Path(sdk_uses.__file__)
MAY_LEAVE = subprocess.run(["unshare", "--net", "--map-root-user", "true"], check=False).returncode == 0
"""The kernel lets a process have a network of its own."""


def reenact(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "reenact.cli.main", words[0], "--store", str(folder / "store.db"), *words[1:]]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize("use", sdk_uses.USES)
def test_an_sdk_in_a_program_comes_back_without_a_network(use: str, server: Server, tmp_path: Path) -> None:
    recorded = reenact(tmp_path, "run", str(PROGRAM), use, server.url)
    assert recorded.returncode == 0, recorded.stderr
    asked, connections = server.requests, server.connections
    assert asked
    assert f"{asked} effects" in recorded.stderr
    replayed = reenact(tmp_path, "replay", "@last")
    assert replayed.returncode == 0, replayed.stderr
    assert replayed.stdout == recorded.stdout
    assert recorded.stdout
    assert (server.requests, server.connections) == (asked, connections)
    assert "without a network" in replayed.stderr or not MAY_LEAVE
