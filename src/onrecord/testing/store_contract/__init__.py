"""The suite every store passes. For a store of your own, subclass and say how to make one:

    class TestMyStore(StoreContract):
        def make_store(self):
            return MyStore(...)          # empty

        def reopen(self, store):
            return MyStore(...)          # a second instance over the same data, or None

Rules: each test takes one sentence of `reenact.store.contract` and tries to break it. Rows are arbitrary
bytes, since a store parses none. Tests of races start their threads at a barrier and repeat; tests of forks
need a store that survives one.
"""

from reenact.testing.store_contract.builders import (
    NS,
    Writer,
    all_rows,
    at_once,
    digest,
    event_row,
    event_rows,
    head_of,
    header_row,
    in_child,
)
from reenact.testing.store_contract.suite import StoreContract

__all__ = [
    "NS",
    "StoreContract",
    "Writer",
    "all_rows",
    "at_once",
    "digest",
    "event_row",
    "event_rows",
    "head_of",
    "header_row",
    "in_child",
]
