"""Bundles that were tampered with. Each is a report with a stable code; none is an exception, none is valid."""

from __future__ import annotations

import json
import os
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kit.evidence import Taken, full_bundle, keys_at, recorded_run, signature
from onrecord.errors import Damaged, InvalidInput, NotFound
from onrecord.proof.evidence import BundleReport, PublicKey, SigningKeys, check_bundle, make_bundle
from onrecord.proof.evidence.envelope import MAX_ENVELOPE_BYTES, MAX_SIGNATURES
from onrecord.store.memory import MemoryStore


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("evidence")


@pytest.fixture(scope="module")
def keys(folder: Path) -> SigningKeys:
    return keys_at(folder)


@pytest.fixture(scope="module")
def strangers(folder: Path) -> SigningKeys:
    return keys_at(folder, "strangers")


@pytest.fixture(scope="module")
def good(keys: SigningKeys) -> bytes:
    return full_bundle(MemoryStore(), keys)


@pytest.fixture(scope="module")
def other(keys: SigningKeys) -> bytes:
    """Another good bundle under the same key."""
    return full_bundle(MemoryStore(), keys, ("r1", "r3"), "6")


def code_of(bundle: bytes, keys: SigningKeys, **more: Any) -> str:
    report = check_bundle(bundle, keys.public_keys(), **more)
    assert isinstance(report, BundleReport)
    assert report.valid == (report.code == "valid")
    assert report.line.endswith("- VALID" if report.valid else "- INVALID")
    if not report.valid:
        with pytest.raises(Damaged) as raised:
            report.raise_if_invalid()
        assert raised.value.code == report.code
    return report.code


def test_the_good_ones_are_good(good: bytes, other: bytes, keys: SigningKeys) -> None:
    assert code_of(good, keys) == code_of(other, keys) == "valid"


def test_no_bit_of_it_may_change(good: bytes, keys: SigningKeys) -> None:
    """Every region: the envelope byte by byte, the parts in steps that hit all of their lines, and every border."""
    first = good.index(b"\n")
    places = {*range(0, first, 5), *range(first - 150, first + 3), *range(first, len(good), 37)}
    places |= {at + step for at in range(len(good)) if good[at : at + 1] == b"\n" for step in (-1, 0, 1)}
    codes = set()
    for at in sorted(place for place in places if place < len(good)):
        for bit in (0x01, 0x20):
            altered = bytearray(good)
            altered[at] ^= bit
            code = code_of(bytes(altered), keys)
            assert code != "valid", f"byte {at}"
            codes.add(code)
    assert {"bad_envelope", "bad_signature", "unknown_key", "bad_part", "wrong_payload_type"} <= codes


def test_cut_off_anywhere_it_is_found_out(good: bytes, keys: SigningKeys) -> None:
    lines = good.split(b"\n")
    for number in range(len(lines)):
        for cut in (b"\n".join(lines[:number]), b"\n".join(lines[:number]) + b"\n"):
            if cut != good:
                assert code_of(cut, keys) in ("truncated", "bad_part", "bad_envelope"), number
    for at in range(0, len(good), 997):
        assert code_of(good[:at], keys) in ("truncated", "bad_part"), at
    assert code_of(good[:-1], keys) == "truncated"
    assert code_of(b"", keys) == "truncated"


def test_what_follows_is_found_out(good: bytes, keys: SigningKeys) -> None:
    for more in (b"\n", b"x", good, b'{"note":"hello"}\n'):
        assert code_of(good + more, keys) == "trailing_bytes"


def swaps(good: bytes, other: bytes) -> Iterator[tuple[str, bytes]]:
    ours, theirs = Taken(good), Taken(other)
    yield "the other's envelope", theirs.together(ours.parts)
    yield "the other's parts", ours.together(theirs.parts)
    for number, (own, foreign) in enumerate(zip(ours.parts, theirs.parts, strict=True)):
        if own != foreign:
            parts = ours.parts
            parts[number] = foreign
            yield f"part {number} of the other", ours.together(parts)
    parts = ours.parts
    yield "parts in another order", ours.together([parts[1], parts[0], *parts[2:]])
    yield "a part twice", ours.together([parts[0], parts[0], *parts[2:]])
    yield "a part less", ours.together(parts[:-1])
    yield "a part more", ours.together([*parts, parts[0]])
    yield "the other's signature", ours.together(signatures=theirs.envelope["signatures"])
    yield "the other's payload", ours.together(payload=theirs.envelope["payload"])


