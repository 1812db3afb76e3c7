"""Wait keys as values: one text for one key, no field that can be changed, HMAC as others define it."""

from __future__ import annotations

import hashlib
import json
import struct
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.paths import DATA
from onrecord.core import wait_keys
from onrecord.core.wait_keys import (
    DECOY,
    WAIT_KEY_SHAPE,
    Resolution,
    ResolveOutcome,
    WaitIdentity,
    WaitKey,
    hmac_sha256,
    parse_wait_key,
)
from onrecord.errors import InvalidInput

WYCHEPROOF = DATA / "wycheproof" / "testvectors_v1" / "hmac_sha256_test.json"
SECRET = bytes(range(32))
PLAIN = WaitKey("default", "run-1", None, "named", "approval", 1, "k1")
KEY = WaitKey("default", "run-1", "session-1", "tool_completion", "call-1", 2, "k1").signed(SECRET)
GOLDEN = (
    "rwk1.AAAAATEAAAAHZGVmYXVsdAAAAAVydW4tMQAAAAdzZXNzaW9uAAAACXNlc3Npb24tMQAAAA90b29sX2NvbXBsZ"
    "XRpb24AAAAGY2FsbC0xAAAAATIAAAACazE.LqoUcYIG1o88F42u5DO2w9HqhI1XJ4r0ZyzGos5FXH4"
    ""
)

OTHER_FIELDS: dict[str, Any] = {
    "namespace": "other",
    "run": "run-2",
    "session": "session-2",
    "kind": "named",
    "name": "call-2",
    "ordinal": 3,
    "key_id": "k2",
    "version": 2,
    "signature": KEY.signature[:-1] + ("A" if KEY.signature[-1] != "A" else "B"),
}

names = st.text(st.characters(exclude_categories=("Cc", "Cs", "Zl", "Zp")), min_size=1, max_size=40).filter(str.strip)
ids = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,20}", fullmatch=True)


def test_golden_text() -> None:
    assert KEY.text == GOLDEN
    assert parse_wait_key(GOLDEN) == KEY
    assert KEY.wait_id == WaitIdentity.tool_completion("call-1", 2).id == "d50519f9a5cf5e61f93a8477c6bba895"


def test_the_preimage_is_the_documented_one() -> None:
    """Put together by hand: tag, then each field behind its length in four bytes."""
    fields = ["1", "default", "run-1", "session", "session-1", "tool_completion", "call-1", "2", "k1"]
    framed = b"".join(struct.pack(">I", len(field)) + field.encode() for field in fields)
    assert KEY.preimage() == b"onrecord.wait-key/1\0" + framed


def test_every_field_is_signed() -> None:
    assert KEY.is_signed_by(SECRET)
    assert not KEY.is_signed_by(bytes(32))
    assert set(OTHER_FIELDS) == set(WaitKey.__struct_fields__)
    for field, value in OTHER_FIELDS.items():
        assert not msgspec.structs.replace(KEY, **{field: value}).is_signed_by(SECRET), field


def test_no_session_is_not_an_empty_one() -> None:
    without = PLAIN.signed(SECRET)
    assert without.preimage() != msgspec.structs.replace(without, session="").preimage()


def test_fields_cannot_be_moved_into_each_other() -> None:
    one = msgspec.structs.replace(PLAIN, run="ab", name="c")
    other = msgspec.structs.replace(PLAIN, run="a", name="bc")
    assert one.preimage() != other.preimage()


@pytest.mark.parametrize(
    "signature", ["", "A" * 42, "A" * 44, "é" * 43, "\ud800", KEY.signature + "-tampered", None, 7]
)
def test_a_signature_of_any_make_is_only_wrong(signature: Any) -> None:
    assert not msgspec.structs.replace(KEY, signature=signature).is_signed_by(SECRET)


@given(ids, ids, st.none() | names, names, st.integers(1, 2**53 - 1), st.binary(min_size=32, max_size=64))
def test_text_and_key_are_one_to_one(
    namespace: str, run: str, session: str | None, name: str, ordinal: int, secret: bytes
) -> None:
    key = WaitKey(namespace, run, session, "named", name, ordinal, "k1").signed(secret)
    assert parse_wait_key(key.text) == key
    assert WAIT_KEY_SHAPE.fullmatch(key.text)
    assert key.is_signed_by(secret)


def spelled(fields: bytes, signature: str = KEY.signature) -> str:
    return f"rwk1.{wait_keys._encode_base64(fields)}.{signature}"


GOOD_FIELDS = wait_keys._frame(*KEY._fields())


