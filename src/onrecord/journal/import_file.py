"""Bringing an exported recording into a store, and verifying one as it lies.

Nothing is written before the whole file has been verified; then all of it is written in one transaction. The same
file again changes nothing. A run id that is taken by another run keeps its owner: the newcomer is kept beside it
under an id that shows its header hash.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from reenact.core.hashing import header_hash, render
from reenact.core.links import OPERATIONS_RUN, check_namespace
from reenact.core.matching import MatchRules
from reenact.core.packing import unpack
from reenact.core.state import StateUpdatedOnlyReducer
from reenact.errors import BadRecording, RunExists
from reenact.journal.facts import check_facts, rules_of
from reenact.journal.operations import OperationsJournal
from reenact.journal.recording_file import RecordingFile
from reenact.journal.records import erasure_record, import_record
from reenact.journal.verify import VerificationReport, merge_results
from reenact.journal.verifying import Problem, RangeVerifier
from reenact.store.contract import EventRow, Head, NodeRow, Store

BATCH_EVENTS = 500
Progress = Callable[[int, int], None]
"""Told how much is done, of how much."""


class Imported(NamedTuple):
    run: str
    events: int
    already_there: bool
    kept_apart: bool
    """Another run has the recorded id; this one is kept under `run` instead."""


def verify_file(
    path: str | Path, *, deep: bool = False, expected: Head | None = None, progress: Progress | None = None
) -> VerificationReport:
    """Verifies an exported recording without a store.

    Damage that leaves no readable structure is raised as BadRecording.
    """
    with RecordingFile(path) as recording:
        return _verify(recording, deep=deep, expected=expected, progress=progress)


def import_file(
    store: Store, path: str | Path, namespace: str = "default", *, progress: Progress | None = None
) -> Imported:
    """Brings an exported recording into a store, after every byte of it has been verified; or else writes nothing. The
    same file again changes nothing."""
    check_namespace(namespace)
    with RecordingFile(path) as recording:
        report = _verify(recording, deep=True, progress=_part(progress, 0))
        if not report.valid:
            first = report.problems[0]
            raise BadRecording(f"{recording.path.name}, event {first.seq}: {first.message}", code=first.code)
        if recording.header.kind != "run":
            raise BadRecording(f"{recording.path.name} is an operations journal, which stays where it was written")
        return _write(store, recording, namespace, report, _part(progress, 1))


def _part(progress: Progress | None, part: int) -> Progress | None:
    """One of two passes over a file."""
    return None if progress is None else lambda done, total: progress(part * total + done, 2 * total)


def _rows(recording: RecordingFile, progress: Progress | None) -> Iterator[EventRow]:
    for row in recording.rows():
        if progress is not None:
            progress(row.seq, recording.events)
        yield row


def _verify(
    recording: RecordingFile, *, deep: bool, expected: Head | None = None, progress: Progress | None = None
) -> VerificationReport:
    problems: list[Problem] = []
    rules, builtin_state = _header_problems(recording, problems)
    verifier = RangeVerifier(
        run=recording.header.run,
        start=1,
        stop=recording.events + 1,
        prev=recording.header_row.hash,
        lanes={},
        fetch_nodes=recording.nodes,
        fetch_artifact=recording.artifact,
        lane_place=lambda _seq: None,
        erased_by_right=lambda _seq: True,
        rules=rules if deep else None,
        builtin_state=builtin_state,
        operations=recording.header.kind == "operations",
    )
    seen: set[str] = set()
    at_expected: list[bytes] = []

    def rows() -> Iterator[EventRow]:
        for row in _rows(recording, progress):
            if row.id in seen:
                problems.append(Problem(row.seq, "mismatch", "duplicate_id", "its id stands in the run already"))
            seen.add(row.id)
            if expected is not None and row.seq == expected.seq:
                at_expected.append(row.hash)
            yield row

    verifier.feed(rows())
    head = verifier.result.last_hash if recording.events else recording.header_row.hash
    if recording.end[1] != head:
        problems.append(Problem(recording.events, "mismatch", "bad_head", "the end line names another head"))
    if expected is not None and expected.seq == 0:
        at_expected.append(recording.header_row.hash)
    if expected is not None and at_expected != [expected.hash]:
        problems.append(Problem(expected.seq, "mismatch", "bad_head", "the expected head is not in the file"))
    report = merge_results(recording.header.run, [verifier.result], problems, recording.events)
    report.head, report.deep, report.expected_head = render(head), deep, expected is not None
    _notes(recording, report)
    return report


def _notes(recording: RecordingFile, report: VerificationReport) -> None:
    if report.erased or recording.header_row.content is None:
        count = len(report.erased) + (recording.header_row.content is None)
        report.notes.append(f"{count} contents are marked as erased; only the store that recorded them can prove it")
    if report.terminal is None and not report.expected_head:
        report.notes.append(f"verified to seq {report.events}, nothing later to compare with")


def _header_problems(recording: RecordingFile, problems: list[Problem]) -> tuple[MatchRules | None, bool]:
    row, header = recording.header_row, recording.header
    if header_hash(row.header) != row.hash:
        problems.append(Problem(0, "failure", "bad_header", "the header does not match its hash"))

    def artifact(address: bytes) -> bytes:
        return recording.artifact(address) or b""  # that it is there was checked with the index

    facts = check_facts(
        row,
        header,
        fetch_nodes=recording.nodes,
        artifact=artifact,
        erased_by_right=lambda _seq: True,
        problems=problems,
    )
    rules = rules_of(facts)
    # Rules of the run's own are gone with erased facts; nothing can be recomputed under them.
    return rules if rules.id == header.rules else None, header.reducer == StateUpdatedOnlyReducer.id


def _write(
    store: Store, recording: RecordingFile, namespace: str, report: VerificationReport, progress: Progress | None
) -> Imported:
    header = recording.header_row
    run = header.run
    kept_apart = run == OPERATIONS_RUN
    if kept_apart:
        run = _apart(run, header.hash)
    existing = store.run_row(namespace, run)
    if existing is not None and existing.header.hash != header.hash:
        run, kept_apart = _apart(run, header.hash), True
        existing = store.run_row(namespace, run)
    if existing is not None:
        last_seq = existing.last.seq if existing.last is not None else 0
        if existing.header.hash == header.hash and last_seq >= recording.events:
            at = store.event(namespace, run, recording.events) if recording.events else None
            if (at.hash if at is not None else header.hash) == recording.end[1]:
                return Imported(run, recording.events, already_there=True, kept_apart=kept_apart)
        raise RunExists(
            f"run {run} is in the store with another history",
            hint="Import it into another namespace, or compare the two.",
        )
    operations = OperationsJournal.open_for(store, namespace)
    operations.note(import_record(run, header.hash))
    if report.erased or header.content is None:
        # On record before the run is there: its missing contents are then never mistaken for damage.
        erased = [*([0] if header.content is None else []), *report.erased]
        operations.note(erasure_record(run, erased, header.hash, "erased before it was imported"))
    given: set[bytes] = set()
    facts = [] if header.content is None else recording.new_nodes([unpack(header.content)], given)
    new = [address for address in recording.artifact_addresses() if store.artifact(namespace, address) is None]
    try:
        for address in new:
            store.put_artifact(namespace, address, recording.artifact(address) or b"")
        batches = _batches(recording, given, report.head, progress)
        store.import_run(namespace, header._replace(run=run), facts, batches)
    except BaseException:
        store.remove_artifacts(namespace, new)
        raise
    return Imported(run, recording.events, already_there=False, kept_apart=kept_apart)


def _apart(run: str, digest: bytes) -> str:
    return f"{run[:100]}.{digest.hex()[:12]}"


def _batches(
    recording: RecordingFile, given: set[bytes], verified_head: str, progress: Progress | None
) -> Iterator[tuple[list[EventRow], list[NodeRow]]]:
    """Rows by the hundred with the nodes they need.

    The file is read again here, so its head has to come out as verified.
    """
    batch: list[EventRow] = []
    head = recording.header_row.hash
    for row in _rows(recording, progress):
        batch.append(row)
        head = row.hash
        if len(batch) >= BATCH_EVENTS:
            yield batch, _nodes_of(recording, batch, given)
            batch = []
    if batch:
        yield batch, _nodes_of(recording, batch, given)
    if render(head) != verified_head:
        raise BadRecording(f"{recording.path.name} changed while it was read")


def _nodes_of(recording: RecordingFile, batch: list[EventRow], given: set[bytes]) -> list[NodeRow]:
    return recording.new_nodes([unpack(row.content) for row in batch if row.content is not None], given)


__all__ = ["Imported", "import_file", "verify_file"]
