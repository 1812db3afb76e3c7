"""Format without I/O: canonical JSON, codec, events, links, hashes, Merkle nodes, redaction."""
