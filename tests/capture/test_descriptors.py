"""Programs that close everything that is open, as daemons do."""

from __future__ import annotations

from pathlib import Path

import pytest

from kit.programs import Server, onrecord

pytestmark = pytest.mark.usefixtures("folder")

WAYS = {
    "a range": "os.closerange(3, 256)",
    "one by one": """
for number in range(3, 256):
    try:
        os.close(number)
    except OSError:
        pass
""",
}
PROGRAM = """
import os, sys, httpx
url = sys.argv[1]
print(httpx.get(url + "/number").json())
WAY
print(httpx.get(url + "/number").json())
"""
DAEMON = """
import os, sys
import httpx

pid = os.fork()
if pid == 0:
    os.setsid()
    os.closerange(3, 256)
    print(httpx.post(sys.argv[1] + "/echo", json={"a": 1}).text, flush=True)
    os._exit(0)
print(os.waitpid(pid, 0)[1])
"""


@pytest.mark.parametrize("way", WAYS)
def test_a_program_may_close_everything_that_it_has(way: str, server: Server) -> None:
    Path("program.py").write_text(PROGRAM.replace("WAY", WAYS[way]))
    check(server)


def test_a_daemon(server: Server) -> None:
    Path("program.py").write_text(DAEMON)
    check(server)


def check(server: Server) -> None:
    done = onrecord("run", "--run-id", "one", "program.py", server.url)
    assert done.returncode == 0, done.stderr
    asked = len(server.seen)
    replayed = onrecord("replay", "one")
    assert (replayed.returncode, replayed.stdout) == (0, done.stdout), replayed.stderr
    assert (len(server.seen), asked > 0) == (asked, True)
