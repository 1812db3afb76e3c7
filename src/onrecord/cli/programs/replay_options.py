"""Options of `reenact replay` that are about programs."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from reenact.errors import InvalidInput

if TYPE_CHECKING:  # loaded when the command runs
    from reenact.capture.terms import ReplayTerms


class ProgramReplay:
    """What was asked for."""

    def __init__(self, loose: str | None, break_at: int | None, realtime: bool) -> None:
        self.loose = loose
        self.break_at = break_at
        self.realtime = realtime

    def refuse(self, what: str) -> None:
        """Where nothing of it can be done."""
        given = [
            name
            for name, value in (("--loose", self.loose), ("--break-at", self.break_at), ("--realtime", self.realtime))
            if value
        ]
        if given:
            raise InvalidInput(f"{given[0]} is for the replay of one program, not for {what}", code="usage")

    def terms(self, *, json: bool) -> ReplayTerms:
        from reenact.capture.terms import ReplayTerms
        from reenact.effect.looseness import tiers_of

        tiers = tuple(sorted(tiers_of(self.loose))) if self.loose is not None else ()
        return ReplayTerms(loose=tiers, break_at=self.break_at, realtime=self.realtime, json=json)


def program_replay_options(command: Callable[..., Any]) -> Callable[..., Any]:
    loose = click.option(
        "--loose",
        metavar="TIER,…",
        help="Of a program: tolerate calls that have `moved`, or whose `content` has drifted; each is listed.",
    )
    at = click.option(
        "--break-at", type=click.IntRange(min=1), metavar="N", help="Of a program: into pdb at the effect of event N."
    )
    pace = click.option("--realtime", is_flag=True, help="Of a program: parts of streams come when they came.")

    @wraps(command)
    def gathered(*args: Any, **given: Any) -> Any:
        program = ProgramReplay(given.pop("loose"), given.pop("break_at"), given.pop("realtime"))
        return command(*args, program=program, **given)

    return loose(at(pace(gathered)))
