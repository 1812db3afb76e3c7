"""What the tests of transactions share: a table of the user's own, and work that writes to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from onrecord.store.contract import NodeRow, PendingAppend
from onrecord.testing.store_contract.builders import Writer, event_row


def with_table(store: Any) -> None:
    writer = Writer(store, "tables")
    store.transact(doing(writer, "CREATE TABLE notes(id INTEGER PRIMARY KEY, text TEXT UNIQUE)"))


def doing(writer: Writer, *statements: str, nodes: tuple[NodeRow, ...] = ()) -> Callable[[Any], PendingAppend]:
    """Work that carries the statements out and appends the next event."""

    def work(connection: Any) -> PendingAppend:
        for statement in statements:
            connection.execute(statement)
        row = event_row(writer.head.seq + 1, writer.run)
        return writer.pending(row)._replace(nodes=nodes)

    return work


def notes(store: Any) -> list[str]:
    found: list[str] = []

    class Looked(Exception):
        pass

    def look(connection: Any) -> PendingAppend:
        found.extend(row[0] for row in connection.execute("SELECT text FROM notes ORDER BY id").fetchall())
        raise Looked

    with pytest.raises(Looked):
        store.transact(look)
    return found
