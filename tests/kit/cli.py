"""What the tests of the command line share: a folder of their own, runs to look at, and ways to damage them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw
from click.testing import CliRunner, Result

from kit import command_server
from onrecord.cli.main import cli
from onrecord.core.events import ActionRequested, ActionSucceeded, Completed, Event, Interrupted, StateUpdated
from onrecord.journal.chain import Draft
from onrecord.journal.journal import Journal
from onrecord.store.contract import Store
from onrecord.store.factory import open_store

STORE = ".onrecord/onrecord.db"


def onrecord(*arguments: str, stdin: str | bytes | None = None) -> Result:
    """The command in this process. stdout and stderr are kept apart."""
    return CliRunner().invoke(cli, [str(argument) for argument in arguments], input=stdin)


def onrecord_json(*arguments: str, status: int = 0) -> Any:
    """The one JSON document that the command writes."""
    result = onrecord(*arguments, "--json")
    assert result.exit_code == status, result.output
    return json.loads(result.stdout)


def onrecord_process(
    *arguments: str, env: dict[str, str] | None = None, stdout: Any = subprocess.PIPE, stdin: Any = subprocess.DEVNULL
) -> subprocess.CompletedProcess[str]:
    """Run the command in a process of its own: forked, or started where streams or the interpreter's settings count."""
    environment = {**os.environ, **(env or {})}
    is_plain = stdout is subprocess.PIPE and stdin is subprocess.DEVNULL
    if is_plain and not any(name.startswith("PYTHON") for name in env or ()):
        return command_server.call(arguments, env=environment)
    return subprocess.run(
        [sys.executable, "-m", "onrecord.cli.main", *arguments],
        stdout=stdout,
        stderr=subprocess.PIPE,
        stdin=stdin,
        text=True,
        timeout=90,
        env=environment,
    )


def assert_two_lines(stderr: str, code: str) -> None:
    """What happened with its code, and what to do."""
    lines = stderr.splitlines()
    assert len(lines) == 2, stderr
    assert lines[0].startswith("error: ")
    assert lines[0].endswith(f"[{code}]"), stderr
    assert lines[1].strip()


@contextmanager
def opened(path: str = STORE) -> Iterator[Store]:
    if path == STORE:
        Path(".onrecord").mkdir(mode=0o700, exist_ok=True)
    store = open_store(path)
    try:
        yield store
    finally:
        store.close()


def record(
    run: str,
    events: Sequence[Event | Draft] | None = None,
    *,
    facts: dict[str, Any] | None = None,
    path: str = STORE,
    namespace: str = "default",
) -> str:
    """Records a run and returns its id. By default: a question, its answer, a state, the end."""
    with (
        opened(path) as store,
        Journal.create(store, run, namespace, facts={"agent": "tester"} if facts is None else facts) as journal,
    ):
        journal.append(list(events) if events is not None else whole_run())
    return run


def whole_run() -> list[Event | Draft]:
    return [*asking("2+2?", "the answer is 4"), StateUpdated(payload={"sum": 4}), Completed(output="4")]


def asking(question: str, answer: Any, *, at: int = 1) -> list[Event | Draft]:
    return [
        ActionRequested(action_id=f"a{at}", payload={"question": question}, name="ask", effect="model_call"),
        Draft(ActionSucceeded(action_id=f"a{at}", output=answer), parent=at),
    ]


def blocked_run() -> list[Event | Draft]:
    return [StateUpdated(payload=1), Interrupted(value="may I?")]


@contextmanager
def tampering(path: str = STORE) -> Iterator[apsw.Connection]:
    """The database without the triggers that protect it, as somebody has it who owns the file. They are put back."""
    connection = apsw.Connection(path)
    triggers = connection.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'").fetchall()
    for name, _ in triggers:
        connection.execute(f"DROP TRIGGER {name}")
    try:
        yield connection
    finally:
        for _, sql in triggers:
            connection.execute(sql)
        connection.close()


def flip_content(run: str, seq: int, path: str = STORE) -> None:
    """One bit in the middle of a stored content."""
    _flip("content", run, seq, path)


def flip_link(run: str, seq: int, path: str = STORE) -> None:
    _flip("link", run, seq, path)


def _flip(column: str, run: str, seq: int, path: str) -> None:
    place = "WHERE seq = ? AND run_no = (SELECT run_no FROM runs WHERE run = ?)"
    with tampering(path) as connection:
        ((data,),) = connection.execute(f"SELECT {column} FROM events {place}", (seq, run)).fetchall()
        changed = bytearray(data)
        changed[len(changed) // 2] ^= 1
        connection.execute(f"UPDATE events SET {column} = ? {place}", (bytes(changed), seq, run))
        assert connection.changes() == 1


def exported(run: str, name: str = "run.jsonl") -> Path:
    result = onrecord("export", run, "-o", name)
    assert result.exit_code == 0, result.output
    return Path(name)