def test_parts_of_two_good_bundles_make_no_third(good: bytes, other: bytes, keys: SigningKeys) -> None:
    found = {name: code_of(bundle, keys) for name, bundle in swaps(good, other)}
    assert len(found) >= 10
    assert found.pop("the other's signature") == "bad_signature"
    assert found.pop("the other's payload") == "bad_signature"
    assert found.pop("a part less") == "truncated"
    assert found.pop("a part more") == "trailing_bytes"
    assert set(found.values()) == {"bad_part"}


def test_a_forged_payload_is_found_out(good: bytes, keys: SigningKeys) -> None:
    taken = Taken(good)
    forged = taken.payload.replace(b'"terminal":"Completed"', b'"terminal":"Cancelled"')
    assert forged != taken.payload
    assert code_of(taken.together(payload=b64encode(forged).decode()), keys) == "bad_signature"


def test_signed_again_by_somebody_else_it_is_not_ours(good: bytes, keys: SigningKeys, strangers: SigningKeys) -> None:
    taken = Taken(good)
    by_stranger = signature(strangers, taken.payload)
    assert code_of(taken.together(signatures=[by_stranger]), keys) == "unknown_key"
    assert code_of(taken.together(signatures=[by_stranger]), strangers) == "valid", "who trusts them may"
    claimed = {**by_stranger, "keyid": taken.envelope["signatures"][0]["keyid"]}
    assert code_of(taken.together(signatures=[claimed]), keys) == "bad_signature"


def test_the_signature_taken_away(good: bytes, keys: SigningKeys) -> None:
    taken = Taken(good)
    assert code_of(taken.together(signatures=[]), keys) == "unsigned"
    own = taken.envelope["signatures"][0]
    for sig in ("", b64encode(bytes(64)).decode(), b64encode(bytes(63)).decode(), own["sig"] + own["sig"]):
        assert code_of(taken.together(signatures=[{**own, "sig": sig}]), keys) in ("bad_signature", "bad_envelope")
    assert code_of(good, SigningKeys(Path("/nonexistent/keys.json"))) == "no_keys", "no key is no pass"


def test_two_signatures(good: bytes, keys: SigningKeys, strangers: SigningKeys) -> None:
    taken = Taken(good)
    own = taken.envelope["signatures"][0]
    theirs = signature(strangers, taken.payload)
    broken = {**theirs, "sig": b64encode(bytes(64)).decode()}
    both = [*keys.public_keys(), *strangers.public_keys()]
    assert code_of(taken.together(signatures=[own, theirs]), keys) == "valid", "an unknown one is left aside"
    report = check_bundle(taken.together(signatures=[own, theirs]), both)
    assert report.signed_by == [own["keyid"], theirs["keyid"]]
    for pair in ([own, broken], [broken, own]):
        assert check_bundle(taken.together(signatures=pair), both).code == "bad_signature", "one bad one condemns"
        assert code_of(taken.together(signatures=pair), keys) == "valid", "unless nobody knows it"
    assert code_of(taken.together(signatures=[own, own]), keys) == "duplicate_signature"


def test_too_many_signatures(good: bytes, keys: SigningKeys) -> None:
    taken = Taken(good)
    own = taken.envelope["signatures"][0]
    many = [{**own, "keyid": f"k{number}"} for number in range(10_000)]
    assert code_of(taken.together(signatures=[own, *many]), keys) == "too_many_signatures"
    assert code_of(taken.together(signatures=[own, *many[: MAX_SIGNATURES - 1]]), keys) == "valid"


def test_another_payload_type_is_not_evidence(good: bytes, keys: SigningKeys) -> None:
    """Also with a signature that holds: it was made for something else."""
    taken = Taken(good)
    for kind in ("application/vnd.in-toto+json", "", "application/vnd.onrecord.evidence.v2+json"):
        signed = signature(keys, taken.payload, kind)
        assert code_of(taken.together(payloadType=kind, signatures=[signed]), keys) == "wrong_payload_type"
        assert code_of(taken.together(payloadType=kind), keys) == "wrong_payload_type"
    other = signature(keys, taken.payload, "text/plain")
    assert code_of(taken.together(signatures=[other]), keys) == "bad_signature"


