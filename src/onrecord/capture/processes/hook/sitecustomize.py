"""Start hook, first on the path of every Python that a recorded program starts.

It removes itself, loads the `sitecustomize` that Python would have loaded, and begins the run of this process if
Onrecord is installed here. Any version of Python can parse it.
"""

import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))


def _load_users_sitecustomize():
    # type: () -> None
    try:
        import sitecustomize  # type: ignore  # noqa: F401
    except ImportError as missing:
        if getattr(missing, "name", "sitecustomize") != "sitecustomize":
            raise


def _begin():
    # type: () -> None
    try:
        from onrecord.capture.processes.child_start import begin_fresh
    except Exception:
        return  # another Python, without Onrecord: the parent reports it
    begin_fresh(_HERE)


sys.path[:] = [folder for folder in sys.path if not folder or os.path.abspath(folder) != _HERE]
sys.path_importer_cache.pop(_HERE, None)
_HOOK = sys.modules.pop("sitecustomize")
try:
    _load_users_sitecustomize()
finally:
    sys.modules.setdefault("sitecustomize", _HOOK)
    if sys.version_info >= (3, 11) and "ONRECORD_PROCESS" in os.environ:
        _begin()
