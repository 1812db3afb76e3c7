"""Where Python keeps what is its own, and what was installed for it. Asked for once: that takes a while."""

from __future__ import annotations

import sysconfig

_PATHS = sysconfig.get_paths()

STANDARD_LIBRARY = _PATHS["stdlib"]
PYTHONS = tuple({path for name in ("stdlib", "platstdlib") if (path := _PATHS.get(name))})
INSTALLED = tuple({path for name in ("purelib", "platlib") if (path := _PATHS.get(name))})
