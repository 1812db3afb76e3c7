"""The runs of a store over HTTP: what the command line prints with `--json`, for browsers and programs.

A request passes, in this order:

1. `protocol.py`    bounds every connection: how many, how long a head may take, how long nobody may read an answer
2. `access.py`      decides who may come in: Host, Origin, token; pure
3. `app.py`         finds the endpoint; errors become JSON with a stable code here, and nowhere else
4. `threads.py`     does what blocks, on a bounded number of threads
5. `read_endpoints.py`, `check_endpoints.py`, `write_endpoints.py`, `run_streams.py`, `run_feed.py`   the endpoints

Everything is read through a store that was opened for reading only; resolving and settling open another one.
"""
