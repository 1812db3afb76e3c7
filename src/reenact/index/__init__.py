"""An index of the runs of a store: a view, kept beside the log, so that lists and searches do not read all of it.

1. It may be deleted at any time and is built again from the log. One that is damaged, of another version, or not ours
   is made anew; nobody is told of it but by a search that is not whole yet.
2. It is brought up to date by what the store says has changed, never by reading everything again.
3. It keeps words and where they stand, not texts: what is shown of a hit is read from the log, and is as verified as
   everything else there.
4. Once something is removed or erased, the whole index is emptied and built again: no word outlives its event. A store
   in a file empties the index beside it itself (`store/sqlite/views.py`), whoever erases.

`files` says where it is, `database` keeps it in order, `catching_up` follows the log, `texts` and `queries` are pure,
`lists`, `searches` and `attention` are the reports.
"""
