"""Implement `onrecord replay --live`: execute a run again with its own code, and compare within a tolerance."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import redirect_stdout
from functools import wraps
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import click

from onrecord.cli.fast_start import new_run_id
from onrecord.cli.render.output import Column, note, paint, say, say_json, table
from onrecord.cli.render.text import brief, inert
from onrecord.cli.settings import Settings
from onrecord.errors import Damaged, InvalidInput, OnrecordError, Refused, StoreError

if TYPE_CHECKING:  # loaded when the command runs
    from onrecord.analysis.compare.reasons import Reason
    from onrecord.analysis.compare.tolerance import DriftTolerance
    from onrecord.analysis.live import RunReplay, StepReplay
    from onrecord.store.contract import Store

SHOWN_STEPS = 1000
SHOWN_VALUE_CHARACTERS = 40
COLOURS = {"pass": "green", "drift": "yellow", "broken": "red"}
COLUMNS = (
    Column("seq", "dim", right=True),
    Column("effect", "bold"),
    Column("how", drop=1),
    Column("verdict"),
    Column("why", flexible=True),
)


class ToleranceOptions(NamedTuple):
    """Hold the options that say how far an actual value may be from the expected one."""

    tokens: str = "0"
    cost: str = "0"
    tokens_absolute: float = 0.0
    cost_absolute: float = 0.0
    content: str = "exact"
    tools: str = "exact"
    ignore: tuple[str, ...] = ()

    def tolerance(self) -> DriftTolerance:
        from onrecord.analysis.compare.tolerance import DriftTolerance, PathRule

        return DriftTolerance(
            tokens=_parse_share("--tokens", self.tokens),
            cost=_parse_share("--cost", self.cost),
            tokens_absolute=self.tokens_absolute,
            cost_absolute=self.cost_absolute,
            tools=self.tools,  # type: ignore[arg-type]  # click has checked both
            content=self.content,  # type: ignore[arg-type]
            rules=tuple(PathRule.ignore(pattern) for pattern in self.ignore),
        )


class LiveOptions(NamedTuple):
    live: bool = False
    live_tools: tuple[str, ...] = ()
    model: str | None = None
    live_run_id: str | None = None
    stop_at_first: bool = False
    keep: bool = False
    tolerance: ToleranceOptions = ToleranceOptions()

    def to_data(self) -> dict[str, Any]:
        return {**self._asdict(), "tolerance": self.tolerance._asdict()}

    @classmethod
    def from_data(cls, data: dict[str, Any]) -> LiveOptions:
        tolerance = ToleranceOptions(**{**data["tolerance"], "ignore": tuple(data["tolerance"]["ignore"])})
        return cls(**{**data, "live_tools": tuple(data["live_tools"]), "tolerance": tolerance})

    def refuse_without_live(self) -> None:
        """Raise `InvalidInput` if any of these options was given without --live."""
        if not self.live and self != LiveOptions():
            raise InvalidInput(
                "options for live tools, models and tolerances need --live",
                hint="Add --live. Without it nothing is executed and nothing may differ.",
                code="usage",
            )


def tolerance_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the tolerance options to a command, which receives them as `tolerance`."""

    @click.option("--tokens", default="0", metavar="SHARE", help="Let token counts differ by this share: 1% or 0.01.")
    @click.option("--cost", default="0", metavar="SHARE", help="Let costs differ by this share: 5% or 0.05.")
    @click.option(
        "--tokens-absolute", type=float, default=0.0, metavar="N", help="Let token counts differ by this number."
    )
    @click.option(
        "--cost-absolute",
        type=float,
        default=0.0,
        metavar="N",
        help="Let costs differ by this amount, in the recorded unit.",
    )
    @click.option(
        "--content", type=click.Choice(("exact", "normalised")), default="exact", help="How texts are compared."
    )
    @click.option(
        "--tools",
        type=click.Choice(("exact", "same_calls", "same_tools", "ignore")),
        default="exact",
        help="How tool calls are compared: in order, in any order, by tool only, or not at all.",
    )
    @click.option(
        "--ignore", multiple=True, metavar="PATH", help="Do not compare this path: /usage/**, /input/nonce, …"
    )
    @wraps(function)
    def with_tolerance(*args: Any, **given: Any) -> Any:
        chosen = ToleranceOptions(**{name: given.pop(name) for name in ToleranceOptions._fields})
        return function(*args, tolerance=chosen, **given)

    return with_tolerance


