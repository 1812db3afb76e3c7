"""Bundles that are good: what they hold, and that anybody can check them without the store."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from kit.evidence import FixedSources, Taken, full_bundle, keys_at, recorded_run
from onrecord.core.hashing import artifact_address, render
from onrecord.errors import Damaged, InvalidInput, NotFound
from onrecord.extras import install_command
from onrecord.journal.export import export_run
from onrecord.journal.import_file import import_file
from onrecord.journal.journal import Journal
from onrecord.journal.reader import JournalReader
from onrecord.proof.evidence import check_bundle, keep_difference, make_bundle, write_bundle
from onrecord.store.contract import Store
from onrecord.store.memory import MemoryStore


def test_a_bundle_is_checked_without_the_store(store: Store, tmp_path: Path) -> None:
    keys = keys_at(tmp_path)
    recorded_run(store)
    reader = JournalReader(store, "r1")
    bundle = make_bundle(store, "r1", keys=keys)
    head, header = render(reader.head().hash), render(reader.header_row.hash)
    store.close()
    report = check_bundle(bundle, keys.public_keys())
    assert report.valid
    assert report.signed_by == [keys.current_public_key().id]
    assert report.line == f"Evidence: 1 run, 4 events verified, signed by {report.signed_by[0]} - VALID"
    assert report.statement is not None
    (run,) = report.statement.runs
    assert (run.namespace, run.run, run.format, run.events, run.terminal) == (
        "default",
        "r1",
        "onrecord/1",
        4,
        "Completed",
    )
    assert (run.head, run.header_hash) == (head, header)
    assert report.recordings[0].verdict == "VALID"
    report.raise_if_invalid()


def test_the_recording_in_it_is_the_text_export(memory: MemoryStore, tmp_path: Path) -> None:
    keys = keys_at(tmp_path)
    bundle = full_bundle(memory, keys)
    parts = Taken(bundle).parts
    export_run(JournalReader(memory, "r2"), tmp_path / "r2.jsonl")
    assert parts[1] == (tmp_path / "r2.jsonl").read_bytes()
    for part, said in zip(parts, Taken(bundle).statement["parts"], strict=True):
        assert said["digest"] == render(artifact_address(part))


def test_a_comparison_comes_with_its_result_and_differences(memory: MemoryStore, tmp_path: Path) -> None:
    keys = keys_at(tmp_path)
    report = check_bundle(full_bundle(memory, keys), keys.public_keys())
    assert report.valid
    assert [found.run for found in report.recordings] == ["r1", "r2"]
    assert report.result["verdict"] == "diverged"
    assert report.differences == {report.result["difference"]: b"4 is not 5"}


def test_a_file_is_the_same_as_bytes(memory: MemoryStore, tmp_path: Path) -> None:
    keys, path = keys_at(tmp_path), tmp_path / "run.evidence"
    recorded_run(memory)
    size = write_bundle(path, memory, "r1", keys=keys, sources=FixedSources("same"))
    assert path.read_bytes() == make_bundle(memory, "r1", keys=keys, sources=FixedSources("same"))
    assert (path.stat().st_size, path.stat().st_mode & 0o777) == (size, 0o600)
    assert check_bundle(path, keys.public_keys()).valid
    assert check_bundle(str(path), keys.public_keys()).valid
    assert sorted(found.name for found in tmp_path.iterdir()) == ["keys.json", "keys.json.lock", "run.evidence"]


def test_a_run_that_has_not_ended_is_signed_as_it_stands(memory: MemoryStore, tmp_path: Path) -> None:
    keys = keys_at(tmp_path)
    recorded_run(memory, end=False)
    report = check_bundle(make_bundle(memory, "r1", keys=keys), keys.public_keys())
    assert report.valid
    assert report.statement is not None
    assert report.statement.runs[0].terminal is None


def test_an_imported_run_is_signed_under_the_id_it_was_recorded_with(memory: MemoryStore, tmp_path: Path) -> None:
    recorded_run(memory)
    export_run(JournalReader(memory, "r1"), tmp_path / "r1.jsonl")
    other = MemoryStore()
    recorded_run(other, answer="taken")
    imported = import_file(other, tmp_path / "r1.jsonl")
    assert imported.run != "r1"
    keys = keys_at(tmp_path)
    report = check_bundle(make_bundle(other, imported.run, keys=keys), keys.public_keys())
    assert report.valid
    assert report.recordings[0].run == "r1"


def test_what_cannot_be_signed_is_refused(memory: MemoryStore, tmp_path: Path) -> None:
    keys = keys_at(tmp_path)
    Journal.create(memory, "empty").release()
    for runs, error, code in (
        ("nothing", NotFound, "unknown_run"),
        ([], InvalidInput, "no_runs"),
        ("empty", InvalidInput, "empty_run"),
    ):
        with pytest.raises(error) as refused:
            make_bundle(memory, runs, keys=keys)
        assert refused.value.code == code
    recorded_run(memory)
    for result in (object(), bytes(70_000)):
        with pytest.raises(InvalidInput) as refused:
            make_bundle(memory, "r1", result=result, keys=keys)
        assert refused.value.code == "bad_result"
    with pytest.raises(NotFound) as refused:
        make_bundle(memory, "r1", differences=["sha256:" + "0" * 64], keys=keys)
    assert refused.value.code == "unknown_difference"


def test_what_no_checker_would_take_is_not_signed(
    memory: MemoryStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded_run(memory)
    monkeypatch.setattr("onrecord.proof.evidence.bundle_writer.MAX_ENVELOPE_BYTES", 100)
    with pytest.raises(InvalidInput) as refused:
        write_bundle(tmp_path / "x", memory, "r1", keys=keys_at(tmp_path))
    assert refused.value.code == "too_many_parts"
    monkeypatch.setattr("onrecord.proof.evidence.statement.MAX_PARTS", 0)
    with pytest.raises(InvalidInput) as refused:
        make_bundle(memory, "r1", keys=keys_at(tmp_path))
    assert refused.value.code == "bad_statement"
    assert sorted(found.name for found in tmp_path.iterdir()) == ["keys.json", "keys.json.lock"]


def test_a_result_that_equals_a_difference_is_no_confusion(memory: MemoryStore, tmp_path: Path) -> None:
    keys = keys_at(tmp_path)
    recorded_run(memory)
    digest = keep_difference(memory, "default", b'"same"')
    report = check_bundle(make_bundle(memory, "r1", result="same", differences=[digest], keys=keys), keys.public_keys())
    assert report.valid
    assert (report.result, report.differences) == ("same", {digest: b'"same"'})


def test_a_damaged_run_is_never_signed(memory: MemoryStore, tmp_path: Path) -> None:
    from kit.journals import Altered, rows_of, with_content

    recorded_run(memory)
    rows = rows_of(memory)
    rows[1] = with_content(rows[1], lambda stored: stored.replace(b'"4"', b'"5"'))
    with pytest.raises(Damaged):
        write_bundle(tmp_path / "x", Altered(memory, rows=rows), "r1", keys=keys_at(tmp_path))  # type: ignore[arg-type]
    assert not (tmp_path / "x").exists()


def test_a_second_opinion_on_the_signature(memory: MemoryStore, tmp_path: Path) -> None:
    """Another implementation of DSSE comes to the same verdict."""
    from securesystemslib.dsse import Envelope
    from securesystemslib.exceptions import VerificationError
    from securesystemslib.signer import SSlibKey

    keys = keys_at(tmp_path)
    recorded_run(memory)
    bundle = make_bundle(memory, "r1", keys=keys)
    own = keys.current_public_key()
    key = SSlibKey(own.id, "ed25519", "ed25519", {"public": own.raw.hex()})
    envelope = Envelope.from_dict(json.loads(bundle.split(b"\n")[0]))
    assert set(envelope.verify([key], 1)) == {own.id}
    envelope.payload = envelope.payload.replace(b'"r1"', b'"r2"')
    with pytest.raises(VerificationError):
        envelope.verify([key], 1)


def test_import_onrecord_loads_no_cryptography() -> None:
    code = (
        "import sys, onrecord, onrecord.analysis, onrecord.proof.evidence;"
        "assert not [name for name in sys.modules if name.startswith(('cryptography', 'securesystemslib'))]"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_without_the_package_it_is_said_what_to_install(memory: MemoryStore, tmp_path: Path) -> None:
    recorded_run(memory)
    keys = keys_at(tmp_path)
    bundle = make_bundle(memory, "r1", keys=keys)
    code = (
        "import sys; sys.modules['cryptography'] = None\n"
        "from onrecord.proof.evidence import SigningKeys, check_bundle\n"
        "from onrecord.errors import InvalidInput\n"
        "for act in (lambda: check_bundle(open(sys.argv[1], 'rb').read(), [bytes([7] * 32)]),\n"
        "            lambda: SigningKeys(sys.argv[2]).sign_bytes(b'')):\n"
        "    try: act()\n"
        "    except InvalidInput as error: print(error.code, error.hint)\n"
    )
    # The key has to be known, or nothing would have to be verified.
    raw = keys.current_public_key().raw
    code = code.replace("bytes([7] * 32)", repr(raw))
    (tmp_path / "bundle").write_bytes(bundle)
    arguments = [sys.executable, "-c", code, str(tmp_path / "bundle"), str(tmp_path / "new.json")]
    said = subprocess.run(arguments, capture_output=True, text=True, timeout=60)
    assert said.stdout == f"missing_extra {install_command('evidence')}\n" * 2, said.stderr
