"""Live runs: requests, outcomes, streams, leases, transactions."""
