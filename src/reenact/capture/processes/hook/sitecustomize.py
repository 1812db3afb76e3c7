"""Found first on the path of a Python that a recorded program starts, whichever Python that is.

It takes itself out of the way, loads the `sitecustomize` that would have been loaded without it, and begins the run of
this process if Reenact is installed here. Written so that any Python can read it.
"""

import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))


def _step_aside():
    # type: () -> None
    sys.path[:] = [place for place in sys.path if not place or os.path.abspath(place) != _HERE]
    sys.path_importer_cache.pop(_HERE, None)


def _load_the_users_own():
    # type: () -> None
    try:
        import sitecustomize  # type: ignore  # noqa: F401
    except ImportError as missing:
        if getattr(missing, "name", "sitecustomize") != "sitecustomize":
            raise


def _begin():
    # type: () -> None
    try:
        from reenact.capture.processes.arriving import arrive
    except Exception:
        return  # another Python, without Reenact: whoever started it names it
    arrive(_HERE)


_step_aside()
_OURS = sys.modules.pop("sitecustomize")
try:
    _load_the_users_own()
finally:
    sys.modules.setdefault("sitecustomize", _OURS)
    if sys.version_info >= (3, 11) and "REENACT_PROCESS" in os.environ:
        _begin()
