"""Forks of runs: the change, the policy of the tail, substitutes for effects."""
