"""The store in PostgreSQL, for many workers on many machines."""

from onrecord.store.postgres.connection import Timeouts
from onrecord.store.postgres.store import PostgresStore

__all__ = ["PostgresStore", "Timeouts"]
