"""The wire formats of the providers. Each reads a request, and writes an answer whole or as the events of a stream."""
