"""The official clients in programs with no line changed, replayed with the server gone and without a network."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from kit import command_server, sdk_uses
from kit.numbered_server import Server
from kit.soak import SOAK

PROGRAM = Path(sdk_uses.__file__)
MAY_LEAVE = subprocess.run(["unshare", "--net", "--map-root-user", "true"], check=False).returncode == 0
"""The kernel lets a process have a network of its own."""


def onrecord(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return command_server.call([words[0], "--store", str(folder / "store.db"), *words[1:]])


@pytest.mark.parametrize("use", sdk_uses.USES if SOAK else ("openai", "anthropic_async"))
def test_an_sdk_in_a_program_comes_back_without_a_network(use: str, server: Server, tmp_path: Path) -> None:
    recorded = onrecord(tmp_path, "run", str(PROGRAM), use, server.url)
    assert recorded.returncode == 0, recorded.stderr
    asked, connections = server.requests, server.connections
    assert asked
    assert f"{asked} effects" in recorded.stderr
    replayed = onrecord(tmp_path, "replay", "@last")
    assert replayed.returncode == 0, replayed.stderr
    assert replayed.stdout == recorded.stdout
    assert recorded.stdout
    assert (server.requests, server.connections) == (asked, connections)
    assert "without a network" in replayed.stderr or not MAY_LEAVE
