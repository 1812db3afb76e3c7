"""Pause the garbage collector while a program is loaded.

Loading creates tens of thousands of objects that all stay alive, so every collection over them is wasted time. The
program's own objects are collected as usual.
"""

from __future__ import annotations

import gc

_was_enabled = False


def pause() -> None:
    global _was_enabled
    _was_enabled = gc.isenabled()
    gc.disable()


def resume() -> None:
    """Resume collection for objects created from now on, and exempt all existing ones."""
    if _was_enabled:
        gc.freeze()
        gc.enable()
