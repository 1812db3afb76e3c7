"""Agents and effects: recorded, resumed, replayed and forked."""
