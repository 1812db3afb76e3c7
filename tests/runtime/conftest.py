from __future__ import annotations

from kit.guards import hang_guard_of, own_keys

__all__ = ["hang_guard", "own_keys"]

hang_guard = hang_guard_of(120.0)
