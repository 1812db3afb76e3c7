"""Journal: the hash chain of one run. The only code that links hashes."""
