"""The window of a history, and the digest that is read before it."""

from __future__ import annotations

import pytest

from onrecord.runtime.scheduler.items import (
    AHEAD,
    APART,
    Away,
    Began,
    Chunk,
    Drawn,
    Dropped,
    EffectOutcome,
    Ended,
    Item,
    Noted,
    Requested,
    SettledItem,
    Turn,
)
from onrecord.runtime.scheduler.window import Digest, Placed, Window, digest_history

ASK = Requested("k", "main", "a", 1)
OUT = EffectOutcome("k", 1)
AHEAD_TURN = Turn("timer", "main", 0, forced=AHEAD)


def _placed(items: list[Item]) -> list[Placed]:
    """Give positions to items: 10 to the first, with gaps of ten."""
    return [(10 * number, item) for number, item in enumerate(items, 1)]


def _chunk(number: int, key: str = "k") -> Chunk:
    return Chunk(key, number, "c")


@pytest.mark.parametrize(
    ("items", "digest"),
    [
        ([], Digest()),
        ([ASK], Digest(loose=None)),
        ([ASK, OUT], Digest(loose=21)),
        ([ASK, OUT, AHEAD_TURN], Digest(loose=21)),
        ([ASK, Turn("timer", "main", 0)], Digest(loose=None)),
        ([ASK, OUT, Ended(0)], Digest(is_whole=True, loose=None)),
        ([ASK, SettledItem("k", "done", 1)], Digest(loose=21)),
        ([ASK, OUT._replace(forced=APART)], Digest(loose=None)),
        ([ASK, OUT, OUT._replace(forced=APART)], Digest(loose=21)),
        ([ASK, SettledItem("k", "retry")], Digest(retries=frozenset("k"), loose=None)),
        ([ASK, SettledItem("k", "retry"), Began("k")], Digest(loose=None)),
        ([ASK, _chunk(0), _chunk(1)], Digest(void=frozenset({20, 30}), anew=frozenset("k"), loose=None)),
        ([ASK, _chunk(0), Noted("main", 0)], Digest(loose=None)),
        ([ASK, _chunk(0), _chunk(0, "other")], Digest(void=frozenset({30}), anew=frozenset({"other"}), loose=None)),
        ([ASK, _chunk(0), Began("k"), OUT], Digest(void=frozenset({20}), loose=41)),
        ([ASK, _chunk(0), OUT], Digest(loose=31)),
        (
            [ASK, SettledItem("k", "retry"), Dropped((10, 20)), OUT],
            Digest(dropped=frozenset({10, 20}), changes=(30,), loose=41),
        ),
        (
            [ASK, _chunk(0), Dropped((10, 20))],
            Digest(void=frozenset({20}), dropped=frozenset({10, 20}), changes=(30,), loose=None),
        ),
    ],
)
def test_digest_of_a_history(items: list[Item], digest: Digest) -> None:
    assert digest_history(iter(_placed(items)), writable=True) == digest


def test_digest_for_a_replay_executes_no_stream_again() -> None:
    assert digest_history(_placed([ASK, _chunk(0)]), writable=False) == Digest(loose=21)


def test_window_reads_only_to_the_next_rest() -> None:
    given: list[Item] = []

    def items():
        for number in range(1_000):
            for item in (ASK._replace(digest=number), OUT._replace(value=number)):
                given.append(item)
                yield 3 * len(given), item

    window = Window(items())
    assert given == []
    assert window.draw("main", "clock") is None
    assert window.meet_away("main", 0, None) is False
    assert len(given) == 2
    assert window.next_act("main") == (3, ASK._replace(digest=0))
    assert len(given) == 2


def test_cursor_passes_each_item_once() -> None:
    window = Window(_placed([ASK, OUT, Noted("main", 5)]))
    assert window.head() == ASK
    assert not window.head_is_made
    window.next_act("main")
    window.mark_made("main")
    assert window.head_is_made
    window.advance()
    assert (window.head(), window.position) == (OUT, 20)
    assert window.first_unmade() == (30, Noted("main", 5))
    window.advance()
    window.advance()
    assert window.head() is None
    assert window.position == 31


def test_draws_and_aways_are_met_once() -> None:
    window = Window(_placed([Drawn("main", "clock", 5), Away("main", 0), Away("main", 1, 2), OUT]))
    assert window.draw("main", "clock") == (5,)
    assert window.draw("main", "clock") is None
    assert not window.meet_away("main", 1, 0)
    assert window.meet_away("main", 1, 2)
    assert not window.meet_away("main", 1, None)
    assert window.meet_away("main", 0, None)


def test_void_chunk_is_no_rest() -> None:
    items = _placed([ASK, _chunk(0), Away("main", 1), Began("k"), OUT])
    window = Window(items, digest_history(items, writable=False))
    assert window.meet_away("main", 1, 0)


def test_void_chunks_that_were_dropped_are_not_kept() -> None:
    items = _placed([ASK, _chunk(0), Dropped((10, 20)), ASK])
    window = Window(items, digest_history(items, writable=True))
    while window.head() is not None:
        window.advance()
    assert window.dropped == [ASK]


def test_what_changed_code_does_is_found_after_the_change() -> None:
    """Reads no more than up to the next rest after the change."""
    dropped = Dropped((20,))
    items = _placed([ASK, OUT, dropped, Drawn("main", "clock", 5), Away("main", 1), Turn("timer", "main", 0), ASK])
    window = Window(iter(items), digest_history(items, writable=False))
    assert window.draw("main", "clock") == (5,)
    assert window.meet_away("main", 1, 0)
    assert not window.has_unmet
    assert window.held == 6


def test_void_chunks_are_marked() -> None:
    items = _placed([ASK, _chunk(0)])
    window = Window(items, digest_history(items, writable=True))
    assert window.head() == ASK
    assert not window.head_is_void
    window.advance()
    assert window.head_is_void
