"""Ctrl-C and SIGTERM: the run is let go of, nothing ends it, and another process goes on."""

from __future__ import annotations

import signal
from contextlib import closing
from pathlib import Path

import pytest
from crash_programs import LONG, long_blocking_agent, long_job_agent, long_tool_agent
from crash_scene import Scene, stands_still

from kit import crash_ledger
from kit.killed_runs import children_of
from kit.life_server import LifeServer
from kit.soak import SOAK
from onrecord.core.events import TERMINAL_KINDS
from onrecord.journal.reader import JournalReader
from onrecord.journal.verify import verify_run
from onrecord.runtime.api.agent import find_agent
from onrecord.store.factory import open_store

SIGNALS = {"SIGINT": "", "SIGTERM handled": "exit", "SIGTERM": ""}


def in_the_middle(scene: Scene, pid: int) -> None:
    """The agent stands in its long effect, and everything else that it does has been done."""
    wanted = {("did", "long")} | ({("saw", "other")} if scene.agent == long_tool_agent.name else set())

    def is_there() -> bool:
        return wanted <= {(line.what, line.tag.split()[-1]) for line in crash_ledger.read(scene.book)}

    scene.server.until(pid, "the agent comes to its long effect", is_there)
    if find_agent(scene.agent).is_async and scene.agent != long_blocking_agent.name:
        scene.server.until(pid, "the loop comes to rest", lambda: stands_still(pid))


CASES = [
    (how, agent.name, url)
    for row, how in enumerate(SIGNALS)
    for column, agent in enumerate(LONG)
    for url in ("sqlite", "postgres")
    if SOAK or ((row + column) % 3 == 0 if url == "sqlite" else row == column)
    if (how, agent) != ("SIGINT", long_blocking_agent)  # asyncio lets a blocking call in the loop come to its end first
]


@pytest.mark.parametrize(("how", "agent", "url"), CASES, indirect=["url"])
def test_interrupted(how: str, agent: str, server: LifeServer, url: str, tmp_path: Path) -> None:
    scene = Scene(server, url, tmp_path, agent, "run")
    pid = scene.begin(on_term=SIGNALS[how])
    in_the_middle(scene, pid)
    assert server.signal(pid, getattr(signal, how.split()[0]))
    with closing(open_store(url)) as store:
        if agent == long_job_agent.name and how != "SIGTERM":
            # Python ends a thread of a pool by waiting for it; by then the run has been let go.
            server.until(pid, "the run is let go", lambda: store.holder("default", "run") is None)
            Path(f"{scene.book}.go").touch()
        expected = {"SIGINT": 130, "SIGTERM handled": 143, "SIGTERM": -signal.SIGTERM}[how]
        assert server.wait(pid) == expected
        before = [line for line in crash_ledger.read(scene.book) if line.what == "did"]
        assert "once cleaned up" not in [line.tag for line in before]
        for run in ["run", *children_of(store, "run")]:
            assert verify_run(store, run, deep=True).valid
            assert not [one.kind for one in JournalReader(store, run).scan() if one.kind in TERMINAL_KINDS]
            if how != "SIGTERM":  # without a handler the process simply dies, and the lease goes with its holder
                assert store.holder("default", run) is None, "the lease was kept"
    Path(f"{scene.book}.go").touch()
    scene.to_the_end()
    scene.check()
