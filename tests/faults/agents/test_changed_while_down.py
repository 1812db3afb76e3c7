"""The code changes between crash and resume: named, nothing carried out, nothing written, and the old code goes on."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
from crash_scene import Scene

from kit import crash_ledger
from kit.life_server import LifeServer
from kit.soak import cases
from onrecord.journal.reader import JournalReader
from onrecord.store.factory import open_store

# What was changed → how it is called, the seq of the recorded event that it does not fit, where both differ first.
CHANGES = {
    "other_input": ("conflicting_request", 4, "/payload/given"),
    "other_tool": ("unrecorded_request", 4, None),
    "inserted": ("unrecorded_request", 2, None),
    "dropped": ("conflicting_request", 2, "/payload/tag"),
    "shorter": ("missing_request", 4, None),
    "other_state": ("conflicting_state", 1, "/payload/step"),
    "at_once": ("missing_request", 2, None),
    "failing_early": ("missing_state", 1, None),
}


def killed_after_the_second_mail(server: LifeServer, url: str, folder: Path, where: str) -> Scene:
    whole = Scene(server, url, folder, "edited_agent", "whole")
    reported = whole.live(code="unchanged")
    assert reported is not None
    scene = Scene(server, url, folder, "edited_agent", "run")
    assert scene.live(reported["points"].index(where) + 1, code="unchanged") is None
    return scene


WHERE = ("seen once 2", "after once 2")
CASES = cases(
    [
        *((change, WHERE[number % 2], "sqlite") for number, change in enumerate(CHANGES)),
        *(("other_input", where, "postgres") for where in WHERE),
    ],
    [(change, where, url) for change in CHANGES for where in WHERE for url in ("sqlite", "postgres")],
)


@pytest.mark.parametrize(("change", "where", "url"), CASES, indirect=["url"])
def test_changed_while_down(change: str, where: str, server: LifeServer, url: str, tmp_path: Path) -> None:
    scene = killed_after_the_second_mail(server, url, tmp_path, where)
    with closing(open_store(url)) as store:
        head = JournalReader(store, "run").head()
    before = [line for line in crash_ledger.read(scene.book) if line.what == "did"]
    for _ in range(2):
        reported = scene.live(code=change)
        assert reported is not None
        code, seq, path = CHANGES[change]
        assert reported["status"] == code, reported
        assert reported["where"]["seq"] == repr(seq), reported
        if path is not None:
            assert reported["where"]["path"] == repr(path), reported
        assert [line for line in crash_ledger.read(scene.book) if line.what == "did"] == before, "something was done"
        with closing(open_store(url)) as store:
            assert JournalReader(store, "run").head() == head, "something was written"
            claim = store.claim("default", "run", "somebody else", 1.0)
            assert claim.granted, "the lease was kept"
            store.release("default", "run", claim.epoch)
    for _ in range(3):
        reported = scene.live(code="unchanged")
        assert reported is not None
        if reported["status"] == "completed":
            break
        assert reported["status"] == "in_doubt"
        scene.settle()
    scene.check()
    assert [line.tag for line in crash_ledger.read(scene.book) if line.what == "did"] == ["once 1", "once 2", "once 3"]
