"""How one run is judged: by replaying it, by verifying it. A judge is made once in a process and asked about many runs.

A judge is given a store, a namespace and options that are plain data, so that one can be made in another process.
Another way to judge a run is another row of `JUDGES`.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from reenact.cli.problems import complaint_of
from reenact.cli.text import brief
from reenact.errors import Damaged, InvalidInput, NotFound, ReenactError
from reenact.replays.fleet.results import CHECK_FOUND_SOMETHING, INTEGRITY_BROKEN, Finding, skipped

if TYPE_CHECKING:  # loaded by the judge that needs it
    from reenact.cli.loading import Target
    from reenact.effect.agents import Agent
    from reenact.journal.reader import JournalReader
    from reenact.store.contract import Store

NOT_REPLAYABLE = 7
KEPT_VALUE_CHARACTERS = 4_000
SHOWN_VALUE_CHARACTERS = 400
CALLERS_LOOKED_AT = 100
MOST_STEPS = 5
NOTHING_COMPARED = "it has no effects, so nothing was compared"
OWN_STATUS = (5, 70)


class Judge(Protocol):
    def __call__(self, run: str) -> Finding: ...


def judged(judge: Judge, run: str) -> Finding:
    """What the judge finds, and how long it took. Whatever goes wrong is about this run alone."""
    began = time.perf_counter()
    try:
        found = judge(run)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        found = could_not_judge(error)
    return msgspec.structs.replace(found, seconds=time.perf_counter() - began)


def could_not_judge(error: BaseException) -> Finding:
    if isinstance(error, NotFound) and error.code == "unknown_run":
        return skipped("removed", "it was removed meanwhile")
    complaint = complaint_of(error)
    if isinstance(error, Damaged) and complaint.status == INTEGRITY_BROKEN:
        verdict, status = "damaged", INTEGRITY_BROKEN
    else:
        verdict, status = "error", complaint.status if complaint.status in OWN_STATUS else CHECK_FOUND_SOMETHING
    return Finding(verdict=verdict, code=complaint.code, message=complaint.message, hint=complaint.hint, status=status)


@contextmanager
def whole_program(place: str) -> Iterator[None]:
    """A file that ends the program while it is loaded does not end ours."""
    from reenact.cli.loading import LoadFailed

    try:
        yield
    except SystemExit as left:
        raise LoadFailed(f"{place} failed while it was loaded: SystemExit({left.code!r})") from None


# Verifying


class VerifyJudge:
    def __init__(self, store: Store, namespace: str, options: dict[str, Any]) -> None:
        import reenact.cli.verifying
        import reenact.journal.verify  # noqa: F401 - loaded before the first run is looked at

        self._store, self._namespace, self._deep = store, namespace, bool(options.get("deep"))

    def __call__(self, run: str) -> Finding:
        from reenact.journal.verify import VerificationReport, verify_run
        from reenact.journal.verifying import Problem
        from reenact.reports.verifications import verification_report

        try:
            report = verify_run(self._store, run, self._namespace, deep=self._deep)
        except Damaged as damage:  # unreadable, which is no reason to say nothing of it
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
            hint="`reenact recover` copies the valid beginning of a run to another store." if not report.valid else "",
            status=0 if report.valid else INTEGRITY_BROKEN,
            report=verification_report(report),
        )


# Replaying


class ReplayJudge:
    """Each run by its own agent: one of the code that was named, by the name of the agent; or of the code that the
    run itself tells of; or, for a run that another one called, of its caller's. That of a program by a process.
    """

    def __init__(self, store: Store, namespace: str, options: dict[str, Any]) -> None:
        import reenact.cli.replaying
        import reenact.effect.agents  # noqa: F401 - loaded before the first run is looked at

        self._store, self._namespace, self._strict = store, namespace, bool(options.get("strict"))
        self._loaded: dict[Target, Agent[..., Any] | ReenactError] = {}
        self._verify = VerifyJudge(store, namespace, {})
        self._scripts: dict[str, str] = options.get("scripts", {})
        self._to_load: list[tuple[str, bool]] = [(text, is_module) for text, is_module in options.get("programs", ())]
        self._named: dict[str, Agent[..., Any]] = {}
        self._ambiguous: set[str] = set()
        for text, is_module in options.get("code", ()):
            with whole_program(text):
                self._name(text, is_module)

    def _name(self, text: str, is_module: bool) -> None:
        from reenact.cli.loading import agents_in, load_agent, load_module, parse_target

        target = parse_target(text, is_module=is_module)
        if target.function is not None:
            found = [load_agent(target)]
        else:
            found = list(agents_in(load_module(target)).values())
            if not found:
                raise InvalidInput(
                    f"{target.place} has no agent", hint="Name a function behind a colon.", code="no_agent"
                )
        for agent in found:
            if self._named.setdefault(agent.name, agent) is not agent:
                self._ambiguous.add(agent.name)

    def __call__(self, run: str) -> Finding:
        from reenact.cli.fleet_programs import program_in, replayed_program
        from reenact.journal.reader import JournalReader

        reader = JournalReader(self._store, run, self._namespace)
        above = self._program_above(reader)
        if above is not None:
            return skipped("child", f"it is part of run {above}, which is replayed as a whole")
        program = program_in(reader)
        if program is None:
            found = self._replayed(reader)
        else:
            found = replayed_program(reader, program, self._scripts.get(program.name))
        if found.verdict == "not_replayable" and self._is_erased(run):
            return skipped("erased", found.message, events=found.events)
        if found.verdict == "diverged" and not (checked := self._verify(run)).passed:
            return msgspec.structs.replace(checked, report=None)  # it was no fault of the code's
        return found

    def _replayed(self, reader: JournalReader) -> Finding:
        from reenact.cli.replaying import replay_verdict, where_of
        from reenact.effect.stopping import Divergence, NotReplayable, RecordEnded

        agent = self._agent(reader)
        agent.namespace = self._namespace
        verdict = replay_verdict(agent, reader.run, self._store, self._strict)
        events = reader.head().seq
        if verdict is None or isinstance(verdict, RecordEnded):
            if not self._has_effects(reader.run):
                return skipped("no_effects", NOTHING_COMPARED, events=events)
            return Finding(verdict="same" if verdict is None else "unfinished", events=events)
        where = where_of(verdict) if isinstance(verdict, Divergence) else {}
        is_gone = isinstance(verdict, NotReplayable)
        return Finding(
            verdict="not_replayable" if is_gone else "diverged",
            events=events,
            code=verdict.code,
            message=verdict.message,
            hint=verdict.hint,
            where={key: bounded(value) for key, value in where.items()},
            status=NOT_REPLAYABLE if is_gone else CHECK_FOUND_SOMETHING,
        )

    def _agent(self, reader: JournalReader) -> Agent[..., Any]:
        from reenact.cli.loading import recorded_target

        name = (reader.facts_tree() or {}).get("agent")
        if name in self._ambiguous:
            raise InvalidInput(
                f"more than one of the named agents is called {name}",
                hint="Name the function behind the file: file.py:function.",
                code="which_agent",
            )
        if name not in self._named and (reader.imported or "origin" not in (reader.facts_tree() or {})):
            self._load_scripts()
        if name in self._named:
            return self._named[name]
        if self._named and reader.imported:
            raise InvalidInput(
                f"none of the named code has the agent {name}", hint="Name its file too.", code="no_agent"
            )
        if reader.header.parent is not None and reader.header.parent.relation == "child":
            return self._of_its_caller(reader, str(name))
        return self._load(recorded_target(reader))

    def _of_its_caller(self, reader: JournalReader, name: str) -> Agent[..., Any]:
        """Beside the agent that began it all. Code that was named has loaded its agents already."""
        from reenact.cli.loading import agents_in, recorded_target
        from reenact.effect.agents import find_agent

        above = self._first_caller(reader)
        first = self._named.get((above.facts_tree() or {}).get("agent", ""))
        caller = first if first is not None else self._load(recorded_target(above))
        beside = agents_in(sys.modules[caller.function.__module__])
        return next((one for one in beside.values() if one.name == name), None) or find_agent(name)

    def _first_caller(self, reader: JournalReader) -> JournalReader:
        """The run that began it all; the run itself, if nobody called it."""
        from reenact.journal.reader import JournalReader

        for _ in range(CALLERS_LOOKED_AT):
            if reader.header.parent is None or reader.header.parent.relation != "child":
                break
            reader = JournalReader(self._store, reader.header.parent.run, self._namespace)
        return reader

    def _program_above(self, reader: JournalReader) -> str | None:
        """The run of the program, or of its process, that an agent's run is an effect of."""
        try:
            above = self._first_caller(reader)
            facts = above.facts_tree() or {} if above.run != reader.run else {}
        except ReenactError:  # removed, or damaged: nothing about this one
            return None
        return above.run if "program" in facts or "process" in facts else None

    def _load_scripts(self) -> None:
        """A named program may have agents too. It is loaded only for a run that no other code is known of."""
        while self._to_load:
            text, is_module = self._to_load.pop()
            with suppress(InvalidInput), whole_program(text):  # without agents it is a program alone
                self._name(text, is_module)

    def _load(self, target: Target) -> Agent[..., Any]:
        """Once, also when it fails: a thousand runs of code that cannot be loaded do not load it a thousand times."""
        from reenact.cli.loading import load_agent

        if target not in self._loaded:
            try:
                with whole_program(target.place):
                    self._loaded[target] = load_agent(target)
            except ReenactError as error:
                self._loaded[target] = error
        found = self._loaded[target]
        if isinstance(found, ReenactError):
            raise found
        return found

    def _has_effects(self, run: str) -> bool:
        from reenact.core.events import OPENING_KINDS

        rows = self._store.scan(self._namespace, run, contents=False)
        return any(row.kind in OPENING_KINDS for row in rows)

    def _is_erased(self, run: str) -> bool:
        from reenact.journal.records import erased_seqs

        return bool(erased_seqs(self._store, self._namespace, run))


