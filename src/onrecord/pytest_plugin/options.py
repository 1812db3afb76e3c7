"""Options of the plugin: command line, marker and the project's settings. Imported at every start of pytest.

The command line overrides the marker, and the marker overrides the settings. In CI nothing is recorded unless the
command line has `--onrecord-in-ci`: a recording made there would be lost.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

import pytest

if TYPE_CHECKING:
    from pathlib import Path

MARKER = "onrecord"
FIXTURE = "onrecord"
Mode = Literal["none", "once", "new", "all"]
NONE: Mode = "none"
ONCE: Mode = "once"
NEW: Mode = "new"
ALL: Mode = "all"
MODES: tuple[Mode, ...] = get_args(Mode)
MATCH_PARTS = ("method", "uri", "body")
_CI_OFF = frozenset({"", "0", "false", "no"})


class MarkerOptions(NamedTuple):
    """Arguments of a marker, such as `@pytest.mark.onrecord(mode="once")` or `…(cassette="login.yaml")`."""

    mode: Mode | None = None
    cassette: str | bool | None = None
    """Cassette of vcrpy that answers, relative to the test module. True: the path that pytest-recording uses."""
    match_on: tuple[str, ...] = MATCH_PARTS
    """Parts of a request that must equal the cassette's."""


def add_options(parser: pytest.Parser) -> None:
    group = parser.getgroup("onrecord", "record and replay what tests do (onrecord)")
    group.addoption(
        "--onrecord",
        dest="onrecord_mode",
        choices=MODES,
        default=None,
        help="none: replay, record nothing (default); once: record tests without a recording; "
        "new: replay recorded effects and record the others; all: record everything again.",
    )
    group.addoption("--onrecord-in-ci", dest="onrecord_in_ci", action="store_true", help="Allow recording in CI.")
    parser.addini("onrecord_mode", "The default mode: none, once, new or all.", default=NONE)
    parser.addini(
        "onrecord_block_network",
        "Keep every test from the network, also tests that are not recorded.",
        type="bool",
        default=False,
    )
    parser.addini(
        "onrecord_allow_hosts",
        "Hosts that a replayed test may connect to, such as 127.0.0.1 or localhost.",
        type="args",
        default=[],
    )


def check_options(config: pytest.Config) -> None:
    """Raise a usage error for invalid options, before anything is collected."""
    setting = config.getini("onrecord_mode")
    if setting not in MODES:
        raise pytest.UsageError(f"onrecord_mode is one of {', '.join(MODES)}, not {setting!r}")
    option = config.getoption("onrecord_mode")
    if option not in (None, NONE) and is_ci(os.environ) and not config.getoption("onrecord_in_ci"):
        raise pytest.UsageError(
            f"--onrecord={option} records, and this is CI, where the recordings would be lost.\n"
            "Record locally and commit the recordings, or add --onrecord-in-ci."
        )


def is_ci(environment: Mapping[str, str]) -> bool:
    return environment.get("CI", "").lower() not in _CI_OFF


def read_marker(item: pytest.Item) -> MarkerOptions | None:
    """Return the marker's options, or None if the test is not recorded."""
    marker = item.get_closest_marker(MARKER)
    if marker is None:
        return MarkerOptions() if FIXTURE in getattr(item, "fixturenames", ()) else None
    return _parse_marker(item, marker)


def _parse_marker(item: pytest.Item, marker: pytest.Mark) -> MarkerOptions:
    arguments: dict[str, Any] = dict(zip(("mode",), marker.args, strict=False))
    arguments.update(marker.kwargs)
    if len(marker.args) > 1 or arguments.keys() - set(MarkerOptions._fields):
        known = ", ".join(MarkerOptions._fields)
        raise pytest.UsageError(f"{item.nodeid}: pytest.mark.onrecord takes {known} and nothing else")
    if arguments.get("mode") not in (None, *MODES):
        raise pytest.UsageError(f"{item.nodeid}: mode is one of {', '.join(MODES)}, not {arguments['mode']!r}")
    match_on = arguments.get("match_on", MATCH_PARTS)
    if isinstance(match_on, str) or not set(match_on) <= set(MATCH_PARTS) or not match_on:
        raise pytest.UsageError(f"{item.nodeid}: match_on is a list of {', '.join(MATCH_PARTS)}")
    return MarkerOptions(arguments.get("mode"), arguments.get("cassette") or None, tuple(match_on))


def choose_mode(item: pytest.Item, marker_options: MarkerOptions) -> Mode:
    config = item.config
    option: Mode | None = config.getoption("onrecord_mode")
    if option is not None:
        return option
    setting: Mode = marker_options.mode or config.getini("onrecord_mode")
    return NONE if is_ci(os.environ) and not config.getoption("onrecord_in_ci") else setting


def cassette_path(item: pytest.Item, name: str | bool) -> Path:
    if isinstance(name, str):
        return item.path.parent / name
    test = ".".join(item.nodeid.split("::")[1:])
    return item.path.parent / "cassettes" / item.path.stem / f"{test}.yaml"
