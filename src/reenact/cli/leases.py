"""Does anybody hold a run? Looked at without claiming it: a listing must not fence anybody off.

Stores have no verb for this; each kind is asked through its own way of reading. A kind that cannot be asked counts as
one whose runs nobody holds.
"""

from __future__ import annotations

from typing import Any

from reenact.journal.sources import holder_is_gone
from reenact.store.contract import Store

_SQLITE = "SELECT holder, lease_until, lease_boot FROM runs WHERE namespace = ? AND run = ?"
_POSTGRES = """select holder from reenact.runs
where namespace = %s and run = %s and holder is not null and lease_until > clock_timestamp()"""
_PARTS_OF_A_PROCESS = 5


def is_held(store: Store, namespace: str, run: str) -> bool:
    """True while somebody holds an unexpired lease of the run and is not known to be dead."""
    kind = type(store).__name__
    if kind == "SqliteStore":
        holder = _in_sqlite(store, namespace, run)
    elif kind == "PostgresStore":
        holder = _in_postgres(store, namespace, run)
    else:
        holder = None
    return holder is not None and not holder_is_gone("/".join(holder.split("/")[:_PARTS_OF_A_PROCESS]))


def _in_sqlite(store: Any, namespace: str, run: str) -> str | None:
    from reenact.store.sqlite import leases

    found: Any = store._read(lambda cursor: cursor.execute(_SQLITE, (namespace, run)).fetchone())
    if found is None:
        return None
    holder, until, boot = found
    live = isinstance(holder, str) and isinstance(until, int) and boot == leases.boot_id() and until > leases.now()
    return holder if live else None


def _in_postgres(store: Any, namespace: str, run: str) -> str | None:
    found = store._rows(_POSTGRES, (namespace, run))
    return str(found[0][0]) if found else None
