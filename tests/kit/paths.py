"""Folders that tests read from, wherever the test lies."""

from __future__ import annotations

from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
ROOT = TESTS.parent
DOCS = ROOT / "docs"
DATA = ROOT.parent / "shared" / "data"
"""Outside test data. Tests that need it skip visibly where it is missing."""
