"""Install all interceptors in a process whose program is recorded or replayed, in the first lane of its run."""

from __future__ import annotations

from onrecord.capture.interceptors import clock, descriptors, install_http, install_loops, install_mcp, randomness
from onrecord.capture.processes import start_patches


def install_interceptors() -> None:
    clock.install()
    randomness.install()
    randomness.begin()
    install_http()
    install_mcp()
    install_loops()
    start_patches.install()
    descriptors.install()
