"""Plugin for pytest: record a test into a text file beside it, and replay it from there without a network."""
