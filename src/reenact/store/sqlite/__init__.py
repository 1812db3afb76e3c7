"""The SQLite store: `store.SqliteStore`. See `store.py` for its rules and `schema.py` for its tables."""
