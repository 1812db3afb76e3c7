"""Install all interceptors in a process whose program is recorded or replayed, before the program is imported."""

from __future__ import annotations

from onrecord import interception
from onrecord.capture.interceptors import (
    clock,
    descriptors,
    install_http,
    install_ids,
    install_loops,
    install_mcp,
    randomness,
)
from onrecord.capture.interceptors.replacements import replace_all
from onrecord.capture.processes import start_patches


def install_interceptors() -> None:
    interception.install = interception.install_nothing  # these are the program's, for all runs in it
    clock.install_methods()
    replace_all([*clock.replacements(), *randomness.replacements()])
    install_http()
    install_mcp()
    install_loops()
    install_ids()
    start_patches.install()
    descriptors.install()
