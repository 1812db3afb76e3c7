"""The collector of cycles rests while a program is made ready.

Loading makes objects by the ten thousand, and all of them stay: whoever looks through them, again and again and once
more at the end of the process, finds nothing. The program's own objects are collected as ever.
"""

from __future__ import annotations

import gc

_rests = False


def rest() -> None:
    global _rests
    _rests = gc.isenabled()
    gc.disable()


def go_on() -> None:
    """From here on the program makes objects. What is there by now is passed over."""
    if _rests:
        gc.freeze()
        gc.enable()
