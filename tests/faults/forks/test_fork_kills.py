"""A fork that is killed at any point of its tail goes on under the policy that it began with."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from kit.chance import repeatable
from kit.life_server import LifeServer, reported
from kit.soak import SOAK

STEP = 1 if SOAK else 5
"""The distance between two points that a fork is killed at. The first call of each named tool is one of them."""


def lives(server: LifeServer, folder: Path, tail: str, *tools: str) -> tuple[Any, list[dict[str, Any]]]:
    """Return the recorded result, and a report of each fork that was killed and resumed."""
    url, out = str(folder / "store.db"), folder / "report"

    def live(work: str, number: int, **options: Any) -> Any:
        out.unlink(missing_ok=True)
        server.live(work, url=url, book=str(folder / f"{number}.ledger"), out=str(out), **options)
        return reported(out)

    forked = {"tail": tail, "tools": list(tools)}
    recorded = live("record", 0)
    points = live("fork", 0, run="whole", **forked)
    found = []
    doubtful = [points.index(f"in {tool}") + 1 for tool in tools]
    for number in sorted({*range(1, len(points) + 1, STEP), *doubtful}):
        with repeatable(point=points[number - 1]):
            run = f"fork-{number}"
            live("fork", number, run=run, die_at=number, **forked)
            found.append(live("resume", number, run=run))
    return recorded, found


def begun(life: dict[str, Any]) -> bool:
    """The fork was on record when it was killed."""
    return "NotFound" not in life.get("error", "")


def test_a_mocked_tail_that_is_killed_anywhere(server: LifeServer, tmp_path: Path) -> None:
    recorded, found = lives(server, tmp_path, "mocked")
    assert len(found) > 20 // STEP
    assert sum(map(begun, found)) > 20 // STEP
    for life in filter(begun, found):
        assert not life["did"], life
        assert life.get("result") == recorded == life.get("replayed"), life
        assert not life["doubts"], life


def test_a_live_tail_that_is_killed_anywhere_does_nothing_unnamed(server: LifeServer, tmp_path: Path) -> None:
    recorded, found = lives(server, tmp_path, "live")
    assert sum(map(begun, found)) > 20 // STEP
    for life in filter(begun, found):
        assert {name for name, _ in life["did"]} <= {"think"}, life
        assert life.get("result") == recorded == life.get("replayed"), life
        assert not life["doubts"], life


@pytest.mark.parametrize("tools", [("mail",), ("mail", "lot")])
def test_a_named_tool_is_carried_out_once_or_in_doubt(
    server: LifeServer, tmp_path: Path, tools: tuple[str, ...]
) -> None:
    _, found = lives(server, tmp_path, "live", *tools)
    assert sum(map(begun, found)) > 20 // STEP
    doubts = 0
    for life in filter(begun, found):
        counted = Counter((name, what) for name, what in life["did"])
        assert {name for name, _ in counted} <= {"think", *tools}, life
        assert max((count for (name, _), count in counted.items() if name == "mail"), default=0) <= 1, life
        assert counted["lot", "same"] <= 3, life
        assert counted["lot", "child"] <= 1, life
        assert "result" in life, life
        assert life["result"] == life["replayed"], life
        in_doubt = [message for message in life["doubts"] if "mail" in message]
        mailed = sum(count for (name, _), count in counted.items() if name == "mail")
        assert mailed + len(in_doubt) >= 2, life  # each was done, or somebody had to say
        doubts += len(in_doubt)
    assert doubts, "a tool that was begun and has no answer is in doubt, as ever"
