"""Cassettes of vcrpy and its kin: read as the hostile input they may be, and played or kept as runs."""
