"""Stores: verbs about bytes and sequence numbers, in memory, SQLite and Postgres."""
