"""Test suites for stores and effect hosts of others."""
