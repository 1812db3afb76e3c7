"""Index of the runs of a store: a view beside the log, so that lists and searches do not read the whole log.

1. The index may be deleted at any time; it is rebuilt from the log. An index that is damaged, of another version, or of
   another store is rebuilt silently. Until it is complete, a search reports how many runs are missing.
2. The store's change feed updates it; the log is never read again as a whole.
3. It stores words and their positions, not texts. The text of a hit is read from the log.
4. When something is removed or erased, the whole index is emptied and rebuilt, so that no word outlives its event. A
   file store empties its index itself (`store/sqlite/side_files.py`), whichever process erases.

`files` finds the file, `database` opens and repairs it, `sync` follows the log, `texts` and `queries` are pure,
`lists`, `searches` and `attention` are the reports.
"""
