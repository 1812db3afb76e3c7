"""Replay and verify many runs, on worker processes."""