class LiveJudge(ReplayJudge):
    """Carried out again, in a run of its own, and judged within a tolerance."""

    def __init__(self, store: Store, namespace: str, options: dict[str, Any]) -> None:
        super().__init__(store, namespace, options)
        from reenact.cli.live_replaying import LiveOptions

        self._live = LiveOptions.from_data(options["live"])

    def __call__(self, run: str) -> Finding:
        from reenact.cli.fleet_programs import program_in
        from reenact.cli.live_replaying import judged_live, reason_text
        from reenact.cli.program_tails import ProgramAgain
        from reenact.cli.settings import Settings
        from reenact.journal.reader import JournalReader

        reader = JournalReader(self._store, run, self._namespace)
        program = program_in(reader)
        agent: Any
        if program is not None:
            agent = ProgramAgain(Settings(store=self._store.private_url, namespace=self._namespace), program)
        else:
            agent = self._agent(reader)
            agent.namespace = self._namespace
        replay, stopped = judged_live(self._store, self._namespace, agent, run, self._live)
        differs = [
            f"{step.name} at seq {step.seq}: {reason_text(step.first_reason)}"
            for step in replay.steps
            if step.first_reason is not None and step.verdict not in ("pass", "drift")
        ][:MOST_STEPS]
        return Finding(
            verdict=replay.verdict,
            events=reader.head().seq,
            code="" if not replay.exit_status else replay.codes[0] if replay.codes else "replay_broken",
            message="" if not replay.exit_status else replay.message,
            hint=stopped.hint if stopped is not None else "`reenact replay RUN --live` shows it step by step.",
            where={"replay": replay.replay, **({"differs": differs} if differs else {})},
            status=replay.exit_status,
        )


def bounded(value: Any) -> Any:
    """A value for a report: whole when it is small, the beginning of it as text otherwise."""
    try:
        if len(json.dumps(value)) <= KEPT_VALUE_CHARACTERS:
            return value
    except RecursionError:
        pass
    return brief(value, SHOWN_VALUE_CHARACTERS)


JUDGES: dict[str, Callable[[Any, str, dict[str, Any]], Judge]] = {
    "replay": ReplayJudge,
    "live replay": LiveJudge,
    "verify": VerifyJudge,
}
WRITING = frozenset({"live replay"})
"""Judges that write runs of their own."""
