"""Start, replay and examine recorded programs."""
