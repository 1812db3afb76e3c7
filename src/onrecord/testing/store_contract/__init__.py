"""The suite that every store passes. For your own store, subclass it and define how to make one:

    class TestMyStore(StoreContract):
        def make_store(self):
            return MyStore(...)          # empty

        def reopen(self, store):
            return MyStore(...)          # a second instance over the same data, or None

Each test takes one sentence of `onrecord.store.contract` and tries to break it. Rows are arbitrary bytes, since a store
parses none. Tests of races start their threads at a barrier and repeat; tests of forks need a store that survives a
fork.
"""

from onrecord.testing.store_contract.builders import (
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
from onrecord.testing.store_contract.suite import StoreContract

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
