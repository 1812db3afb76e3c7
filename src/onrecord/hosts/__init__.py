"""Effect hosts: they execute envelopes for runtimes with their own loop. `contract.py` has their rules."""
