"""The situations in which recorders of agents break, as programs; and who holds in them, measured."""
