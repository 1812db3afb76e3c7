"""SIGKILL at every point between request, effect, outcome and acknowledgement, for every kind of effect.

Each kind is an agent of its own. A first run that is not killed counts the points; then there is a run for each point
that dies exactly there, and goes on in another process. `make test` takes some kinds of points for each agent, and
every kind for some agent.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from crash_programs import KINDS
from crash_scene import Scene

from kit import crash_ledger
from kit.chance import repeatable, seeded
from kit.life_server import LifeServer
from kit.soak import SOAK

STORES = ("sqlite", "postgres")


CASES = [
    (kind.name, url)
    for number, kind in enumerate(KINDS)
    for url in STORES
    if url == "sqlite" or SOAK or number % 6 == 0
]


def chosen(points: list[str], agent: str) -> list[tuple[int, str]]:
    """Return the numbers and names of the points to die at."""
    numbered = list(enumerate(points, start=1))
    if SOAK:
        return numbered
    kinds: dict[str, list[tuple[int, str]]] = {}
    for number, point in numbered:
        kinds.setdefault(kind_of(point), []).append((number, point))
    rng, turn = seeded("points", agent), [kind.name for kind in KINDS].index(agent)
    return sorted(rng.choice(of_kind) for at, of_kind in enumerate(kinds.values()) if (at + turn) % 5 == 0)


def kind_of(point: str) -> str:
    """Return the point without the tag of the effect."""
    when, what = point.split()[:2]
    return when if when in ("handed", "seen") else f"{when} {what}"


@pytest.mark.parametrize(("agent", "url"), CASES, indirect=["url"])
def test_killed_at_every_point(agent: str, server: LifeServer, url: str, tmp_path: Path) -> None:
    whole = Scene(server, url, tmp_path, agent, "whole")
    reported = whole.live()
    assert reported is not None
    assert reported["status"] == "completed", reported
    whole.check()
    points = reported["points"]
    assert len(points) > 8
    for number, point in chosen(points, agent):
        scene = Scene(server, url, tmp_path, agent, f"point-{number}")
        with repeatable(agent=agent, point=number, name=point):
            lived = scene.live(number)
            # Answers that arrive together share a commit: by chance a life has fewer points than the first one had.
            was_too_short = lived is not None and len(lived["points"]) < number
            assert lived is None or was_too_short or point == "after release", "it was to be killed"
            crash_ledger.check(scene.book)
            scene.to_the_end()
            scene.check()


def test_a_retry_that_is_killed_is_in_doubt_again(server: LifeServer, url: str, tmp_path: Path) -> None:
    """An operator's word is for one attempt."""
    scene = Scene(server, url, tmp_path, "tool_agent", "run")
    reported = Scene(server, url, tmp_path, "tool_agent", "whole").live()
    assert reported is not None
    assert scene.live(reported["points"].index("before once 0") + 1) is None
    in_doubt = scene.live()
    assert in_doubt is not None
    assert in_doubt["status"] == "in_doubt"
    scene.settle()
    coming_back = [
        *("before claim", "after claim", "before append", "after append"),  # that the attempt begins is on record
        *("before once 0", "after once 0"),
    ]
    assert scene.live(len(coming_back)) is None
    assert len(crash_ledger.done(scene.book, "once 0")) == 1
    scene.to_the_end()
    scene.check()


def test_the_ledger_can_be_wrong(tmp_path: Path) -> None:
    book = tmp_path / "ledger"
    crash_ledger.write(book, "did", "once 1", "a")
    crash_ledger.write(book, "saw", "once 1", "a")
    crash_ledger.check(book)
    crash_ledger.write(book, "did", "again 1", "b")
    crash_ledger.write(book, "did", "again 1", "c")
    crash_ledger.check(book)
    crash_ledger.write(book, "did", "seen 1", "a", None, 4)
    crash_ledger.write(book, "saw", "seen 1", "a", None, 4)
    crash_ledger.write(book, "did", "seen 1", "b", None, 3)
    crash_ledger.check(book)
    for wrong, what in [
        (("did", "once 1", "b"), "after its outcome was acknowledged"),
        (("saw", "once 1", "b"), "was seen as"),
        (("saw", "again 1", "d"), "never came of it"),
        (("did", "again 1", "d", "other"), "another input"),
        (("did", "seen 1", "a", None, 4), "after its outcome was acknowledged"),
    ]:
        bad = tmp_path / "bad"
        bad.write_bytes(book.read_bytes())
        crash_ledger.write(bad, *wrong)
        with pytest.raises(AssertionError, match=what):
            crash_ledger.check(bad)
    crash_ledger.write(book, "did", "once 2", "a")
    crash_ledger.write(book, "did", "once 2", "b")
    with pytest.raises(AssertionError, match="unasked"):
        crash_ledger.check(book)