def test_other_spellings_of_the_envelope_are_refused(good: bytes, keys: SigningKeys) -> None:
    first, rest = good.split(b"\n", 1)
    tree = json.loads(first)
    padded = tree["payload"][:-1] + "\n" if tree["payload"].endswith("=") else tree["payload"] + "===="
    spellings = [
        json.dumps(tree).encode(),
        b" " + first,
        first + b" ",
        first + b"\r",
        b"\xef\xbb\xbf" + first,
        json.dumps(dict(reversed(tree.items())), separators=(",", ":")).encode(),
        json.dumps({**tree, "alg": "none"}, separators=(",", ":")).encode(),
        json.dumps({**tree, "payload": padded}, separators=(",", ":")).encode(),
        json.dumps([tree], separators=(",", ":")).encode(),
        b"null",
        b"{",
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"payload":1,"payloadType":2,"signatures":3}',
        b'{"payload":"","payloadType":"","signatures":[[]]}',
        b'{"payload":"","payloadType":"","signatures":[{"keyid":1,"sig":""}]}',
    ]
    for spelling in spellings:
        assert code_of(spelling + b"\n" + rest, keys) == "bad_envelope", spelling[:60]
    for member in (b'"payloadType":', b'"signatures":'):
        at = first.index(member)
        doubled = first[:at] + b'"payload":"",' + first[at:]
        assert code_of(doubled + b"\n" + rest, keys) == "duplicate_key"


def test_sizes_are_judged_before_anything_is_parsed(good: bytes, keys: SigningKeys) -> None:
    assert code_of(good, keys, max_bytes=len(good)) == "valid"
    assert code_of(good, keys, max_bytes=len(good) - 1) == "too_large"
    assert code_of(b"x" * (MAX_ENVELOPE_BYTES + 1), keys) == "too_large"


# Signed, and yet wrong: the signer is not believed either

STATEMENTS: dict[str, dict[str, Any]] = {
    "another format": {"format": "onrecord.evidence/2"},
    "no runs": {"runs": []},
    "no parts": {"parts": []},
    "no result": {"result": None},
    "another result": {"result": "sha256:" + "0" * 64},
    "a time that is none": {"created": -1},
    "a time of another type": {"created": "now"},
    "more members": {"more": 1},
    "runs that are none": {"runs": [{}]},
}


@pytest.mark.parametrize("name", STATEMENTS)
def test_a_signed_statement_that_makes_no_sense_is_refused(name: str, good: bytes, keys: SigningKeys) -> None:
    assert code_of(Taken(good).signed_again(keys, **STATEMENTS[name]), keys) == "bad_statement"


@pytest.mark.parametrize(
    "payload", [b"", b"null", b"[]", b'{"runs":[],"runs":[]}', b"[" * 9999, b" {}", b"\xff"], ids=repr
)
def test_a_signed_payload_that_is_no_statement_is_refused(payload: bytes, good: bytes, keys: SigningKeys) -> None:
    bundle = Taken(good).together(payload=b64encode(payload).decode(), signatures=[signature(keys, payload)])
    assert code_of(bundle, keys) == "bad_statement"


@pytest.mark.parametrize(
    ("edit", "code"),
    [
        ({"run": "r9"}, "other_run"),
        ({"namespace": "elsewhere"}, "other_run"),
        ({"terminal": None}, "other_run"),
        ({"header_hash": "sha256:" + "0" * 64}, "other_run"),
        ({"head": "sha256:" + "0" * 64}, "bad_recording"),
        ({"events": 3}, "bad_recording"),
        ({"events": 5}, "bad_recording"),
        ({"events": 0}, "bad_statement"),
        ({"format": "onrecord/2"}, "bad_statement"),
        ({"run": "../../etc"}, "bad_statement"),
        ({"recording": "sha256:" + "0" * 64}, "bad_statement"),
    ],
    ids=str,
)
def test_a_signed_claim_that_the_recording_does_not_bear_out(
    edit: dict[str, Any], code: str, good: bytes, keys: SigningKeys
) -> None:
    taken = Taken(good)
    runs = [{**taken.statement["runs"][0], **edit}, *taken.statement["runs"][1:]]
    assert code_of(taken.signed_again(keys, runs=runs), keys) == code


