"""What the tests of forks share: carrying agents of either kind, reading what they wrote, and counting what is done."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from kit.runtime import complete
from onrecord.journal.export import export_run
from onrecord.journal.import_file import import_file
from onrecord.journal.reader import JournalReader
from onrecord.journal.verify import verify_run


def fork(agent: Any, *args: Any, **options: Any) -> Any:
    return complete(agent, lambda: agent.fork(*args, **options))


def replay_live(agent: Any, *args: Any, **options: Any) -> Any:
    return complete(agent, lambda: agent.replay_live(*args, **options))


def outcome(call: Callable[[], Any]) -> Any:
    """What came of it, comparable: the value, or the error that the agent itself ended with."""
    try:
        return ["gave", call()]
    except Exception as error:
        return ["raised", type(error).__name__, str(error)]


def entries(store: Any, run_id: str) -> list[Any]:
    return list(JournalReader(store, run_id).scan())


def kinds(store: Any, run_id: str) -> list[str]:
    return [one.kind for one in entries(store, run_id)]


def seqs(store: Any, run_id: str, kind: str, name: str | None = None) -> list[int]:
    """Where events of that kind stand; of requests, those of that name, and of answers, those to it."""
    found = []
    for one in entries(store, run_id):
        key = one.key or getattr(one.event, "action_id", "") or getattr(one.event, "wait_id", "")
        if one.kind == kind and (name is None or f"/{name}/" in key):
            found.append(one.seq)
    return found


def notes(store: Any, run_id: str, name: str) -> list[Any]:
    """What the run has noted about itself under that name."""
    processes = [one.event.process for one in entries(store, run_id) if one.kind == "ProcessAttached"]
    return [process[name] for process in processes if isinstance(process, dict) and name in process]


def assert_verifies(store: Any, run_id: str) -> None:
    found = verify_run(store, run_id, deep=True)
    assert found.valid, str(found)


def moved(store: Any, run_id: str, other: Any) -> None:
    """The run is exported, and imported into another store."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "run.jsonl"
        export_run(JournalReader(store, run_id), path)
        import_file(other, path)


class Ledger:
    """What was really carried out."""

    def __init__(self) -> None:
        self.lines: list[tuple[Any, ...]] = []

    def did(self, *what: Any) -> None:
        self.lines.append(what)

    def clear(self) -> None:
        self.lines.clear()

    def count(self, *what: Any) -> int:
        return sum(line[: len(what)] == what for line in self.lines)

    @property
    def names(self) -> Counter[str]:
        return Counter(line[0] for line in self.lines)
