"""What the plugin is told: on the command line, by a marker, in the project's settings. Loaded with pytest itself.

The command line goes before the marker, the marker before the settings. In CI nothing is recorded unless that is said
on the command line, and said to be meant: a recording that nobody sees does not belong into anything.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

import pytest

if TYPE_CHECKING:
    from pathlib import Path

MARKER = "reenact"
FIXTURE = "reenact"
Mode = Literal["none", "once", "new", "all"]
NONE: Mode = "none"
ONCE: Mode = "once"
NEW: Mode = "new"
ALL: Mode = "all"
MODES: tuple[Mode, ...] = get_args(Mode)
MATCHED = ("method", "uri", "body")
_NOT_CI = frozenset({"", "0", "false", "no"})


class Asked(NamedTuple):
    """What a marker says: `@pytest.mark.reenact(mode="once")`, `@pytest.mark.reenact(cassette="login.yaml")`."""

    mode: Mode | None = None
    cassette: str | bool | None = None
    """A cassette of vcrpy that answers instead, relative to the test module. True: where pytest-recording puts it."""
    match_on: tuple[str, ...] = MATCHED
    """What of a request has to be as it is in the cassette."""


def add_options(parser: pytest.Parser) -> None:
    group = parser.getgroup("reenact", "record and replay what tests do (reenact)")
    group.addoption(
        "--reenact",
        dest="reenact_mode",
        choices=MODES,
        default=None,
        help="none: replay, and touch nothing (default); once: record what has no recording; "
        "new: replay what is recorded, record the rest; all: record anew.",
    )
    group.addoption(
        "--reenact-in-ci",
        dest="reenact_in_ci",
        action="store_true",
        help="Recording is meant, although this is CI.",
    )
    parser.addini("reenact_mode", "The mode where none is given: none, once, new or all.", default=NONE)
    parser.addini(
        "reenact_block_network",
        "Every test is kept from the network, whether or not it is recorded.",
        type="bool",
        default=False,
    )
    parser.addini(
        "reenact_allow_hosts",
        "Hosts that a test may connect to although it is replayed, such as 127.0.0.1 or localhost.",
        type="args",
        default=[],
    )


def check_options(config: pytest.Config) -> None:
    """Refuses what cannot be, before anything is collected."""
    told = config.getini("reenact_mode")
    if told not in MODES:
        raise pytest.UsageError(f"reenact_mode is one of {', '.join(MODES)}, not {told!r}")
    given = config.getoption("reenact_mode")
    if given not in (None, NONE) and is_ci(os.environ) and not config.getoption("reenact_in_ci"):
        raise pytest.UsageError(
            f"--reenact={given} records, and this is CI: nobody would see what came.\n"
            "Record where you work and commit the recordings; if it is meant, add --reenact-in-ci."
        )


def is_ci(environment: Mapping[str, str]) -> bool:
    return environment.get("CI", "").lower() not in _NOT_CI


def asked_of(item: pytest.Item) -> Asked | None:
    """None: the test has nothing to do with us."""
    marker = item.get_closest_marker(MARKER)
    if marker is None:
        return Asked() if FIXTURE in getattr(item, "fixturenames", ()) else None
    return _read(item, marker)


def _read(item: pytest.Item, marker: pytest.Mark) -> Asked:
    given: dict[str, Any] = dict(zip(("mode",), marker.args, strict=False))
    given.update(marker.kwargs)
    if len(marker.args) > 1 or given.keys() - set(Asked._fields):
        known = ", ".join(Asked._fields)
        raise pytest.UsageError(f"{item.nodeid}: pytest.mark.reenact takes {known} and nothing else")
    if given.get("mode") not in (None, *MODES):
        raise pytest.UsageError(f"{item.nodeid}: mode is one of {', '.join(MODES)}, not {given['mode']!r}")
    matched = given.get("match_on", MATCHED)
    if isinstance(matched, str) or not set(matched) <= set(MATCHED) or not matched:
        raise pytest.UsageError(f"{item.nodeid}: match_on is a list of {', '.join(MATCHED)}")
    return Asked(given.get("mode"), given.get("cassette") or None, tuple(matched))


def mode_of(item: pytest.Item, asked: Asked) -> Mode:
    config = item.config
    given: Mode | None = config.getoption("reenact_mode")
    if given is not None:
        return given
    told: Mode = asked.mode or config.getini("reenact_mode")
    return NONE if is_ci(os.environ) and not config.getoption("reenact_in_ci") else told


def cassette_path(item: pytest.Item, name: str | bool) -> Path:
    if isinstance(name, str):
        return item.path.parent / name
    test = ".".join(item.nodeid.split("::")[1:])
    return item.path.parent / "cassettes" / item.path.stem / f"{test}.yaml"
