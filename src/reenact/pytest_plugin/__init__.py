"""Reenact for pytest: a test is recorded into a text file beside it, and replayed from there without a network."""
