"""Everything that a process needs whose program is recorded or replayed. Called in the first lane of its run."""

from __future__ import annotations

from reenact.capture.processes import seams
from reenact.capture.seams import chance, clock, descriptors, install_http, install_loops, install_mcp


def equip() -> None:
    clock.install()
    chance.install()
    chance.begin()
    install_http()
    install_mcp()
    install_loops()
    seams.install()
    descriptors.install()
