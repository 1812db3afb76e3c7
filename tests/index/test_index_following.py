"""The index follows the log, whatever happens to either."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path
from unittest.mock import ANY

import apsw
import pytest

from kit.command_server import ForkedProcess
from kit.index import CANARY, found, listed, record, said, states
from onrecord.core.events import ActionRequested, Completed, StateUpdated
from onrecord.core.links import OPERATIONS_RUN
from onrecord.index import sync as catching_up
from onrecord.index.attention import attention_report
from onrecord.index.index import Index
from onrecord.index.lists import ListFilter, changes_since, list_report, place_of
from onrecord.index.searches import search_report
from onrecord.journal.chain import Draft
from onrecord.journal.erasure import erase_value
from onrecord.journal.journal import Journal
from onrecord.journal.retention import retire_run
from onrecord.reports.runs import RunFilter, runs_page
from onrecord.reports.times import iso_time
from onrecord.store.contract import Store
from onrecord.store.factory import open_store


def test_it_is_a_file_for_us_alone(store: Store, index: Index, path: str) -> None:
    record(store, "one")
    assert index.catch_up()
    assert index.path == path + ".index"
    for name in (path + ".index", path + ".index-wal"):
        assert stat.S_IMODE(os.stat(name).st_mode) == 0o600


def test_new_runs_and_events_are_followed(store: Store, index: Index) -> None:
    record(store, "one", said("fox"))
    assert found(index, "fox") == [("one", 2)]
    with Journal.create(store, "two", facts={"agent": "b"}) as journal:
        journal.append(states("hare"))
        assert found(index, "hare") == [("two", 1)]
        journal.append([*states("fox"), Completed(output=None)])
    assert found(index, "fox") == [("two", 2), ("one", 2)]
    assert listed(index) == ["two", "one"]


def test_the_list_says_what_the_log_says(store: Store, index: Index) -> None:
    for number in range(25):
        record(store, f"run-{number:02}", said(f"text {number}"), facts={"agent": f"agent-{number % 3}"})
    record(
        store, "open", [ActionRequested(action_id="a", payload=1, name="mail", effect="tool_call", meta={"once": True})]
    )
    assert index.catch_up()
    told = list_report(index, ListFilter(), cursor=None, limit=100)
    plain = runs_page(store, "default", RunFilter(), cursor=None, limit=100).runs
    assert [{name: line[name] for name in plain[0]} for line in told["runs"]] == plain
    assert told["agents"] == ["agent-0", "agent-1", "agent-2", "tester"]
    assert told["whole"] is True


def test_filters_and_pages(store: Store, index: Index) -> None:
    for number in range(10):
        events = said("x") if number % 2 else states("x")
        record(store, f"run-{number}", events, facts={"agent": f"agent-{number % 3}"})
    completed = ListFilter(RunFilter(statuses=frozenset({"completed"})))
    assert listed(index, completed) == [f"run-{number}" for number in (9, 7, 5, 3, 1)]
    both = ListFilter(RunFilter(statuses=frozenset({"completed"}), agents=frozenset({"agent-0"})))
    assert listed(index, both) == ["run-9", "run-3"]
    row = store.run_row("default", "run-4")
    assert row is not None
    assert listed(index, ListFilter(RunFilter(since=row.header.created))) == [f"run-{n}" for n in range(9, 3, -1)]
    assert listed(index, ListFilter(RunFilter(until=row.header.created))) == [f"run-{n}" for n in range(3, -1, -1)]
    seen, cursor = [], None
    while True:
        page = list_report(index, ListFilter(), cursor=cursor, limit=3)
        seen += [line["run"] for line in page["runs"]]
        cursor = page["next"]
        if cursor is None:
            break
    assert seen == [f"run-{number}" for number in range(9, -1, -1)]


def used(tokens: int, cost: float | None = None) -> dict[str, object]:
    usage = {"input_tokens": tokens - 1, "output_tokens": 1} | ({} if cost is None else {"cost": cost})
    return {"model": "m", "usage": usage}


def test_tokens_and_cost_are_summed_and_filtered_by(store: Store, index: Index) -> None:
    record(store, "cheap", said(used(10, 0.25)))
    record(store, "dear", said(used(20, 2.5)))
    record(store, "unknown", said("nothing is told"))
    assert index.catch_up()
    lines = {line["run"]: line["usage"] for line in list_report(index, ListFilter(), cursor=None, limit=9)["runs"]}
    assert lines["cheap"] == {"tokens": 10, "cost": 0.25}
    assert lines["dear"] == {"tokens": 20, "cost": 2.5}
    assert lines["unknown"] is None
    assert listed(index, ListFilter(least_cost=1.0)) == ["dear"]
    assert listed(index, ListFilter(most_cost=1.0)) == ["cheap"]
    assert listed(index, ListFilter(least_cost=0.1, most_cost=3.0)) == ["dear", "cheap"]


def test_changes_are_told_once_with_what_is_wanted(store: Store, index: Index) -> None:
    record(store, "one")
    assert index.catch_up()
    place = place_of(index)
    wanted = ListFilter(RunFilter(statuses=frozenset({"completed"})))
    assert changes_since(index, place, wanted) == {"place": place, "runs": []}
    with Journal.create(store, "two", facts={"agent": "b"}) as journal:
        journal.append(states("x"))
        index.catch_up()
        told = changes_since(index, place, wanted)
        assert told is not None
        assert [(line["run"], line["wanted"]) for line in told["runs"]] == [("two", False)]
        journal.append([Completed(output=None)])
    index.catch_up()
    told = changes_since(index, told["place"], wanted)
    assert told is not None
    assert [(line["run"], line["wanted"]) for line in told["runs"]] == [("two", True)]
    assert changes_since(index, "another.0", wanted) is None


def test_a_run_that_was_left_is_noticed(store: Store, index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("onrecord.index.index.RECHECK_SECONDS", 0.0)
    journal = Journal.create(store, "live", facts={"agent": "a"})
    journal.append(states("x"))
    running = ListFilter(RunFilter(statuses=frozenset({"running"})))
    assert listed(index, running) == ["live"]
    journal.release()
    assert listed(index, running) == []
    assert listed(index, ListFilter(RunFilter(statuses=frozenset({"interrupted"})))) == ["live"]


# What is removed


def files_holding(folder: Path, needle: bytes) -> list[str]:
    return [str(file) for file in folder.rglob("*") if file.is_file() and needle in file.read_bytes()]


def test_an_erased_value_leaves_it(store: Store, index: Index, path: str, tmp_path: Path) -> None:
    record(store, "one", said("the canaryword is here"))
    record(store, "two", said("fox"))
    assert found(index, "canaryword") == [("one", 2)]
    assert path + ".index" in {name.removesuffix("-wal") for name in files_holding(tmp_path, CANARY)}
    erase_value(store, "canaryword", reason="asked to")
    assert files_holding(tmp_path, CANARY) == [], "with nobody having looked at the index since"
    assert found(index, "canaryword") == []
    assert found(index, "fox") == [("two", 2)]
    assert listed(index) == ["two", "one"]


def test_a_removed_run_leaves_it(store: Store, index: Index, tmp_path: Path) -> None:
    record(store, "one", said("the canaryword is here"))
    record(store, "two", said("fox"))
    assert found(index, "canaryword") == [("one", 2)]
    retire_run(store, "one", reason="old")
    assert files_holding(tmp_path, CANARY) == []
    assert found(index, "canaryword") == []
    assert listed(index) == ["two"]


@pytest.mark.parametrize("removed", ["erased", "retired"])
def test_a_removal_elsewhere_is_noticed(removed: str, tmp_path: Path) -> None:
    """A store in memory has no file beside it: the index learns it from the operations journal."""
    store = open_store("memory://")
    index = Index(store)
    record(store, "one", said("canaryword"))
    assert found(index, "canaryword") == [("one", 2)]
    assert index.path is None
    if removed == "erased":
        erase_value(store, "canaryword", reason="asked to")
    else:
        retire_run(store, "one", reason="old")
    assert found(index, "canaryword") == []
    index.close()


def test_other_operations_do_not_empty_it(store: Store, index: Index) -> None:
    from onrecord.core.events import OperationNoted
    from onrecord.journal.operations import OperationsJournal

    record(store, "one", said("fox"))
    assert index.catch_up()
    birth = place_of(index).partition(".")[0]
    OperationsJournal.open_for(store, "default").note(OperationNoted(operation="key_rotated", detail={}))
    assert found(index, "fox") == [("one", 2)]
    assert place_of(index).partition(".")[0] == birth
    assert OPERATIONS_RUN not in listed(index)


# What is wrong with it


def broken(path: str, how: str) -> None:
    if how == "deleted":
        for suffix in ("", "-wal", "-shm"):
            Path(path + suffix).unlink(missing_ok=True)
        return
    if how == "garbage":
        Path(path).write_bytes(b"not a database at all" * 400)
        return
    if how == "flipped":
        data = bytearray(Path(path).read_bytes())
        for at in range(100, len(data), 97):
            data[at] ^= 0xFF
        Path(path).write_bytes(data)
        return
    if how == "empty":
        Path(path).write_bytes(b"")
        return
    connection = apsw.Connection(path)
    if how == "other_version":
        connection.pragma("user_version", 99)
    elif how == "more_tables":
        connection.execute("CREATE TABLE guest(x)")
    elif how == "trigger":
        connection.execute("CREATE TRIGGER t AFTER INSERT ON runs BEGIN DELETE FROM docs; END")
    elif how == "other_store":
        connection.execute("UPDATE meta SET value = 'sqlite:////elsewhere default' WHERE name = 'store'")
    else:
        connection.execute("DROP TABLE docs")
    connection.close()


DAMAGE = ["deleted", "garbage", "flipped", "empty", "other_version", "more_tables", "trigger", "other_store", "table"]


@pytest.mark.parametrize("how", DAMAGE)
def test_an_index_that_is_not_right_is_made_anew(store: Store, how: str) -> None:
    record(store, "one", said("fox"))
    first = Index(store)
    assert found(first, "fox") == [("one", 2)]
    assert first.path is not None
    first.close()
    broken(first.path, how)
    again = Index(store)
    assert found(again, "fox") == [("one", 2)]
    assert listed(again) == ["one"]
    again.close()


@pytest.mark.parametrize("how", ["garbage", "flipped", "table", "empty"])
def test_an_index_that_breaks_while_it_is_used_is_made_anew(store: Store, index: Index, how: str) -> None:
    record(store, "one", said("fox"))
    assert found(index, "fox") == [("one", 2)]
    index._database._ensure_open().execute("PRAGMA wal_checkpoint(TRUNCATE)")
    assert index.path is not None
    broken(index.path, how)
    record(store, "two", said("hare"))
    found(index, "hare")  # nobody is told; whoever looks next finds everything again
    assert found(index, "hare") == [("two", 2)]
    assert found(index, "fox") == [("one", 2)]


def test_a_link_in_its_place_is_not_followed(store: Store, path: str, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("mine")
    os.symlink(precious, path + ".index")
    record(store, "one", said("fox"))
    index = Index(store)
    assert found(index, "fox") == [("one", 2)]
    assert index.path is not None
    assert index.path.startswith(str(tmp_path / "cache"))
    assert precious.read_text() == "mine"
    index.close()


def test_where_nothing_can_be_written_it_is_kept_in_memory(
    store: Store, path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkdir(path + ".index")
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    record(store, "one", said("fox"))
    index = Index(store)
    assert index.path is None
    assert found(index, "fox") == [("one", 2)]
    index.close()


def test_another_store_under_the_same_name_is_noticed(path: str) -> None:
    for text in ("fox", "hare"):
        store = open_store(path)
        record(store, text, said(text))
        index = Index(store)
        assert listed(index) == [text]
        index.close()
        store.close()
        for suffix in ("", "-wal", "-shm"):
            Path(path + suffix).unlink(missing_ok=True)


def test_a_namespace_that_was_emptied_elsewhere_is_noticed(store: Store) -> None:
    """As a database that was made anew under its name: what is listed is not there."""
    record(store, "one", said("fox"))
    first = Index(store)
    assert first.catch_up()
    with first._database.writing() as connection:
        connection.execute("UPDATE runs SET run = 'gone'")
    first.close()
    again = Index(store)
    assert listed(again) == ["one"]
    again.close()


# Several at once


def test_namespaces_keep_apart(store: Store, index: Index) -> None:
    record(store, "one", said("fox"))
    record(store, "one", said("hare"), namespace="other")
    other = Index(store, "other")
    assert found(index, "hare") == []
    assert found(other, "hare") == [("one", 2)]
    assert found(other, "fox") == []
    assert other.path != index.path
    other.close()


def test_two_at_once_do_everything_once(store: Store, path: str) -> None:
    for number in range(120):
        record(store, f"run-{number:03}", said(f"fox number{number}"))
    stores = [open_store(path, read_only=True) for _ in range(3)]
    indexes = [Index(one) for one in stores]
    threads = [threading.Thread(target=lambda one=one: [one.catch_up(0.05) for _ in range(60)]) for one in indexes]
    for thread in threads:
        thread.start()
    for number in range(120, 150):
        record(store, f"run-{number:03}", said(f"fox number{number}"))
    for thread in threads:
        thread.join()
    for one in indexes:
        while not one.catch_up():
            pass
        runs = [run for run, _ in found(one, "fox", limit=1000)]
        assert len(runs) == len(set(runs)) == 150
    for one in (*indexes, *stores):
        one.close()


def test_a_process_that_is_killed_leaves_a_whole_index(store: Store, path: str) -> None:
    for number in range(150):
        record(store, f"run-{number:03}", said(f"fox number{number}"))
    code = (
        "import sys; from onrecord.index.index import Index; from onrecord.store.factory import open_store\n"
        "index = Index(open_store(sys.argv[1], read_only=True)); print('begun', flush=True); index.catch_up()"
    )
    for wait in (0.0, 0.03, 0.06, 0.1):
        ours, theirs = os.pipe()
        process = ForkedProcess([path], {1: theirs}, code=code)
        os.close(theirs)
        with open(ours) as printed:
            assert printed.readline() == "begun\n"
            threading.Event().wait(wait)
            process.kill()
        process.wait(60)
    index = Index(store)
    runs = [run for run, _ in found(index, "fox", limit=1000)]
    assert len(runs) == len(set(runs)) == 150
    index.close()


def test_lists_are_answered_from_the_log_while_it_is_built(
    store: Store, index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catching_up, "RUNS_AT_ONCE", 2)
    for number in range(6):
        record(store, f"run-{number}", said("fox"))
    assert index.catch_up(0.0) is False
    report = list_report(index, ListFilter(), cursor=None, limit=4)
    assert report["whole"] is False
    assert [line["run"] for line in report["runs"]] == ["run-5", "run-4", "run-3", "run-2"]
    assert search_report(index, "fox")["unread"] is None
    assert index.catch_up() is True
    again = list_report(index, ListFilter(), cursor=report["next"], limit=4)
    assert [line["run"] for line in again["runs"]] == ["run-1", "run-0"]


def test_a_damaged_run_is_listed_and_found_as_far_as_it_can_be_read(store: Store, index: Index, path: str) -> None:
    record(store, "one", states("fox", "hare", "owl"))
    connection = apsw.Connection(path)
    for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'trigger'").fetchall():
        connection.execute(f"DROP TRIGGER {name}")
    connection.execute("UPDATE events SET content = zeroblob(20) WHERE seq = 2")
    connection.close()
    assert found(index, "fox") == [("one", 1)]
    assert found(index, "hare") == []
    assert found(index, "owl") == [("one", 3)]
    assert listed(index) == ["one"]


@pytest.mark.parametrize("column", ["header", "hash", "content", "salt", "match"])
def test_a_run_whose_header_is_damaged_is_still_listed(store: Store, index: Index, path: str, column: str) -> None:
    record(
        store, "one", [*said("fox")[:2], ActionRequested(action_id="b", payload=1, name="mail", meta={"once": True})]
    )
    record(store, "two", said("hare"))
    connection = apsw.Connection(path)
    for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'trigger'").fetchall():
        connection.execute(f"DROP TRIGGER {name}")
    connection.execute(f"UPDATE runs SET {column} = zeroblob(40) WHERE run = 'one'")
    connection.execute("UPDATE events SET link = zeroblob(90) WHERE seq = 3 AND run_no = 1")
    connection.close()
    assert listed(index) == ["two", "one"]
    assert found(index, "hare") == [("two", 2)]
    assert attention_report(index, cursor=None, limit=5)["runs"] in ([], [ANY])


def test_times_are_those_of_the_log(store: Store, index: Index) -> None:
    record(store, "one", said("fox"))
    found(index, "fox")
    row = store.run_row("default", "one")
    assert row is not None
    (hit,) = search_report(index, "fox")["hits"]
    assert hit["created"] == iso_time(row.header.created)
    assert hit["kind"] == "ActionSucceeded"


def test_an_imported_time_that_no_calendar_has(store: Store, index: Index) -> None:
    with Journal.create(store, "one") as journal:
        journal.append([Draft(StateUpdated(payload="fox"))])
    assert found(index, "fox") == [("one", 1)]
