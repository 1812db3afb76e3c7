"""The least work of recording an effect, in Python and in this format."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import orjson

from onrecord.core.hashing import SALT_BYTES, ZERO, commitment, link_hash, match_digest, next_prefix
from onrecord.core.links import write_link
from onrecord.store.sqlite import schema
from onrecord.store.sqlite.appends import write_fenced_insert

FULL, NORMAL = 2, 1


def make_least_effect(path: Path, make_input: Callable[[int], str]) -> Callable[[int], None]:
    """Return a function that records an effect without agent, lane and lock.

    It writes two events as text, hashes and links them, and commits each; the second commit is synced. The only check
    is the fence.
    """
    connection = apsw.Connection(str(path))
    connection.pragma("journal_mode", "wal")
    for statement in schema.TABLES:
        connection.execute(statement)
    connection.execute(
        "INSERT INTO runs(namespace, run, kind, created, hash, imported, epoch, header)"
        " VALUES('default', 'bench', 'run', 1, x'00', 0, 1, x'00')"
    )
    execute, statement = connection.cursor().execute, write_fenced_insert(1)
    seq, head, prefix = 0, ZERO, ZERO

    def append_event(kind: str, key: str, counted: dict[str, Any], parent: int | None, synchronous: int) -> None:
        nonlocal seq, head, prefix
        seq += 1
        stored, salt, now = orjson.dumps({"action_id": key, **counted}), os.urandom(SALT_BYTES), time.time_ns() // 1000
        match = match_digest(orjson.dumps({"content": counted, "kind": kind}, None, orjson.OPT_SORT_KEYS))
        event_id, content = f"_{now:x}_{seq:x}", commitment(salt, match, stored)
        link = write_link(content, event_id, key, kind, "0", parent, head, "bench", seq, now)
        head, prefix = link_hash(link), next_prefix(prefix, match, 0 if parent is None else 1)
        execute(f"PRAGMA synchronous={synchronous}")
        execute(statement, (1, 1, seq, event_id, kind, "0", seq, link, head, salt, match, prefix, b"\0" + stored))

    def effect(number: int) -> None:
        question, key = make_input(number), f"0/look_up/{number}"
        request = {"payload": {"question": question}, "name": "look_up", "effect": "durable_step"}
        append_event("ActionRequested", key, request, None, NORMAL)
        append_event("ActionSucceeded", key, {"output": len(question)}, seq, FULL)

    return effect
