"""Define the options that every command takes, before or after its name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import click

Decorated = TypeVar("Decorated", bound=Callable[..., Any])


@dataclass
class Settings:
    store: str | None = None
    namespace: str = "default"
    json: bool = False
    verbose: bool = False
    selected_run: str | None = None
    """The run that the command is about, for the hint of an error."""
    owns_process: bool = False
    """True if the process ends with the command."""


def _remember(context: click.Context, option: click.Parameter, value: Any) -> None:
    # An option after the command's name overrides the same option before it.
    settings = context.ensure_object(Settings)
    if value is not None and value is not False and option.name is not None:
        setattr(settings, option.name, value)


def shared_options(function: Decorated) -> Decorated:
    for names, about in (
        (("-v", "--verbose"), {"is_flag": True, "help": "Show a traceback with an error."}),
        (("--json",), {"is_flag": True, "help": "Write one JSON document to stdout."}),
        (("--namespace",), {"metavar": "NAME", "help": "Use this namespace (`default`)."}),
        (("--store",), {"metavar": "URL", "help": "Use this store: a path, sqlite:///path or postgresql://…"}),
    ):
        function = click.option(*names, expose_value=False, callback=_remember, **about)(function)
    return function
