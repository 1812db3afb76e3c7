"""Programs with loops that are none of asyncio's own: uvloop is replaced, trio is refused, both aloud."""

from __future__ import annotations

from pathlib import Path

import pytest

from kit.programs import Server, onrecord, show_optional_packages

pytestmark = pytest.mark.usefixtures("folder")

WAYS = {
    "run": "uvloop.run(main())",
    "install": "uvloop.install(); asyncio.run(main())",
    "policy": "asyncio.set_event_loop_policy(uvloop.EventLoopPolicy()); asyncio.run(main())",
    "factory": "asyncio.Runner(loop_factory=uvloop.new_event_loop).run(main())",
    "by hand": "loop = uvloop.Loop(); loop.run_until_complete(main()); loop.close()",
}
PROGRAM = """
import asyncio, sys, warnings
import httpx
warnings.simplefilter("ignore")
import uvloop

async def main():
    async with httpx.AsyncClient() as client:
        answers = await asyncio.gather(*(client.get(sys.argv[1] + "/number") for _ in range(5)))
    print([answer.json() for answer in answers])

WAY
"""
UNDER_TRIO = """
import sys
import httpx, LIBRARY

async def main():
    print("begun")
    async with httpx.AsyncClient() as client:
        print((await client.get(sys.argv[1] + "/number")).json())

WAY
"""


@pytest.mark.parametrize("way", WAYS)
def test_uvloop_is_replaced_and_the_summary_says_so(way: str, server: Server) -> None:
    Path("program.py").write_text(PROGRAM.replace("WAY", WAYS[way]))
    recorded = onrecord("run", "program.py", server.url)
    assert recorded.returncode == 0, recorded.stderr
    assert recorded.stderr.count("uvloop replaced by asyncio's own loop") == 1
    assert len(server.seen) == 5
    replayed = onrecord("replay", "@last")
    assert replayed.returncode == 0, replayed.stderr
    assert replayed.stdout.splitlines()[0] == recorded.stdout.strip()
    assert len(server.seen) == 5


def test_uvloop_that_is_only_imported_is_nothing_to_tell(server: Server) -> None:
    Path("program.py").write_text(PROGRAM.replace("WAY", "asyncio.run(main())"))
    recorded = onrecord("run", "program.py", server.url)
    assert recorded.returncode == 0
    assert "uvloop" not in recorded.stderr


@pytest.mark.parametrize(
    ("library", "way"),
    [("trio", "trio.run(main)"), ("anyio", 'anyio.run(main, backend="trio")')],
    ids=["trio", "anyio"],
)
def test_trio_is_refused_before_anything_happens(
    library: str, way: str, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    show_optional_packages(monkeypatch)
    Path("program.py").write_text(UNDER_TRIO.replace("LIBRARY", library).replace("WAY", way))
    refused = onrecord("run", "program.py", server.url)
    assert refused.returncode == 125
    assert refused.stdout == ""
    assert "[unsupported_loop]" in refused.stderr
    assert "asyncio.run" in refused.stderr
    assert "Traceback" not in refused.stderr
    assert len(server.seen) == 0
