"""Judge many runs at once: shards, results, and the JUnit report. Nothing here executes a run."""
