"""HTTP as effects: what is recorded of a request and of its answer, whichever library sends it."""
