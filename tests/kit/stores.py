"""Stores for tests: which kinds a test runs on, and a store that counts."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from kit.soak import cases

any_store = pytest.mark.parametrize("store", cases(["memory"], ["sqlite", "postgres"]), indirect=True)
"""Mark a test that no kind of store can change: it runs in memory, and on every kind in `make soak`."""


class CountingStore:
    """Pass every call on to a store; count the calls by name, the rows read and the rows written."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.calls: Counter[str] = Counter()
        self.rows_read = 0
        self.rows_written = 0

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if not callable(found):
            return found

        def counted(*args: Any, **options: Any) -> Any:
            self.calls[name] += 1
            result = found(*args, **options)
            if name == "append":
                self.rows_written += len(args[2] if len(args) > 2 else options["rows"])
            elif name == "append_many":
                self.rows_written += sum(len(one.rows) for one in args[0])
            elif name == "event" and result is not None:
                self.rows_read += 1
            return self._counting(result) if name == "scan" else result

        return counted

    def _counting(self, rows: Any) -> Any:
        for row in rows:
            self.rows_read += 1
            yield row
