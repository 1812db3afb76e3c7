"""Receipts and signed evidence."""
