"""Folders of Python itself, of installed packages and of this package. Looked up once: `sysconfig` is slow."""

from __future__ import annotations

import os
import sys
import sysconfig

_PATHS = sysconfig.get_paths()

STANDARD_LIBRARY = _PATHS["stdlib"]
PYTHONS = tuple({path for name in ("stdlib", "platstdlib") if (path := _PATHS.get(name))})
INSTALLED = tuple({path for name in ("purelib", "platlib") if (path := _PATHS.get(name))})
ONRECORD = os.path.join(os.path.abspath(sys.modules["onrecord"].__path__[0]), "")
