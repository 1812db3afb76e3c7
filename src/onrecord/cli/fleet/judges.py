"""Judges of single runs: by replay, by live replay and by verification. A process makes one judge for many runs.

A judge is made from a store, a namespace and options of plain data, so that another process can make it. `JUDGES`
lists the judges by command.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from onrecord.analysis.fleet.results import CHECK_FOUND_SOMETHING, INTEGRITY_BROKEN, Finding, skipped
from onrecord.cli.error_exit import complaint_of
from onrecord.cli.render.text import brief
from onrecord.errors import Damaged, InvalidInput, NotFound, OnrecordError

if TYPE_CHECKING:  # loaded by the judge that needs it
    from types import ModuleType

    from onrecord.cli.agent_loader import Target
    from onrecord.journal.reader import JournalReader
    from onrecord.runtime.api.agent import Agent
    from onrecord.store.contract import Store

NOT_REPLAYABLE = 7
KEPT_VALUE_CHARACTERS = 4_000
SHOWN_VALUE_CHARACTERS = 400
MOST_CALLERS = 100
MOST_STEPS = 5
NOTHING_COMPARED = "it has no effects, so nothing was compared"
OWN_STATUS = (5, 70)


class RunJudge(Protocol):
    def __call__(self, run: str) -> Finding: ...


def judge_run(judge: RunJudge, run: str) -> Finding:
    """Return the judge's finding and its duration. An error becomes the finding of this run."""
    started = time.perf_counter()
    try:
        found = judge(run)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        found = describe_failure(error)
    return msgspec.structs.replace(found, seconds=time.perf_counter() - started)


def describe_failure(error: BaseException) -> Finding:
    if isinstance(error, NotFound) and error.code == "unknown_run":
        return skipped("removed", "it was removed during the check")
    complaint = complaint_of(error)
    if isinstance(error, Damaged) and complaint.status == INTEGRITY_BROKEN:
        verdict, status = "damaged", INTEGRITY_BROKEN
    else:
        verdict, status = "error", complaint.status if complaint.status in OWN_STATUS else CHECK_FOUND_SOMETHING
    return Finding(verdict=verdict, code=complaint.code, message=complaint.message, hint=complaint.hint, status=status)


class VerifyJudge:
    def __init__(self, store: Store, namespace: str, options: dict[str, Any]) -> None:
        import onrecord.cli.commands.verify
        import onrecord.journal.verify  # noqa: F401 - loaded before the first run is timed

        self._store, self._namespace, self._deep = store, namespace, bool(options.get("deep"))

    def __call__(self, run: str) -> Finding:
        from onrecord.journal.findings import Problem
        from onrecord.journal.verify import VerificationReport, verify_run
        from onrecord.reports.verifications import verification_report

        try:
            report = verify_run(self._store, run, self._namespace, deep=self._deep)
        except Damaged as damage:  # too damaged to read: report it as a problem
            problem = Problem(0, "failure", damage.code, damage.message)
            report = VerificationReport(run, 0, 0, 1, 0, problems=[problem])
        verdict = {"VALID": "valid", "INVALID": "damaged"}.get(report.verdict, "skipped")
        first = report.problems[0] if report.problems else None
        return Finding(
            verdict=verdict,
            events=report.events,
            code=first.code if first is not None else "" if report.events else "no_events",
            message=f"event {first.seq}: {first.message}"
            if first is not None
            else ""
            if report.events
            else "no events",
            hint="" if report.valid else f"Copy what is before it: onrecord recover {run} --to saved.db",
            status=0 if report.valid else INTEGRITY_BROKEN,
            report=verification_report(report),
        )


