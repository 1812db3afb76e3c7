from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from effect.guards import hang_guard_of, own_keys

__all__ = ["hang_guard", "own_keys"]

hang_guard = hang_guard_of(120.0)
