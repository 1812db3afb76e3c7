"""Ctrl-C and SIGTERM: the run is let go of, nothing ends it, and another process goes on."""

from __future__ import annotations

import os
import signal
import time
from contextlib import closing
from pathlib import Path

import crash_ledger
import pytest
from crash_programs import LONG, long_blocking_agent, long_job_agent
from crash_scene import ForkServer, Scene, children_of

from reenact.core.events import TERMINAL_KINDS
from reenact.journal.reader import JournalReader
from reenact.journal.verify import verify_run
from reenact.store.opening import open_store

pytestmark = pytest.mark.skipif(
    not os.environ.get("REENACT_SOAK"),
    reason="kills whole processes by the clock and is not yet steady on a busy machine: `make soak` runs it",
)

SIGNALS = {"SIGINT": "", "SIGTERM handled": "exit", "SIGTERM": ""}


@pytest.mark.parametrize("agent", [agent.name for agent in LONG])
@pytest.mark.parametrize("how", SIGNALS)
def test_interrupted(how: str, agent: str, server: ForkServer, url: str, tmp_path: Path) -> None:
    if (how, agent) == ("SIGINT", long_blocking_agent.name):
        pytest.skip("asyncio lets a blocking call in the loop come to its end first")
    scene = Scene(server, url, tmp_path, agent, "run")
    pid = scene.begin(on_term=SIGNALS[how])
    while not any(line.tag.endswith("long") for line in crash_ledger.read(scene.book)):
        time.sleep(0.005)
    time.sleep(0.02)
    os.kill(pid, getattr(signal, how.split()[0]))
    if agent == long_job_agent.name:
        time.sleep(0.1)
        Path(f"{scene.book}.go").touch()  # Python ends a thread of a pool by waiting for it
    expected = {"SIGINT": 130, "SIGTERM handled": 143, "SIGTERM": -signal.SIGTERM}[how]
    assert server.wait(pid) == expected
    before = [line for line in crash_ledger.read(scene.book) if line.what == "did"]
    assert "once cleaned up" not in [line.tag for line in before]
    with closing(open_store(url)) as store:
        for run in ["run", *children_of(store, "run")]:
            assert verify_run(store, run, deep=True).valid
            assert not [one.kind for one in JournalReader(store, run).scan() if one.kind in TERMINAL_KINDS]
            claim = store.claim("default", run, "somebody else", 1.0)
            if how != "SIGTERM":  # without a handler the process simply dies, and the lease goes with its holder
                assert claim.granted, "the lease was kept"
                store.release("default", run, claim.epoch)
    Path(f"{scene.book}.go").touch()
    scene.to_the_end()
    scene.check()
