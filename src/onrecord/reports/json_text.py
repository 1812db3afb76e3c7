"""Reports as bytes of JSON."""

from __future__ import annotations

import json
import sys
import threading
from typing import Any

import orjson

DEEPEST_JSON = 20_000
_deep = threading.Lock()


def json_bytes(value: Any) -> bytes:
    """Compact JSON in UTF-8, whatever was recorded: also what is nested deeper, or longer, than quick writers take."""
    try:
        return orjson.dumps(value)
    except (TypeError, ValueError):  # too deep, an integer of more than 64 bits, half a surrogate pair
        pass
    with _deep:  # the limit is that of the whole process
        limit = sys.getrecursionlimit()
        sys.setrecursionlimit(max(limit, DEEPEST_JSON))
        try:
            return json.dumps(value, separators=(",", ":")).encode()
        finally:
            sys.setrecursionlimit(limit)
