"""Cassettes of vcrpy and similar tools: read as hostile input, and played or stored as runs."""
