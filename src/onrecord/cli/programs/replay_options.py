"""Options of `onrecord replay` for programs."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from onrecord.errors import InvalidInput

if TYPE_CHECKING:  # loaded when the command runs
    from onrecord.capture.program_task import ReplayTerms


INSTEAD = {
    "--loose": "Replay it live, within a tolerance: `onrecord replay {run} --live --content normalised`.",
    "--break-at": "Write `breakpoint()` in the agent and replay it; `onrecord step {run}` steps through its events.",
}
"""Option → the hint for an agent."""


class ProgramReplayOptions(NamedTuple):
    loose: str | None
    break_at: int | None
    realtime: bool

    def refuse(self, what: str, run: str = "") -> None:
        """Refuse the options for anything but one program."""
        given = [f"--{name.replace('_', '-')}" for name, value in self._asdict().items() if value]
        if given:
            message = f"{given[0]} is for the replay of one program, not for {what}"
            raise InvalidInput(message, hint=INSTEAD.get(given[0], "").format(run=run) if run else "", code="usage")

    def terms(self, *, json: bool, strict: bool = False) -> ReplayTerms:
        from onrecord.capture.program_task import ReplayTerms
        from onrecord.runtime.replay.loose_match import tiers_of

        tiers = tuple(sorted(tiers_of(self.loose))) if self.loose is not None else ()
        return ReplayTerms(loose=tiers, break_at=self.break_at, realtime=self.realtime, json=json, strict=strict)


def program_replay_options(command: Callable[..., Any]) -> Callable[..., Any]:
    @click.option(
        "--loose",
        metavar="TIER,…",
        help="Programs: tolerate calls that have `moved`, or whose `content` has drifted; each is listed.",
    )
    @click.option(
        "--break-at", type=click.IntRange(min=1), metavar="N", help="Programs: start pdb at the effect of event N."
    )
    @click.option("--realtime", is_flag=True, help="Programs: replay streams at their recorded pace.")
    @wraps(command)
    def collect_options(*args: Any, **given: Any) -> Any:
        program = ProgramReplayOptions(given.pop("loose"), given.pop("break_at"), given.pop("realtime"))
        return command(*args, program=program, **given)

    return collect_options
