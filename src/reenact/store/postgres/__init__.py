"""The store in Postgres, for many workers on many machines."""

from reenact.store.postgres.connection import Timeouts
from reenact.store.postgres.store import PostgresStore

__all__ = ["PostgresStore", "Timeouts"]