class ReplayJudge:
    """Replay each run with its agent.

    The agent comes from the named code, by its name; else from the code that the run names; for a child run, from its
    parent's code. A program is replayed in a process.
    """

    def __init__(self, store: Store, namespace: str, options: dict[str, Any]) -> None:
        import onrecord.cli.commands.replay
        import onrecord.runtime.api.agent  # noqa: F401 - loaded before the first run is timed

        self._store, self._namespace, self._strict = store, namespace, bool(options.get("strict"))
        self._modules: dict[Target, ModuleType] = {}
        self._loaded: dict[Target, Agent[..., Any] | OnrecordError] = {}
        self._verify = VerifyJudge(store, namespace, {})
        self._scripts: dict[str, str] = options.get("scripts", {})
        self._unloaded_programs: list[tuple[str, bool]] = [
            (text, is_module) for text, is_module in options.get("programs", ())
        ]
        self._named_agents: dict[str, Agent[..., Any]] = {}
        self._ambiguous: set[str] = set()
        for text, is_module in options.get("code", ()):
            self._load_named_code(text, is_module)

    def _load_named_code(self, text: str, is_module: bool) -> None:
        from onrecord.cli.agent_loader import agents_in, load_agent, load_beside, parse_target

        target = parse_target(text, is_module=is_module)
        module = load_beside(target, self._modules)
        if target.function is not None:
            found = [load_agent(target, module)]
        else:
            found = list(agents_in(module).values())
            if not found:
                raise InvalidInput(
                    f"{target.source} has no agent", hint="Name a function after a colon.", code="no_agent"
                )
        for agent in found:
            if self._named_agents.setdefault(agent.name, agent) is not agent:
                self._ambiguous.add(agent.name)

    def __call__(self, run: str) -> Finding:
        from onrecord.cli.fleet.programs import read_program, replay_program
        from onrecord.journal.reader import JournalReader

        reader = JournalReader(self._store, run, self._namespace)
        root = self._find_program_run(reader)
        if root is not None:
            return skipped("child", f"it belongs to run {root}, which is replayed as a whole")
        program = read_program(reader)
        if program is None:
            found = self._replay_agent(reader)
        else:
            found = replay_program(reader, program, self._scripts.get(program.name))
        if found.verdict == "not_replayable" and self._is_erased(run):
            return skipped("erased", found.message, events=found.events)
        if found.verdict == "diverged" and not (checked := self._verify(run)).passed:
            return msgspec.structs.replace(checked, report=None)  # damage caused the divergence
        return found

    def _replay_agent(self, reader: JournalReader) -> Finding:
        from onrecord.cli.commands.replay import encode_location, replay_verdict
        from onrecord.runtime.engine.stops import Divergence, NotReplayable, RecordEnded

        agent = self._find_agent(reader)
        agent.namespace = self._namespace
        verdict = replay_verdict(agent, reader.run, self._store, self._strict)
        events = reader.head().seq
        if verdict is None or isinstance(verdict, RecordEnded):
            if not self._has_effects(reader.run):
                return skipped("no_effects", NOTHING_COMPARED, events=events)
            return Finding(verdict="same" if verdict is None else "unfinished", events=events)
        where = encode_location(verdict) if isinstance(verdict, Divergence) else {}
        is_unreplayable = isinstance(verdict, NotReplayable)
        return Finding(
            verdict="not_replayable" if is_unreplayable else "diverged",
            events=events,
            code=verdict.code,
            message=verdict.message,
            hint=verdict.hint,
            where={key: bound_value(value) for key, value in where.items()},
            status=NOT_REPLAYABLE if is_unreplayable else CHECK_FOUND_SOMETHING,
        )

    def _find_agent(self, reader: JournalReader) -> Agent[..., Any]:
        from onrecord.cli.agent_loader import recorded_target

        name = (reader.facts_tree() or {}).get("agent")
        if name in self._ambiguous:
            raise InvalidInput(
                f"more than one of the named agents has the name {name}",
                hint="Name the function after the file: file.py:function.",
                code="which_agent",
            )
        if name not in self._named_agents and (reader.imported or "origin" not in (reader.facts_tree() or {})):
            self._load_scripts()
        if name in self._named_agents:
            return self._named_agents[name]
        if self._named_agents and reader.imported:
            raise InvalidInput(
                f"the named code does not have the agent {name}", hint="Name its file too.", code="no_agent"
            )
        if reader.header.parent is not None and reader.header.parent.relation == "child":
            return self._find_child_agent(reader, str(name))
        return self._load(recorded_target(reader))

    def _find_child_agent(self, reader: JournalReader, name: str) -> Agent[..., Any]:
        """Return the agent of a child run, from the module of the root run's agent or among all loaded agents."""
        from onrecord.cli.agent_loader import agents_in, recorded_target
        from onrecord.runtime.api.agent import find_agent

        root = self._first_caller(reader)
        first = self._named_agents.get((root.facts_tree() or {}).get("agent", ""))
        caller = first if first is not None else self._load(recorded_target(root))
        siblings = agents_in(sys.modules[caller.function.__module__])
        return next((one for one in siblings.values() if one.name == name), None) or find_agent(name)

    def _first_caller(self, reader: JournalReader) -> JournalReader:
        """Return the root of the run's callers, or the run itself if it has none."""
        from onrecord.journal.reader import JournalReader

        for _ in range(MOST_CALLERS):
            if reader.header.parent is None or reader.header.parent.relation != "child":
                break
            reader = JournalReader(self._store, reader.header.parent.run, self._namespace)
        return reader

    def _find_program_run(self, reader: JournalReader) -> str | None:
        """Return the program or process run that an agent's run belongs to, or None."""
        try:
            root = self._first_caller(reader)
            facts = root.facts_tree() or {} if root.run != reader.run else {}
        except OnrecordError:  # the caller's run is removed or damaged
            return None
        return root.run if "program" in facts or "process" in facts else None

    def _load_scripts(self) -> None:
        """Load the named programs, which may have agents too, for a run without other known code."""
        while self._unloaded_programs:
            text, is_module = self._unloaded_programs.pop()
            with suppress(InvalidInput):  # a program without agents is refused
                self._load_named_code(text, is_module)

    def _load(self, target: Target) -> Agent[..., Any]:
        """Return the agent of a target. It is loaded once, even if that fails."""
        from onrecord.cli.agent_loader import load_agent, load_beside

        if target not in self._loaded:
            try:
                self._loaded[target] = load_agent(target, load_beside(target, self._modules))
            except OnrecordError as error:
                self._loaded[target] = error
        found = self._loaded[target]
        if isinstance(found, OnrecordError):
            raise found
        return found

    def _has_effects(self, run: str) -> bool:
        from onrecord.core.events import OPENING_KINDS

        rows = self._store.scan(self._namespace, run, contents=False)
        return any(row.kind in OPENING_KINDS for row in rows)

    def _is_erased(self, run: str) -> bool:
        from onrecord.journal.operation_records import erased_seqs

        return bool(erased_seqs(self._store, self._namespace, run))


