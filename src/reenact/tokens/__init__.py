"""Receipts: one for every effect, that anybody can check by itself."""
