"""Whose code it is that asks for the time or for chance: the program's own, or a library's."""

from __future__ import annotations

import json
import sys
from types import FrameType
from typing import Any

from onrecord.capture.draws import is_own_frame


def frame_of(source: str, **module: Any) -> FrameType:
    """The frame of code that was made on the way, as `dataclasses` makes it."""
    found: list[FrameType] = []
    exec(source, {"note": lambda: found.append(sys._getframe(1)), **module})
    return found[0]


def test_made_code_belongs_to_the_module_that_it_was_made_for() -> None:
    assert not is_own_frame(frame_of("note()", __name__="json", __file__=json.__file__))
    assert is_own_frame(frame_of("note()", __name__="agent", __file__=__file__))


def test_a_program_without_a_file_is_the_programs_own() -> None:
    assert is_own_frame(frame_of("note()", __name__="__main__"))
