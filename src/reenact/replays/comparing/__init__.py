"""Comparing what was recorded with what came now: pure functions over plain JSON trees, results as values.

`expected` is what was recorded, `actual` what came now. Nothing here reads a store or a clock; trees are what the codec
makes of values (`reenact.core.codec.encode(value).tree`).
"""
