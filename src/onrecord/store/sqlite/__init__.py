"""The SQLite store, `store.SqliteStore`. Its rules are in `store.py`, its tables in `schema.py`."""
