"""Measure the same effect recorded by Onrecord and by others: each in its own process, in turns, on the same disk.

One effect is a function with 500 bytes of input and a small result, whose outcome has to be on the disk before the
caller sees it. Every peer is used as its users use it, with the faster setting where there is a choice:

- DBOS: a step of a workflow. It records the result alone, not the input.
- LangGraph: a node of a graph, `durability="sync"`; the state has the input and the result. Also its saver alone: the
  writes and the checkpoint of one node, without the graph.
- eventsourcing: one event of an aggregate, with input and result, saved by an application with the SQLite recorder.

    python -m bench.effects_peers NAME FOLDER default|equal

A process prints the settings of its database, then answers each count with the seconds that each effect took.
"""

from __future__ import annotations

import sqlite3
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, version
from itertools import pairwise
from pathlib import Path
from typing import Any, TypedDict

from bench.child_process import Child, ChildFailed, Parent
from bench.measurement import Row, Workplace, use_own_keys

ROUNDS = 10
SYNCHRONOUS = {0: "OFF", 1: "NORMAL", 2: "FULL", 3: "EXTRA"}
EQUAL = ["wal", "FULL"]

Effect = Callable[[int], list[float]]
"""Executes that many effects and returns the seconds of each."""


def measure_peers(workplace: Workplace) -> Iterator[Row]:
    use_own_keys(workplace)
    children: dict[tuple[str, str], Child] = {}
    failed: dict[tuple[str, str], str] = {}
    for name in SUBJECTS:
        for setting in ("default", "equal") if name != "onrecord" else ("default",):
            folder = workplace.path(f"peer-{name}-{setting}")
            folder.mkdir()
            try:
                log = workplace.path(f"peer-{name}-{setting}.log")
                children[name, setting] = Child("bench.effects_peers", name, str(folder), setting, log=log)
            except ChildFailed as failure:
                failed[name, setting] = str(failure)
            if (name, setting) in children and children[name, setting].hello == EQUAL:
                break  # its default already has equal durability
    found: dict[tuple[str, str], list[float]] = {subject: [] for subject in children}
    each = max(1, workplace.count(2000, least=100) // ROUNDS)
    for turn in range(ROUNDS + 1):
        for subject, child in list(children.items()):
            try:
                walls = child.ask(each)
            except ChildFailed as failure:
                failed[subject] = str(failure)
                del children[subject], found[subject]
                continue
            if turn:  # the first round warms up
                found[subject].append(statistics.median(walls) * 1e6)
    for child in children.values():
        child.close()
    if ("onrecord", "default") not in found:
        raise SystemExit(f"Onrecord itself could not be measured: {failed['onrecord', 'default']}")
    ours = found.pop(("onrecord", "default"))
    for subject, times in found.items():
        yield _row(subject, children[subject].hello, times, ours)
    for (name, setting), reason in failed.items():
        yield Row(
            f"the same effect by {_title_with_version(name)}, {setting}",
            f"could not be measured: {reason}",
            "> 1 ×",
            None,
        )


def _row(subject: tuple[str, str], settings: list[str], times: list[float], ours: list[float]) -> Row:
    name, setting = subject
    ratio = statistics.median(theirs / our for theirs, our in zip(times, ours, strict=True))
    durability = f"journal {settings[0]}, synchronous {settings[1]}"
    how = "at equal durability" if setting == "equal" else "at its default"
    if setting == "default" and settings == EQUAL:
        how = "at its default, which is equal durability"
    return Row(
        f"one retry-safe effect by {_title_with_version(name)}, {how} ({durability})",
        f"{ratio:.2f} × ours ({statistics.median(times):.0f} µs against {statistics.median(ours):.0f} µs)",
        "> 1 ×",
        ratio > 1,
    )


def _title_with_version(name: str) -> str:
    title, package = TITLES[name]
    try:
        return f"{title} {version(package)}"
    except PackageNotFoundError:
        return title


def serve(parent: Parent, settings: list[str], effect: Effect) -> None:
    parent.say(settings)
    while (line := parent.next_line()) is not None:
        parent.say(effect(int(line)))


def time_each(act: Callable[[str], Any]) -> Effect:
    from bench.effects import make_input

    done = 0

    def effect(count: int) -> list[float]:
        nonlocal done
        walls = []
        for number in range(done, done + count):
            given = make_input(number)
            start = time.perf_counter()
            act(given)
            walls.append(time.perf_counter() - start)
        done += count
        return walls

    return effect


def read_pragmas(connection: Any) -> list[str]:
    """Return the journal mode and synchronous level that an SQLite connection reports."""
    journal = connection.execute("PRAGMA journal_mode").fetchone()[0]
    return [str(journal), SYNCHRONOUS[connection.execute("PRAGMA synchronous").fetchone()[0]]]


def set_equal_durability(connection: Any) -> None:
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")


def serve_onrecord(folder: Path, equal: bool, parent: Parent) -> None:
    import onrecord
    from bench.effects import look_up

    store = onrecord.open_store(f"sqlite:///{folder / 'onrecord.db'}")

    @onrecord.agent(name="bench-peer", store=store)
    def flow() -> None:
        serve(parent, EQUAL, time_each(look_up))

    flow()
    store.close()


def serve_dbos(folder: Path, equal: bool, parent: Parent) -> None:
    from dbos import DBOS, DBOSConfig
    from sqlalchemy import event
    from sqlalchemy.pool import Pool

    if equal:
        event.listen(Pool, "connect", lambda connection, _: set_equal_durability(connection))
    config: DBOSConfig = {
        "name": "bench",
        "system_database_url": f"sqlite:///{folder / 'dbos.sqlite'}",
        "log_level": "ERROR",
    }
    DBOS(config=config)

    @DBOS.step()
    def look_up(question: str) -> int:
        return len(question)

    def settings() -> list[str]:
        from dbos._dbos import _get_dbos_instance

        with _get_dbos_instance()._sys_db.engine.connect() as connection:
            return read_pragmas(connection.connection.cursor())

    @DBOS.workflow()
    def flow() -> None:
        serve(parent, settings(), time_each(look_up))

    DBOS.launch()
    flow()
    DBOS.destroy()


class _State(TypedDict):
    left: int
    question: str
    answer: int


def serve_langgraph(folder: Path, equal: bool, parent: Parent) -> None:
    from langgraph.checkpoint.sqlite import SqliteSaver
    from langgraph.graph import END, START, StateGraph

    from bench.effects import make_input

    start_times: list[float] = []

    def look_up(state: _State) -> _State:
        start_times.append(time.perf_counter())
        question = make_input(len(start_times))
        return {"left": state["left"] - 1, "question": question, "answer": len(question)}

    builder = StateGraph(_State)
    builder.add_node("look_up", look_up)
    builder.add_edge(START, "look_up")
    builder.add_conditional_edges("look_up", lambda state: "look_up" if state["left"] > 0 else END)
    with SqliteSaver.from_conn_string(str(folder / "langgraph.db")) as saver:
        saver.setup()
        if equal:
            set_equal_durability(saver.conn)
        graph = builder.compile(checkpointer=saver)

        def effect(count: int) -> list[float]:
            """Return the times from one node's start to the next: the graph continues once the last step is on disk."""
            start_times.clear()
            config: Any = {"configurable": {"thread_id": "1"}, "recursion_limit": count + 10}
            given: Any = {"left": count + 1, "question": "", "answer": 0}
            graph.invoke(given, config, durability="sync")
            return [after - before for before, after in pairwise(start_times)]

        serve(parent, read_pragmas(saver.conn), effect)


def serve_saver(folder: Path, equal: bool, parent: Parent) -> None:
    from langgraph.checkpoint.base import empty_checkpoint
    from langgraph.checkpoint.sqlite import SqliteSaver

    with SqliteSaver.from_conn_string(str(folder / "saver.db")) as saver:
        saver.setup()
        if equal:
            set_equal_durability(saver.conn)
        config: Any = {"configurable": {"thread_id": "1", "checkpoint_ns": ""}}
        config = saver.put(config, empty_checkpoint(), {"source": "input", "step": -1}, {})
        step = 0

        def look_up(question: str) -> None:
            nonlocal config, step
            values = {"question": question, "answer": len(question)}
            saver.put_writes(config, list(values.items()), f"task-{step}")
            checkpoint = empty_checkpoint()
            checkpoint["channel_values"] = values
            checkpoint["channel_versions"] = versions = dict.fromkeys(values, step + 1)
            config = saver.put(config, checkpoint, {"source": "loop", "step": step}, versions)
            step += 1

        serve(parent, read_pragmas(saver.conn), time_each(look_up))


def serve_eventsourcing(folder: Path, equal: bool, parent: Parent) -> None:
    from eventsourcing.application import Application
    from eventsourcing.domain import Aggregate, event

    class Run(Aggregate):
        answer = 0

        @event("LookedUp")
        def looked_up(self, question: str, answer: int) -> None:
            self.answer = answer

    application: Any = Application(
        env={"PERSISTENCE_MODULE": "eventsourcing.sqlite", "SQLITE_DBNAME": str(folder / "eventsourcing.db")}
    )
    run = Run()
    application.save(run)
    pool = application.recorder.datastore.pool
    kept = pool.get_connection(is_writer=True)
    raw: sqlite3.Connection = kept._sqlite_conn
    if equal:
        set_equal_durability(raw)
    settings = read_pragmas(raw)
    pool.put_connection(kept)

    def look_up(question: str) -> None:
        run.looked_up(question=question, answer=len(question))
        application.save(run)

    serve(parent, settings, time_each(look_up))


SUBJECTS: dict[str, Callable[[Path, bool, Parent], None]] = {
    "onrecord": serve_onrecord,
    "dbos": serve_dbos,
    "langgraph": serve_langgraph,
    "saver": serve_saver,
    "eventsourcing": serve_eventsourcing,
}
TITLES = {
    "onrecord": ("Onrecord", "onrecord"),
    "dbos": ("a step of DBOS", "dbos"),
    "langgraph": ("a node of LangGraph with SqliteSaver, sync,", "langgraph"),
    "saver": ("LangGraph's SqliteSaver alone (writes and checkpoint)", "langgraph-checkpoint-sqlite"),
    "eventsourcing": ("an application of eventsourcing", "eventsourcing"),
}

if __name__ == "__main__":
    SUBJECTS[sys.argv[1]](Path(sys.argv[2]), sys.argv[3] == "equal", Parent())
