"""`reenact replay --live`: what a run did is really done again, by its own code, and judged within a tolerance."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import redirect_stdout
from functools import wraps
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

import click

from reenact.cli.output import Column, note, paint, say, say_json, table
from reenact.cli.settings import Settings
from reenact.cli.starting import new_run_id
from reenact.cli.text import brief, inert
from reenact.errors import Damaged, InvalidInput, ReenactError, Refused, StoreError

if TYPE_CHECKING:  # loaded when the command runs
    from reenact.replays.comparing.reasons import Reason
    from reenact.replays.comparing.tolerance import DriftTolerance
    from reenact.replays.live import RunReplay, StepReplay
    from reenact.store.contract import Store

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
Command = TypeVar("Command", bound=Callable[..., Any])


class ToleranceOptions(NamedTuple):
    """How far what came now may be from what was recorded."""

    tokens: str = "0"
    cost: str = "0"
    tokens_absolute: float = 0.0
    cost_absolute: float = 0.0
    content: str = "exact"
    tools: str = "exact"
    ignore: tuple[str, ...] = ()

    def tolerance(self) -> DriftTolerance:
        from reenact.replays.comparing.tolerance import DriftTolerance, PathRule

        return DriftTolerance(
            tokens=_share("--tokens", self.tokens),
            cost=_share("--cost", self.cost),
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
        """What is said about a live replay means nothing for any other."""
        if not self.live and self != LiveOptions():
            raise InvalidInput(
                "what may be carried out, and how far it may differ, goes with --live",
                hint="Without --live nothing is carried out, and everything has to be the same.",
                code="usage",
            )


_TOLERANCE: tuple[tuple[str, dict[str, Any]], ...] = (
    ("--tokens", {"default": "0", "metavar": "SHARE", "help": "Token counts may move by so much: 1% or 0.01."}),
    ("--cost", {"default": "0", "metavar": "SHARE", "help": "Costs may move by so much: 5% or 0.05."}),
    ("--tokens-absolute", {"type": float, "default": 0.0, "metavar": "N", "help": "Or by so many tokens."}),
    ("--cost-absolute", {"type": float, "default": 0.0, "metavar": "N", "help": "Or by so much, as recorded."}),
    (
        "--content",
        {"type": click.Choice(("exact", "normalised")), "default": "exact", "help": "What text has to be, all of it."},
    ),
    (
        "--tools",
        {
            "type": click.Choice(("exact", "same_calls", "same_tools", "ignore")),
            "default": "exact",
            "help": "Tool calls: the same in order, the same in any order, the same tools, or never mind.",
        },
    ),
    (
        "--ignore",
        {"multiple": True, "metavar": "PATH", "help": "Leave out what stands there: /usage/**, /input/nonce, …"},
    ),
)
_LIVE: tuple[tuple[str, dict[str, Any]], ...] = (
    ("--live", {"is_flag": True, "help": "Ask the models and do the steps again, in a run of its own."}),
    (
        "--live-tool",
        {
            "multiple": True,
            "metavar": "NAME",
            "help": "With --live: this tool may act, too. Others are answered as before.",
        },
    ),
    ("--model", {"metavar": "NAME", "help": "With --live: ask this model instead."}),
    ("--live-run-id", {"metavar": "ID", "help": "With --live: the id of the new run; a random one otherwise."}),
    ("--stop-at-first", {"is_flag": True, "help": "With --live: judge nothing behind the first step that broke."}),
    ("--keep-differences", {"is_flag": True, "help": "With --live: keep each difference in the store, by its digest."}),
)


def tolerance_options(function: Command) -> Command:
    """The command is given them as `tolerance`."""

    @wraps(function)
    def with_tolerance(*args: Any, **given: Any) -> Any:
        chosen = ToleranceOptions(**{name: given.pop(name) for name in ToleranceOptions._fields})
        return function(*args, tolerance=chosen, **given)

    made: Command = _decorated(with_tolerance, _TOLERANCE)
    return made


def live_options(function: Command) -> Command:
    """The command is given them as `live`."""

    @tolerance_options
    @wraps(function)
    def with_live(*args: Any, tolerance: ToleranceOptions, **given: Any) -> Any:
        live = LiveOptions(
            live=given.pop("live"),
            live_tools=tuple(given.pop("live_tool")),
            model=given.pop("model"),
            live_run_id=given.pop("live_run_id"),
            stop_at_first=given.pop("stop_at_first"),
            keep=given.pop("keep_differences"),
            tolerance=tolerance,
        )
        return function(*args, live=live, **given)

    made: Command = _decorated(with_live, _LIVE)
    return made


def _decorated(function: Any, options: Iterable[tuple[str, dict[str, Any]]]) -> Any:
    for name, about in reversed(tuple(options)):
        function = click.option(name, **about)(function)
    return function


def _share(option: str, text: str) -> float:
    """`1%` and `0.01` are the same. What no tolerance can be is refused by the tolerance itself."""
    try:
        return float(text[:-1]) / 100 if text.endswith("%") else float(text)
    except ValueError:
        raise InvalidInput(
            f"{option} is a share, not {text[:40]!r}", hint=f"For example {option} 1% or {option} 0.01.", code="usage"
        ) from None


# Replaying


class Again(Protocol):
    """What can do again what it did: an agent, or a program."""

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


def replay_live(settings: Settings, store: Store, agent: Again, run: str, options: LiveOptions) -> int:
    """Does it again, in a new run, and tells what is to be said of it. The store has to be writable."""
    began = None if settings.json else lambda name: note(f"run {name}")
    replay, stopped = judged_live(store, settings.namespace, agent, run, options, began)
    tell_replay(settings, replay, stopped)
    return replay.exit_status


def judged_live(
    store: Store,
    namespace: str,
    agent: Again,
    run: str,
    options: LiveOptions,
    began: Callable[[str], None] | None = None,
) -> tuple[RunReplay, ReenactError | None]:
    """What came of doing it again, and why the new run stopped, if it did."""
    from reenact.core.links import check_run_id
    from reenact.journal.reader import JournalReader
    from reenact.replays.live import judge_runs, keep_differences

    tolerance = options.tolerance.tolerance()  # refused before anything is carried out
    expected = JournalReader(store, run, namespace)
    name = check_run_id(options.live_run_id or new_run_id())
    if store.run_row(namespace, name) is not None:
        raise Refused(f"there is a run {name} already", hint="Choose another id for the new run.", code="run_exists")
    if began is not None:
        began(name)
    stopped = _carried_out(store, namespace, agent, run, name, options)
    actual = JournalReader(store, name, namespace)
    replay = judge_runs(expected, actual, tolerance, stop_at_first=options.stop_at_first)
    return keep_differences(store, replay, namespace) if options.keep else replay, stopped


def _carried_out(
    store: Store, namespace: str, agent: Again, run: str, name: str, options: LiveOptions
) -> ReenactError | None:
    """Why the new run stopped, if it did. How it ended is on record, and judged there."""
    try:
        with redirect_stdout(sys.stderr):  # what the agent prints is not the check's result
            made = agent.replay_live(
                run,
                live_tools=options.live_tools,
                model=options.model,
                live_run_id=name,
                store=store,
                namespace=namespace,
            )
            if agent.is_async:
                asyncio.run(_awaited(made))
    except (StoreError, Damaged):
        raise  # no verdict can follow
    except (Exception, asyncio.CancelledError) as error:
        if store.run_row(namespace, name) is None:
            raise  # nothing has begun
        from reenact.core.events import TERMINAL_KINDS

        last = store.last_event(namespace, name)
        if last is not None and last.kind in TERMINAL_KINDS:
            return None  # the agent's own error, or a cancellation
        if not isinstance(error, ReenactError):
            raise
        return error
    return None


async def _awaited(made: Any) -> Any:
    return await made


# Telling


def tell_replay(settings: Settings, replay: RunReplay, stopped: ReenactError | None = None) -> None:
    if settings.json:
        told = None
        if stopped is not None:
            told = {"code": stopped.code, "message": stopped.message, "hint": stopped.hint}
        say_json({**replay.to_data(), "stopped_by": told})
        return
    steps = list(_steps(replay))
    table(COLUMNS, [_cells(step, depth) for step, depth in steps[:SHOWN_STEPS]])
    if len(steps) > SHOWN_STEPS:
        note(f"{len(steps) - SHOWN_STEPS:,} more steps; --json has them all")
    for reason in replay.reasons:
        say(inert(reason_text(reason)))
    say(paint(inert(replay.message), fg=COLOURS[replay.verdict], bold=True))
    if replay.model is not None:
        note(f"another model was asked on purpose: {inert(replay.model)}")
    for name in replay.unused_live_tools:
        note(f"the tool {inert(name)} was to be called live, and was never called")
    if stopped is not None:
        note(f"the new run stopped: {inert(stopped.message)} [{stopped.code}]")
        note(inert(stopped.hint))


def _steps(replay: RunReplay, depth: int = 0) -> Iterator[tuple[StepReplay, int]]:
    for step in replay.steps:
        yield step, depth
        if step.inner is not None:
            yield from _steps(step.inner, depth + 1)


def _cells(step: StepReplay, depth: int) -> list[str]:
    reason = step.first_reason
    seq = str(step.seq) if step.seq is not None else f"+{step.replay_seq}"
    more = f" (and {step.reason_count - 1} more)" if step.reason_count > 1 else ""
    why = "" if reason is None else reason_text(reason) + more
    name = "  " * depth + inert(step.name)
    return [seq, name, step.how, step.verdict.replace("_", " "), inert(why)]


def reason_text(reason: Reason) -> str:
    """One reason in a line, values cut short."""
    where = f" {reason.path}" if reason.path else ""
    if reason.expected is None and reason.actual is None:
        return f"{reason.code}{where}: {reason.what}"
    was, came = (brief(value, SHOWN_VALUE_CHARACTERS) for value in (reason.expected, reason.actual))
    return f"{reason.code}{where}: {was} → {came}"
