"""`onrecord --help` groups every command under one of five headings; a usage line names each argument once."""

from __future__ import annotations

import pkgutil
from importlib import import_module

import click
import pytest

from kit.cli import onrecord
from onrecord.cli import commands
from onrecord.cli.main import COMMANDS, GROUPS

HEADINGS = ["Record", "Look", "Replay", "Prove", "Operate"]


def test_every_command_is_in_exactly_one_group() -> None:
    assert list(GROUPS) == HEADINGS
    grouped = [name for group in GROUPS.values() for name in group]
    assert sorted(grouped) == sorted(set(grouped)) == sorted(COMMANDS)
    defined = set()
    for module in pkgutil.iter_modules(commands.__path__):
        loaded = import_module(f"{commands.__name__}.{module.name}")
        inner = {
            one for group in vars(loaded).values() if isinstance(group, click.Group) for one in group.commands.values()
        }
        defined |= {
            one.name
            for one in vars(loaded).values()
            if isinstance(one, click.Command) and one not in inner and one.name
        }
    assert defined == set(grouped)


def test_help_prints_the_groups_in_order() -> None:
    lines = onrecord("--help").stdout.splitlines()
    assert [line[:-1] for line in lines if line.endswith(":") and not line.startswith((" ", "Options"))] == HEADINGS
    for heading, group in GROUPS.items():
        at = lines.index(f"{heading}:") + 1
        printed = [
            line.split()[0] for line in lines[at : lines.index("", at) if "" in lines[at:] else None] if line[2] != " "
        ]
        assert printed == list(group)


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_a_usage_line_names_a_command_once(name: str) -> None:
    usage = " ".join(onrecord(name, "--help").stdout.partition("\n\n")[0].split())
    assert f" {name} " in usage
    assert usage.count("COMMAND") <= 1
    assert usage.count("[-- COMMAND...]") == (name in ("run", "replay", "doctor"))
    assert "…" not in usage, "click writes three dots: one form only"
