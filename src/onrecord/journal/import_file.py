"""Import an exported recording into a store, or verify one without a store.

Nothing is written before the whole file is verified; then everything is written in one transaction. Importing the same
file again changes nothing. If another run has the run id, the imported run is stored under an id that contains its
header hash.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from onrecord.core.hashing import header_hash, render
from onrecord.core.links import OPERATIONS_RUN, check_namespace
from onrecord.core.matching import MatchRules
from onrecord.core.packing import unpack
from onrecord.core.state import StateUpdatedOnlyReducer
from onrecord.errors import BadRecording, RunExists
from onrecord.journal.content_checks import ContentChecks
from onrecord.journal.fact_checks import check_facts, rules_of
from onrecord.journal.findings import Problem, RangeResult
from onrecord.journal.operation_records import erasure_record, import_record
from onrecord.journal.operations import OperationsJournal
from onrecord.journal.range_checks import RangeVerifier
from onrecord.journal.recording_file import RecordingFile
from onrecord.journal.verify import VerificationReport, merge_results
from onrecord.store.contract import EventRow, Head, NodeRow, Store

BATCH_EVENTS = 500
Progress = Callable[[int, int], None]
"""Called with (done, total)."""


class Imported(NamedTuple):
    run: str
    events: int
    already_there: bool
    kept_apart: bool
    """True if another run has the recorded id; this one is stored under `run` instead."""


def verify_file(
    path: str | Path, *, deep: bool = False, expected: Head | None = None, progress: Progress | None = None
) -> VerificationReport:
    """Verify an exported recording without a store. Raise BadRecording if its structure cannot be read."""
    with RecordingFile(path) as recording:
        return _verify(recording, deep=deep, expected=expected, progress=progress)


def import_file(
    store: Store, path: str | Path, namespace: str = "default", *, progress: Progress | None = None
) -> Imported:
    """Verify every byte of a recording, then write it to the store, or write nothing.

    Importing the same file again changes nothing.
    """
    check_namespace(namespace)
    with RecordingFile(path) as recording:
        report = _verify(recording, deep=True, progress=_split_progress(progress, 0))
        if not report.valid:
            first = report.problems[0]
            raise BadRecording(f"{recording.path.name}, event {first.seq}: {first.message}", code=first.code)
        if recording.header.kind != "run":
            raise BadRecording(f"{recording.path.name} is an operations journal, which cannot be imported")
        return _write(store, recording, namespace, report, _split_progress(progress, 1))


def _split_progress(progress: Progress | None, part: int) -> Progress | None:
    """Return the progress function for one of two passes over a file."""
    return None if progress is None else lambda done, total: progress(part * total + done, 2 * total)


def _read_rows(recording: RecordingFile, progress: Progress | None) -> Iterator[EventRow]:
    for row in recording.rows():
        if progress is not None:
            progress(row.seq, recording.events)
        yield row


def _verify(
    recording: RecordingFile, *, deep: bool, expected: Head | None = None, progress: Progress | None = None
) -> VerificationReport:
    problems: list[Problem] = []
    rules, builtin_state = _check_header(recording, problems)
    contents = ContentChecks(
        RangeResult(1, recording.events + 1),
        fetch_nodes=recording.nodes,
        fetch_artifact=recording.artifact,
        rules=rules if deep else None,
        builtin_state=builtin_state,
    )
    verifier = RangeVerifier(
        contents,
        run=recording.header.run,
        prev=recording.header_row.hash,
        lanes={},
        find_lane_position=lambda _seq: None,
        is_erasure_recorded=lambda _seq: True,
        operations=recording.header.kind == "operations",
    )
    seen_ids: set[str] = set()
    at_expected: list[bytes] = []

    def rows() -> Iterator[EventRow]:
        for row in _read_rows(recording, progress):
            if row.id in seen_ids:
                problems.append(Problem(row.seq, "mismatch", "duplicate_id", "its id is used by an earlier event"))
            seen_ids.add(row.id)
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
    _add_notes(recording, report)
    return report


def _add_notes(recording: RecordingFile, report: VerificationReport) -> None:
    if report.erased or recording.header_row.content is None:
        count = len(report.erased) + (recording.header_row.content is None)
        report.notes.append(f"{count} contents are marked as erased; only the store that recorded them can prove it")
    if report.terminal is None and not report.expected_head:
        report.notes.append(f"verified to seq {report.events}, nothing later to compare with")


def _check_header(recording: RecordingFile, problems: list[Problem]) -> tuple[MatchRules | None, bool]:
    row, header = recording.header_row, recording.header
    if header_hash(row.header) != row.hash:
        problems.append(Problem(0, "failure", "bad_header", "the header does not match its hash"))

    def artifact(address: bytes) -> bytes:
        return recording.artifact(address) or b""  # the index has checked that it exists

    facts = check_facts(
        row,
        header,
        fetch_nodes=recording.nodes,
        artifact=artifact,
        is_erasure_recorded=lambda _seq: True,
        problems=problems,
    )
    rules = rules_of(facts)
    # A run's own rules are erased with its facts; match digests cannot be recomputed without them.
    return rules if rules.id == header.rules else None, header.reducer == StateUpdatedOnlyReducer.id


def _write(
    store: Store, recording: RecordingFile, namespace: str, report: VerificationReport, progress: Progress | None
) -> Imported:
    header = recording.header_row
    run = header.run
    kept_apart = run == OPERATIONS_RUN
    if kept_apart:
        run = _rename_run(run, header.hash)
    existing = store.run_row(namespace, run)
    if existing is not None and existing.header.hash != header.hash:
        run, kept_apart = _rename_run(run, header.hash), True
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
        # Recorded before the run is written: its missing contents are then never taken for damage.
        erased = [*([0] if header.content is None else []), *report.erased]
        operations.note(erasure_record(run, erased, header.hash, "erased before it was imported"))
    written_nodes: set[bytes] = set()
    facts = [] if header.content is None else recording.new_nodes([unpack(header.content)], written_nodes)
    new = [address for address in recording.artifact_addresses() if store.artifact(namespace, address) is None]
    try:
        for address in new:
            store.put_artifact(namespace, address, recording.artifact(address) or b"")
        batches = _read_batches(recording, written_nodes, report.head, progress)
        store.import_run(namespace, header._replace(run=run), facts, batches)
    except BaseException:
        store.remove_artifacts(namespace, new)
        raise
    return Imported(run, recording.events, already_there=False, kept_apart=kept_apart)


def _rename_run(run: str, digest: bytes) -> str:
    return f"{run[:100]}.{digest.hex()[:12]}"


def _read_batches(
    recording: RecordingFile, written_nodes: set[bytes], verified_head: str, progress: Progress | None
) -> Iterator[tuple[list[EventRow], list[NodeRow]]]:
    """Yield batches of rows with the nodes they need.

    The file is read a second time here, so its head must equal the verified one.
    """
    batch: list[EventRow] = []
    head = recording.header_row.hash
    for row in _read_rows(recording, progress):
        batch.append(row)
        head = row.hash
        if len(batch) >= BATCH_EVENTS:
            yield batch, _read_nodes(recording, batch, written_nodes)
            batch = []
    if batch:
        yield batch, _read_nodes(recording, batch, written_nodes)
    if render(head) != verified_head:
        raise BadRecording(f"{recording.path.name} changed while it was read")


def _read_nodes(recording: RecordingFile, batch: list[EventRow], written_nodes: set[bytes]) -> list[NodeRow]:
    return recording.new_nodes([unpack(row.content) for row in batch if row.content is not None], written_nodes)