def signed_with(keys: SigningKeys, good: bytes, number: int, data: bytes) -> bytes:
    """The bundle with one part replaced, and everything signed anew."""
    from onrecord.core.hashing import artifact_address, render

    taken = Taken(good)
    parts, said = taken.parts, [dict(part) for part in taken.statement["parts"]]
    before = said[number]["digest"]
    parts[number] = data
    said[number].update(digest=render(artifact_address(data)), size=len(data))
    runs = [
        {**run, "recording": said[number]["digest"] if run["recording"] == before else run["recording"]}
        for run in taken.statement["runs"]
    ]
    result = said[number]["digest"] if taken.statement["result"] == before else taken.statement["result"]
    return taken.signed_again(keys, parts, parts=said, runs=runs, result=result)


def test_a_signed_recording_that_does_not_verify_is_refused(good: bytes, keys: SigningKeys) -> None:
    own = Taken(good).parts[0]
    altered = own.replace(b'"output":"4"', b'"output":"5"')
    assert altered != own
    for data in (altered, own[:-20], own + b"x\n", b"", b"\n", own.replace(b"\n", b"\r\n"), b"PK\x03\x04" * 50):
        assert code_of(signed_with(keys, good, 0, data), keys) == "bad_recording"
    assert code_of(signed_with(keys, good, 0, own), keys) == "valid"


def test_a_signed_result_that_is_hostile_is_refused(good: bytes, keys: SigningKeys) -> None:
    for data in (b"", b"{", b'{"a":1,"a":2}', b"[" * 5000 + b"]" * 5000, b"1e400", b'{"$bytes":5}'):
        assert code_of(signed_with(keys, good, 2, data), keys) == "bad_result"
    hostile = b'{"$object":{"type":"subprocess:Popen","form":"dataclass","fields":{"args":["id"]}}}'
    report = check_bundle(signed_with(keys, good, 2, hostile), keys.public_keys())
    assert type(report.result).__name__ == "Plain", "data names no code"


def test_messages_name_no_file_of_the_checker(good: bytes, keys: SigningKeys) -> None:
    report = check_bundle(signed_with(keys, good, 0, b"x\n"), keys.public_keys())
    assert "onrecord-evidence-" not in report.line
    assert "part 1, run r1" in report.line


def test_nothing_is_left_behind(
    good: bytes, keys: SigningKeys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert check_bundle(good, keys.public_keys()).valid
    assert not check_bundle(signed_with(keys, good, 0, b"x\n"), keys.public_keys()).valid
    assert list(tmp_path.iterdir()) == []


# Files that are none


def test_a_path_that_is_no_bundle(tmp_path: Path, keys: SigningKeys) -> None:
    with pytest.raises(NotFound):
        check_bundle(tmp_path / "missing", keys.public_keys())
    os.mkfifo(tmp_path / "pipe")
    for name in (tmp_path, tmp_path / "pipe"):
        with pytest.raises(InvalidInput):
            check_bundle(name, keys.public_keys())


def test_a_key_is_only_good_for_its_time(good: bytes, keys: SigningKeys) -> None:
    raw = keys.current_public_key().raw
    created = Taken(good).statement["created"]
    assert check_bundle(good, [PublicKey(raw, created, created)]).valid
    assert check_bundle(good, [PublicKey(raw, not_after=created - 1)]).code == "key_not_in_use"
    assert check_bundle(good, [PublicKey(raw, not_before=created + 1)]).code == "key_not_in_use"


def test_secrets_are_in_no_bundle(tmp_path: Path) -> None:
    keys, memory = keys_at(tmp_path), MemoryStore()
    recorded_run(memory)
    bundle = make_bundle(memory, "r1", keys=keys)
    kept = json.loads((tmp_path / "keys.json").read_bytes())["keys"]
    assert len(kept) == 2
    assert all(member["secret"].encode() not in bundle for member in kept)
