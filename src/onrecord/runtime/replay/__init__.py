"""History of a run, and what a replay compares with it."""