class LiveJudge(ReplayJudge):
    """Execute a run again, as a new run, and judge it within a tolerance."""

    def __init__(self, store: Store, namespace: str, options: dict[str, Any]) -> None:
        super().__init__(store, namespace, options)
        from onrecord.cli.live_replay import LiveOptions

        self._live = LiveOptions.from_data(options["live"])

    def __call__(self, run: str) -> Finding:
        from onrecord.cli.fleet.programs import read_program
        from onrecord.cli.live_replay import format_reason, replay_and_judge
        from onrecord.cli.programs.tails import ProgramLiveReplay
        from onrecord.cli.settings import Settings
        from onrecord.journal.reader import JournalReader

        reader = JournalReader(self._store, run, self._namespace)
        program = read_program(reader)
        agent: Any
        if program is not None:
            agent = ProgramLiveReplay(Settings(store=self._store.private_url, namespace=self._namespace), program)
        else:
            agent = self._find_agent(reader)
            agent.namespace = self._namespace
        replay, stopped = replay_and_judge(self._store, self._namespace, agent, run, self._live)
        differing_steps = [
            f"{step.name} at seq {step.seq}: {format_reason(step.first_reason)}"
            for step in replay.steps
            if step.first_reason is not None and step.verdict not in ("pass", "drift")
        ][:MOST_STEPS]
        return Finding(
            verdict=replay.verdict,
            events=reader.head().seq,
            code="" if not replay.exit_status else replay.codes[0] if replay.codes else "replay_broken",
            message="" if not replay.exit_status else replay.message,
            hint=stopped.hint if stopped is not None else "`onrecord replay RUN --live` shows it step by step.",
            where={"replay": replay.replay, **({"differs": differing_steps} if differing_steps else {})},
            status=replay.exit_status,
        )


def bound_value(value: Any) -> Any:
    """Return a small value unchanged, and the beginning of a large one as text."""
    try:
        if len(json.dumps(value)) <= KEPT_VALUE_CHARACTERS:
            return value
    except RecursionError:
        pass
    return brief(value, SHOWN_VALUE_CHARACTERS)


JUDGES: dict[str, Callable[[Any, str, dict[str, Any]], RunJudge]] = {
    "replay": ReplayJudge,
    "live replay": LiveJudge,
    "verify": VerifyJudge,
}
WRITING_JUDGES = frozenset({"live replay"})
"""Judges that write new runs."""
