"""Compare recorded values with new ones: pure functions over plain JSON trees. Results are values.

`expected` is the recorded side, `actual` the new one. Only `kept_differences` touches a store. The codec makes the
trees: `onrecord.core.codec.encode(value).tree`.
"""
