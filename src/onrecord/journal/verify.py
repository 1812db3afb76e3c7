"""Verify a run of a store, in one process or several, with one report.

The last line of a report is always `Verification: 1523/1523 events verified, 0 failures, 0 mismatches - VALID` (or
INVALID, or EMPTY).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from onrecord.core.events import ANSWERS, TERMINAL_KINDS
from onrecord.core.hashing import header_hash, render, state_link_of
from onrecord.core.links import parse_header
from onrecord.core.state import Reducer, StateUpdatedOnlyReducer
from onrecord.errors import Damaged, InvalidInput, NotFound, OnrecordError
from onrecord.journal.content_checks import ContentChecks
from onrecord.journal.fact_checks import check_facts, rules_of
from onrecord.journal.findings import Problem, RangeResult
from onrecord.journal.lineage import shared_stretches
from onrecord.journal.operation_records import erased_seqs, is_imported
from onrecord.journal.range_checks import RangeVerifier
from onrecord.journal.reader import JournalReader, NodeReader, check_node
from onrecord.journal.snapshots import check_snapshot
from onrecord.store.contract import EventRow, Head, HeaderRow, Store
from onrecord.store.factory import open_store

PARALLEL_FROM_EVENTS = 50_000


class VerificationReport(msgspec.Struct):
    """The findings of a verification. `problems` holds the first ones by seq; the counts include all."""

    run: str
    events: int
    verified: int
    failures: int
    mismatches: int
    problems: list[Problem] = []
    head: str = ""
    terminal: str | None = None
    erased: list[int] = []
    orphans: list[int] = []
    open_interrupts: list[int] = []
    open_waits: list[int] = []
    nodes: int = 0
    artifacts: int = 0
    snapshots: int = 0
    rejected_snapshots: list[tuple[int, str]] = []
    deep: bool = False
    expected_head: bool = False
    notes: list[str] = []

    @property
    def valid(self) -> bool:
        return self.failures == 0 and self.mismatches == 0

    @property
    def first_bad_seq(self) -> int | None:
        return min((problem.seq for problem in self.problems), default=None)

    @property
    def verdict(self) -> str:
        """Return VALID, INVALID, or EMPTY for a run without events: an empty selection never passes."""
        return "INVALID" if not self.valid else "VALID" if self.events else "EMPTY"

    @property
    def line(self) -> str:
        return (
            f"Verification: {self.verified}/{self.events} events verified, {self.failures} failures, "
            f"{self.mismatches} mismatches - {self.verdict}"
        )

    def __str__(self) -> str:
        return self.line

    def raise_if_invalid(self) -> None:
        if not self.valid:
            first = self.problems[0]
            raise Damaged(f"run {self.run}, event {first.seq}: {first.message}", code=first.code)


def verify_run(
    store: Store,
    run: str,
    namespace: str = "default",
    *,
    deep: bool = False,
    expected: Head | None = None,
    reducer: Reducer | None = None,
    processes: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> VerificationReport:
    """Check chain, contents, nodes, state links, snapshots, artifacts and pairing; with `deep` match digests too."""
    row = store.run_row(namespace, run)
    if row is None:
        raise NotFound(f"no run {run[:128]!r} in namespace {namespace[:128]!r}", code="unknown_run")
    problems: list[Problem] = []
    facts = _check_header(store, namespace, run, row.header, problems)
    last = store.last_event(namespace, run)
    total = last.seq if last is not None else 0
    if processes > 1 and total >= PARALLEL_FROM_EVENTS and reducer is None and not store.url.startswith("memory:"):
        results = _verify_in_parallel(store, run, namespace, deep, total, processes, facts)
    else:
        verifier = _make_range_verifier(store, run, namespace, 1, total + 1, deep, reducer, facts)
        _feed(verifier, store.scan(namespace, run, 1, total + 1), total, progress)
        results = [verifier.result]
    problems.extend(
        Problem(row_before.seq, "mismatch", "bad_sequence", "an event precedes the first")
        for row_before in store.scan(namespace, run, -(2**62), 1, contents=False)
    )
    shared = "" if facts is None else _check_parents(store, namespace, run, problems)
    report = merge_results(run, results, problems, total)
    report.deep = deep
    report.notes += [shared] if shared else []
    if deep and row.header.content is None:
        report.notes.append("the facts are erased: match digests under the run's own rules were not recomputed")
    report.head = render(row.header.hash if last is None else last.hash)
    _check_expected(store, namespace, run, report, expected)
    if facts is not None:
        _check_snapshots(store, namespace, run, report)
    return report


def _check_parents(store: Store, namespace: str, run: str, problems: list[Problem]) -> str:
    """Check that the parents of a fork are the ones its header names. Return a note for the report."""
    try:
        shared = shared_stretches(JournalReader(store, run, namespace))
    except NotFound as missing:
        return f"{missing.message}: the shared events were not checked"
    except Damaged as damage:
        problems.append(Problem(0, "mismatch", damage.code, damage.message))
        return ""
    if not shared:
        return ""
    return f"it shares {shared[-1].last} events with run {shared[-1].reader.run}, which is verified separately"


def _feed(
    verifier: RangeVerifier, rows: Iterator[EventRow], total: int, progress: Callable[[int, int], None] | None
) -> None:
    if progress is None:
        verifier.verify(rows)
        return

    def counted() -> Any:
        for number, row in enumerate(rows, 1):
            if number % 2000 == 0:
                progress(number, total)
            yield row

    verifier.verify(counted())
    progress(total, total)


def _check_header(
    store: Store, namespace: str, run: str, header_row: HeaderRow, problems: list[Problem]
) -> dict[str, Any] | None:
    """Return the decoded facts if the header is valid. Add each problem of the header at seq 0."""
    try:
        header = parse_header(header_row.header)
    except Damaged as damage:
        problems.append(Problem(0, "failure", damage.code, damage.message))
        return None
    if header_hash(header_row.header) != header_row.hash:
        problems.append(Problem(0, "failure", "bad_header", "the header does not match its hash"))
    moved = header.run != run or header.namespace != namespace
    if (moved and not header_row.imported) or (header.kind, header.created) != (header_row.kind, header_row.created):
        problems.append(Problem(0, "failure", "bad_header", "the store's index disagrees with the header"))
    if header_row.imported != is_imported(store, namespace, run, header_row.hash):
        which = "marked as imported, and no import" if header_row.imported else "not marked as imported, and an import"
        problems.append(Problem(0, "mismatch", "bad_header", f"the run is {which} is on record"))
    nodes = NodeReader(store, namespace)
    return check_facts(
        header_row,
        header,
        fetch_nodes=nodes.fetch,
        artifact=nodes.artifact,
        is_erasure_recorded=_look_up_erasures(store, namespace, run),
        problems=problems,
    )


def _make_range_verifier(
    store: Store,
    run: str,
    namespace: str,
    start: int,
    stop: int,
    deep: bool,
    reducer: Reducer | None,
    facts: dict[str, Any] | None,
) -> RangeVerifier:
    row = store.run_row(namespace, run)
    assert row is not None
    prev = row.header.hash
    lanes: dict[str, tuple[int, bytes]] = {}
    if start > 1:
        before = store.event(namespace, run, start - 1)
        prev = before.hash if before is not None else b""
        lanes = {end.lane: (end.lane_seq or 0, end.prefix or b"") for end in store.lanes(namespace, run, start)}
    try:
        header = parse_header(row.header.header)
        recorded_run, recorded_reducer, recorded_rules = header.run, header.reducer, header.rules
    except Damaged:
        recorded_run, recorded_reducer, recorded_rules = run, "", ""
    rules = rules_of(facts)

    def fetch_nodes(addresses: Any) -> dict[bytes, bytes]:
        return {address: check_node(address, blob) for address, blob in store.nodes(namespace, addresses).items()}

    def find_lane_position(seq: int) -> tuple[str, int | None] | None:
        found = store.event(namespace, run, seq)
        return None if found is None else (found.lane, found.lane_seq)

    contents = ContentChecks(
        RangeResult(start, stop),
        fetch_nodes=fetch_nodes,
        fetch_artifact=lambda address: store.artifact(namespace, address),
        rules=rules if deep and rules.id == recorded_rules else None,
        reducer=reducer if reducer is not None and start == 1 else None,
        builtin_state=recorded_reducer == StateUpdatedOnlyReducer.id,
        foreign=row.header.imported,
    )
    return RangeVerifier(
        contents,
        run=recorded_run,
        prev=prev,
        lanes=lanes,
        find_lane_position=find_lane_position,
        is_erasure_recorded=_look_up_erasures(store, namespace, run),
        operations=row.header.kind == "operations",
    )


def _look_up_erasures(store: Store, namespace: str, run: str) -> Callable[[int], bool]:
    """Return a function that checks for a recorded erasure. The operations journal is read at the first call."""
    cache: list[set[int]] = []

    def on_record(seq: int) -> bool:
        if not cache:
            cache.append(erased_seqs(store, namespace, run))
        return seq in cache[0]

    return on_record


def _verify_range_in_child(
    url: str, run: str, namespace: str, start: int, stop: int, deep: bool, facts: dict[str, Any] | None
) -> RangeResult:
    store = open_store(url, read_only=True)
    try:
        verifier = _make_range_verifier(store, run, namespace, start, stop, deep, None, facts)
        return verifier.verify(store.scan(namespace, run, start, stop))
    finally:
        store.close()


def _verify_in_parallel(
    store: Store, run: str, namespace: str, deep: bool, total: int, processes: int, facts: dict[str, Any] | None
) -> list[RangeResult]:
    # Imported here: most programs never verify in parallel, and these modules are slow to import.
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    share = -(-total // processes)
    starts = list(range(1, total + 1, share))
    # Spawned, not forked: a forked child would inherit open database handles.
    with ProcessPoolExecutor(len(starts), mp_context=get_context("spawn")) as pool:
        futures = [
            pool.submit(
                _verify_range_in_child,
                store.private_url,
                run,
                namespace,
                start,
                min(start + share, total + 1),
                deep,
                facts,
            )
            for start in starts
        ]
        return [future.result() for future in futures]


def merge_results(run: str, results: list[RangeResult], problems: list[Problem], total: int) -> VerificationReport:
    opened: dict[int, str] = {}
    after: str | None = None
    state: bytes | None = b"null"
    """Canonical bytes of the state so far; None if unknown."""
    state_seen = False
    extra = list(problems)
    for result in results:
        for answer in result.early_answers:
            if opened.pop(answer.parent, None) != ANSWERS[answer.kind]:
                message = f"event {answer.parent} is no open request to answer"
                extra.append(Problem(answer.seq, "mismatch", "orphan_answer", message))
        opened.update(result.opened)
        for seq, salt, link in result.early_snapshots:
            if state is not None and render(state_link_of(salt, state)) != link:
                message = "the snapshot event commits to a state that the log does not have"
                extra.append(Problem(seq, "mismatch", "bad_snapshot", message))
        if result.first_before is not None:
            seq, before = result.first_before
            if before != after and (after is not None or not state_seen):
                message = "the state before differs from the state after the previous update"
                extra.append(Problem(seq, "mismatch", "bad_state", message))
        if result.state_seen:
            after, state_seen, state = result.last_after, True, result.last_state
        if result is not results[-1] and result.last_kind in TERMINAL_KINDS:
            extra.append(Problem(result.stop, "mismatch", "after_end", f"it follows {result.last_kind}"))
    found = sorted([*extra, *(problem for result in results for problem in result.problems)])
    events = sum(result.events for result in results)
    if events != total and not found:
        found.append(Problem(total, "mismatch", "bad_sequence", "the number of events is not the last seq"))
    bad_between = len({problem.seq for problem in extra if problem.seq > 0})
    hidden = sum(result.problem_count - len(result.problems) for result in results)
    failures = sum(problem.sort == "failure" for problem in found)
    return VerificationReport(
        run=run,
        events=total,
        verified=max(0, sum(result.events - result.bad for result in results) - bad_between),
        failures=failures + hidden,
        mismatches=len(found) - failures,
        problems=found,
        terminal=results[-1].last_kind if results[-1].last_kind in TERMINAL_KINDS else None,
        erased=[seq for result in results for seq in result.erased],
        orphans=sorted(seq for seq, kind in opened.items() if kind == "ActionRequested"),
        open_interrupts=sorted(seq for seq, kind in opened.items() if kind == "Interrupted"),
        open_waits=sorted(seq for seq, kind in opened.items() if kind == "WaitCreated"),
        nodes=sum(result.nodes for result in results),
        artifacts=sum(result.artifacts for result in results),
    )


def _check_expected(store: Store, namespace: str, run: str, report: VerificationReport, expected: Head | None) -> None:
    if expected is not None:
        report.expected_head = True
        if expected.seq < 0:
            raise InvalidInput("an expected head has a seq of 0 or more", code="bad_head")
        if expected.seq == 0:
            row = store.run_row(namespace, run)
            found_hash = row.header.hash if row else None
        else:
            event = store.event(namespace, run, expected.seq)
            found_hash = event.hash if event is not None else None
        if found_hash != expected.hash:
            message = (
                f"the run ends at seq {report.events}, before the expected head"
                if found_hash is None
                else "the event there is not the expected head"
            )
            report.problems.append(Problem(expected.seq, "mismatch", "bad_head", message))
            report.problems.sort()
            report.mismatches += 1
    elif report.terminal is None:
        report.notes.append(f"verified to seq {report.events}, nothing later to compare with")


def _check_snapshots(store: Store, namespace: str, run: str, report: VerificationReport) -> None:
    try:
        reader = JournalReader(store, run, namespace)
    except OnrecordError:
        return
    bad = {problem.seq for problem in report.problems}
    for row in store.snapshots(namespace, run):
        report.snapshots += 1
        try:
            check_snapshot(reader, row)
        except OnrecordError as problem:
            report.rejected_snapshots.append((row.seq, problem.message))
            if not bad & {row.seq, row.seq + 1}:  # else its own event is bad, which is reported already
                report.problems.append(Problem(row.seq, "mismatch", "bad_snapshot", problem.message))
                report.mismatches += 1
    report.problems.sort()