@pytest.mark.parametrize(
    "text",
    [
        "",
        "rwk1",
        "rwk1..",
        KEY.text + "=",
        KEY.text + "\n",
        " " + KEY.text,
        KEY.text.replace("rwk1", "rwk2"),
        KEY.text.replace("rwk1", "RWK1"),
        KEY.text.rpartition(".")[0],
        KEY.text + ".x",
        KEY.text[:-1],
        spelled(GOOD_FIELDS + b"\0"),
        spelled(GOOD_FIELDS + struct.pack(">I", 0)),
        spelled(GOOD_FIELDS[:-1]),
        spelled(b"\xff\xff\xff\xff"),
        spelled(wait_keys._frame("1", "default", "run-1", "yes", "s", "named", "n", "1", "k1")),
        spelled(wait_keys._frame("1", "default", "run-1", "", "s", "named", "n", "1", "k1")),
        spelled(wait_keys._frame("01", "default", "run-1", "", "", "named", "n", "1", "k1")),
        spelled(wait_keys._frame("1", "default", "run-1", "", "", "named", "n", "+1", "k1")),
        spelled(wait_keys._frame("1", "default", "run-1", "", "", "named", "n", "0", "k1")),
        spelled(wait_keys._frame("1", "default", "run-1", "", "", "named", "n", "9" * 5000, "k1")),
        spelled(wait_keys._frame("1", "default", "run-1", "", "", "other", "n", "1", "k1")),
        spelled(wait_keys._frame("1", "default", "run\0", "", "", "named", "n", "1", "k1")),
        spelled(wait_keys._frame("1", "default", "run-1", "", "", "named", "\n", "1", "k1")),
        spelled(wait_keys._frame("1", "default", "run-1", "", "", "named", "n" * 257, "1", "k1")),
        spelled(wait_keys._frame("2", "default", "run-1", "", "", "named", "n", "1", "k1")),
        "rwk1." + "A" * 100_000 + "." + KEY.signature,
    ],
)
def test_what_is_not_exactly_a_key_is_not_parsed(text: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_wait_key(text)
    assert caught.value.code == "bad_wait_key"
    assert KEY.signature not in caught.value.message + caught.value.hint


@given(st.text(max_size=60) | st.from_regex(r"rwk1\.[A-Za-z0-9_-]{0,60}\.[A-Za-z0-9_-]{43}", fullmatch=True))
def test_no_text_does_more_than_be_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        parse_wait_key(text)


def test_the_representation_does_not_hold_the_signature() -> None:
    assert KEY.signature not in repr(KEY)
    assert KEY.signature not in f"{KEY}"


def test_the_decoy_opens_nothing() -> None:
    assert DECOY.is_well_formed()
    assert not DECOY.is_signed_by(SECRET)


@pytest.mark.parametrize("name", ["", "  ", "\t", "a\0b", "a\nb", "\ud800", "x" * 257, "\u2028"])
def test_names_that_cannot_be(name: str) -> None:
    with pytest.raises(InvalidInput):
        WaitIdentity.named(name)


@pytest.mark.parametrize("ordinal", [0, -1, 2**53, True, 1.0, "1"])
def test_ordinals_that_cannot_be(ordinal: Any) -> None:
    with pytest.raises(InvalidInput):
        WaitIdentity.process_signal("tick", ordinal)


def test_waits_of_one_name_differ_by_kind_and_ordinal() -> None:
    waits = [
        WaitIdentity.named("a"),
        WaitIdentity.named("a", 2),
        WaitIdentity.tool_completion("a"),
        WaitIdentity.process_signal("a", 1),
    ]
    assert len({wait.id for wait in waits}) == 4


def test_resolutions_are_the_same_as_data() -> None:
    assert Resolution.ok({"a": 1, "b": 2}).same_as(Resolution.ok({"b": 2, "a": 1}))
    assert not Resolution.ok(True).same_as(Resolution.ok(1))
    assert not Resolution.ok("1").same_as(Resolution.ok(1))
    assert not Resolution.ok(None).same_as(Resolution.cancelled())
    assert not Resolution.error("x").same_as(Resolution.ok("x"))
    assert ResolveOutcome.accepted().confirms(Resolution.ok(1))
    assert ResolveOutcome.already_resolved(Resolution.ok(1)).confirms(Resolution.ok(1))
    assert not ResolveOutcome.already_resolved(Resolution.ok(1)).confirms(Resolution.ok(2))
    assert not ResolveOutcome.unknown_or_revoked().confirms(Resolution.ok(1))


# --- Wycheproof ---


def vectors() -> list[Any]:
    if not WYCHEPROOF.exists():
        return [pytest.param({}, 0, id="missing")]
    groups = json.loads(WYCHEPROOF.read_text())["testGroups"]
    return [pytest.param(test, group["tagSize"], id=str(test["tcId"])) for group in groups for test in group["tests"]]


class WithPreimage(WaitKey, frozen=True):
    """A key that signs whatever it is told to: everything else is the path of any key."""

    given: bytes = b""

    def preimage(self) -> bytes:
        return self.given


@pytest.mark.parametrize(("vector", "tag_bits"), vectors())
def test_wycheproof_vector(vector: dict[str, Any], tag_bits: int) -> None:
    if not vector:
        pytest.skip(f"test data is missing: {WYCHEPROOF}")
    secret, message, tag = (bytes.fromhex(vector[part]) for part in ("key", "msg", "tag"))
    valid = vector["result"] == "valid"
    key = WithPreimage(*(getattr(PLAIN, field) for field in PLAIN.__struct_fields__[:7]), given=message)
    assert (hmac_sha256(secret, message)[: tag_bits // 8] == tag) is valid
    tagged = msgspec.structs.replace(key, signature=wait_keys._encode_base64(tag))
    # A signature is whole: one that was cut to half its bits is not taken, though the vectors call it valid.
    assert tagged.is_signed_by(secret) is (valid and tag_bits == 256)
    if valid and tag_bits == 256:
        assert key.signed(secret).signature == tagged.signature


def test_there_are_174_vectors() -> None:
    if not WYCHEPROOF.exists():
        pytest.skip(f"test data is missing: {WYCHEPROOF}")
    assert len(vectors()) == 174


def test_hmac_by_hand() -> None:
    """RFC 2104 in three lines, as a second opinion."""
    block = SECRET + bytes(32)
    inner = hashlib.sha256(bytes(byte ^ 0x36 for byte in block) + b"message").digest()
    outer = hashlib.sha256(bytes(byte ^ 0x5C for byte in block) + inner).digest()
    assert hmac_sha256(SECRET, b"message") == outer
