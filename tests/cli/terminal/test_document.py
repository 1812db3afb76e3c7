"""docs/reference/cli.md names every command, and nothing that is not there."""

from __future__ import annotations

import re
import shlex

import click
import pytest

from kit.paths import DOCS
from onrecord.cli.main import COMMANDS, cli

DOCUMENT = (DOCS / "reference" / "cli.md").read_text()
EXAMPLES = [line.partition("  #")[0] for line in re.findall(r"^\$ (onrecord .*)$", DOCUMENT, re.MULTILINE)]


def test_every_command_is_named() -> None:
    assert [name for name in COMMANDS if not re.search(rf"`{name}[ `]|onrecord {name}\b", DOCUMENT)] == []


@pytest.mark.parametrize("line", EXAMPLES)
def test_every_example_can_be_typed(line: str) -> None:
    """It is parsed as the command parses it; nothing runs."""
    words = shlex.split(line.partition("|")[0])[1:]
    command: click.Command | None = cli
    context = click.Context(cli)
    while isinstance(command, click.Group):
        name = words.pop(0)
        command = command.get_command(context, name)
    assert command is not None
    command.make_context(name, words, parent=context)