def live_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the live options to a command, which receives them as `live`."""

    @click.option("--live", is_flag=True, help="Call the models and run the steps again, in a new run.")
    @click.option(
        "--live-tool",
        "live_tools",
        multiple=True,
        metavar="NAME",
        help="With --live: run this tool too; the others get their recorded answers.",
    )
    @click.option("--model", metavar="NAME", help="With --live: call this model instead.")
    @click.option("--live-run-id", metavar="ID", help="With --live: set the id of the new run; random by default.")
    @click.option("--stop-at-first", is_flag=True, help="With --live: stop comparing after the first broken step.")
    @click.option(
        "--keep-differences", "keep", is_flag=True, help="With --live: store each difference under its digest."
    )
    @tolerance_options
    @wraps(function)
    def with_live(*args: Any, **given: Any) -> Any:
        live = LiveOptions(**{name: given.pop(name) for name in LiveOptions._fields})
        return function(*args, live=live, **given)

    return with_live


def _parse_share(option: str, text: str) -> float:
    """Parse `1%` or `0.01` into the same number. `DriftTolerance` refuses numbers that no tolerance can be."""
    try:
        return float(text[:-1]) / 100 if text.endswith("%") else float(text)
    except ValueError:
        raise InvalidInput(
            f"{option} is a share, not {text[:40]!r}", hint=f"For example {option} 1% or {option} 0.01.", code="usage"
        ) from None


class LiveReplayable(Protocol):
    """An agent or a program whose recorded run can be replayed live."""

    @property
    def is_async(self) -> bool: ...

    def replay_live(
        self,
        run_id: str,
        /,
        *,
        live_tools: Iterable[str],
        model: str | None,
        live_run_id: str | None,
        store: Store,
        namespace: str,
    ) -> Any: ...


def replay_live(settings: Settings, store: Store, agent: LiveReplayable, run: str, options: LiveOptions) -> int:
    """Replay a run live, print the comparison and return its exit status. The store must be writable."""
    on_start = None if settings.json else lambda name: note(f"run {name}")
    replay, stopped = replay_and_judge(store, settings.namespace, agent, run, options, on_start)
    print_replay(settings, replay, stopped)
    return replay.exit_status


def replay_and_judge(
    store: Store,
    namespace: str,
    agent: LiveReplayable,
    run: str,
    options: LiveOptions,
    on_start: Callable[[str], None] | None = None,
) -> tuple[RunReplay, OnrecordError | None]:
    """Execute a run again and compare it. Return the comparison, and the error that stopped the new run, if any."""
    from onrecord.analysis.live import judge_runs, keep_differences
    from onrecord.core.links import check_run_id
    from onrecord.journal.reader import JournalReader

    tolerance = options.tolerance.tolerance()  # raises before anything is executed
    expected = JournalReader(store, run, namespace)
    name = check_run_id(options.live_run_id or new_run_id())
    if store.run_row(namespace, name) is not None:
        raise Refused(f"there is a run {name} already", hint="Choose another id for the new run.", code="run_exists")
    if on_start is not None:
        on_start(name)
    stopped = _execute(store, namespace, agent, run, name, options)
    actual = JournalReader(store, name, namespace)
    replay = judge_runs(expected, actual, tolerance, stop_at_first=options.stop_at_first)
    return keep_differences(store, replay, namespace) if options.keep else replay, stopped


def _execute(
    store: Store, namespace: str, agent: LiveReplayable, run: str, name: str, options: LiveOptions
) -> OnrecordError | None:
    """Execute the new run. Return the error that stopped it before its end, or None if it ended.

    How it ended is in its journal, and is compared there.
    """
    try:
        with redirect_stdout(sys.stderr):  # stdout is for the comparison
            returned = agent.replay_live(
                run,
                live_tools=options.live_tools,
                model=options.model,
                live_run_id=name,
                store=store,
                namespace=namespace,
            )
            if agent.is_async:
                asyncio.run(await_result(returned))
    except (StoreError, Damaged):
        raise  # no verdict can follow
    except (Exception, asyncio.CancelledError) as error:
        if store.run_row(namespace, name) is None:
            raise  # the new run was never created
        from onrecord.core.events import TERMINAL_KINDS

        last = store.last_event(namespace, name)
        if last is not None and last.kind in TERMINAL_KINDS:
            return None  # the agent's own error, or a cancellation
        if not isinstance(error, OnrecordError):
            raise
        return error
    return None


async def await_result(returned: Any) -> Any:
    return await returned


def print_replay(settings: Settings, replay: RunReplay, stopped: OnrecordError | None = None) -> None:
    if settings.json:
        stopped_by = None
        if stopped is not None:
            stopped_by = {"code": stopped.code, "message": stopped.message, "hint": stopped.hint}
        say_json({**replay.to_data(), "stopped_by": stopped_by})
        return
    steps = list(_walk_steps(replay))
    table(COLUMNS, [_row_of_step(step, depth) for step, depth in steps[:SHOWN_STEPS]])
    if len(steps) > SHOWN_STEPS:
        note(f"{len(steps) - SHOWN_STEPS:,} more steps; --json has them all")
    for reason in replay.reasons:
        say(inert(format_reason(reason)))
    say(paint(inert(replay.message), fg=COLOURS[replay.verdict], bold=True))
    if replay.model is not None:
        note(f"model override: {inert(replay.model)}")
    for name in replay.unused_live_tools:
        note(f"--live-tool {inert(name)}: this tool was never called")
    if stopped is not None:
        note(f"the new run stopped: {inert(stopped.message)} [{stopped.code}]")
        note(inert(stopped.hint))


def _walk_steps(replay: RunReplay, depth: int = 0) -> Iterator[tuple[StepReplay, int]]:
    for step in replay.steps:
        yield step, depth
        if step.inner is not None:
            yield from _walk_steps(step.inner, depth + 1)


def _row_of_step(step: StepReplay, depth: int) -> list[str]:
    reason = step.first_reason
    seq = str(step.seq) if step.seq is not None else f"+{step.replay_seq}"
    more = f" (and {step.reason_count - 1} more)" if step.reason_count > 1 else ""
    why = "" if reason is None else format_reason(reason) + more
    name = "  " * depth + inert(step.name)
    return [seq, name, step.how, step.verdict.replace("_", " "), inert(why)]


def format_reason(reason: Reason) -> str:
    """Return a reason on one line, with its values cut short."""
    where = f" {reason.path}" if reason.path else ""
    if reason.expected is None and reason.actual is None:
        return f"{reason.code}{where}: {reason.what}"
    expected, actual = (brief(value, SHOWN_VALUE_CHARACTERS) for value in (reason.expected, reason.actual))
    return f"{reason.code}{where}: {expected} → {actual}"
