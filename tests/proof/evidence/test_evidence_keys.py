"""Signing keys: made once, never shown, replaced without losing what they signed."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from kit.evidence import keys_at, recorded_run
from onrecord.errors import InvalidInput, KeysUnavailable
from onrecord.journal.operations import OperationsJournal
from onrecord.proof.evidence import PublicKey, SigningKeys, check_bundle, make_bundle, public_key
from onrecord.runtime.secrets.keys import KeyRing
from onrecord.store.memory import MemoryStore


def test_a_key_is_made_on_first_use_in_the_file_of_secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONRECORD_KEY_FILE", str(tmp_path / "mine.json"))
    assert SigningKeys().public_keys() == []
    assert not (tmp_path / "mine.json").exists(), "nothing is made for asking"
    first, _ = SigningKeys().sign_bytes(b"x")
    again, _ = SigningKeys().sign_bytes(b"y")
    assert first == again
    assert (tmp_path / "mine.json").stat().st_mode & 0o777 == 0o600
    (only,) = SigningKeys().public_keys()
    assert only.id == first


def test_the_private_key_is_never_shown(tmp_path: Path) -> None:
    keys = keys_at(tmp_path)
    keys.sign_bytes(b"x")
    secret = next(m["secret"] for m in json.loads(keys.path.read_bytes())["keys"] if m["purpose"] == "signature")
    shown = repr(keys) + repr(keys.entries()) + repr(keys.public_keys()) + keys.current_public_key().to_pem()
    assert secret not in shown


def test_wait_secrets_and_signing_keys_leave_each_other_alone(tmp_path: Path) -> None:
    ring = KeyRing(tmp_path / "keys.json")
    wait_id = ring.current_id()
    keys = SigningKeys(tmp_path / "keys.json")
    signer, _ = keys.sign_bytes(b"x")
    assert ring.current_id() == wait_id
    ring.rotate()
    assert keys.sign_bytes(b"x")[0] == signer
    keys.rotate_signer()
    assert ring.ids()[0] == wait_id
    assert [entry.purpose for entry in ring.entries()] == ["wait", "signature", "wait", "signature"]


def test_rotation_keeps_old_public_keys_and_drops_old_private_ones(tmp_path: Path) -> None:
    keys, memory = keys_at(tmp_path), MemoryStore()
    recorded_run(memory)
    before = make_bundle(memory, "r1", keys=keys)
    old = keys.current_public_key()
    made = keys.rotate_signer(store=memory)
    after = make_bundle(memory, "r1", keys=keys)
    assert keys.current_public_key().id != old.id
    assert [key.raw == old.raw for key in keys.public_keys()] == [True, False]
    assert check_bundle(after, [old]).code == "unknown_key"
    assert check_bundle(before, [keys.current_public_key()]).code == "unknown_key"
    assert check_bundle(before, [old]).valid
    members = [m for m in json.loads(keys.path.read_bytes())["keys"] if m["purpose"] == "signature"]
    assert [("secret" in member, member["state"]) for member in members] == [(False, "replaced"), (True, "current")]
    (noted,) = OperationsJournal.open_for(memory).scan()
    assert noted.event.detail == {"key_id": made.id, "purpose": "signature"}  # type: ignore[attr-defined]


def test_both_bundles_check_with_all_public_keys(tmp_path: Path) -> None:
    keys, memory = SigningKeys(tmp_path / "keys.json"), MemoryStore()
    recorded_run(memory)
    before = make_bundle(memory, "r1", keys=keys)
    keys.rotate_signer()
    after = make_bundle(memory, "r1", keys=keys)
    assert check_bundle(before, keys.public_keys()).valid
    assert check_bundle(after, keys.public_keys()).valid


def test_threads_that_sign_first_make_one_key(tmp_path: Path) -> None:
    seen: list[str] = []

    def sign() -> None:
        seen.append(SigningKeys(tmp_path / "keys.json").sign_bytes(b"x")[0])

    threads = [threading.Thread(target=sign) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(seen)) == 1
    assert len(seen) == 6


def test_a_file_that_others_can_read_is_refused(tmp_path: Path) -> None:
    keys = keys_at(tmp_path)
    keys.sign_bytes(b"x")
    keys.path.chmod(0o644)
    with pytest.raises(KeysUnavailable):
        keys.sign_bytes(b"x")


@pytest.mark.parametrize(
    "edit", [{"secret": "AAAA"}, {"public": None}, {"algorithm": "hmac-sha256"}, {"state": "odd"}], ids=str
)
def test_a_signing_key_that_cannot_be_used_is_said_to_be(tmp_path: Path, edit: dict[str, object]) -> None:
    keys = keys_at(tmp_path)
    keys.sign_bytes(b"x")
    tree = json.loads(keys.path.read_bytes())
    next(m for m in tree["keys"] if m["purpose"] == "signature").update(edit)
    keys.path.write_text(json.dumps(tree))
    with pytest.raises(KeysUnavailable):
        keys_at(tmp_path).sign_bytes(b"x")


# Public keys


def test_public_keys_are_given_as_bytes_or_pem(tmp_path: Path) -> None:
    key = keys_at(tmp_path).current_public_key()
    assert public_key(key.raw).id == public_key(key.to_pem()).id == public_key(key).id == key.id
    assert key.to_pem().startswith("-----BEGIN PUBLIC KEY-----")


RSA_LIKE = "-----BEGIN PUBLIC KEY-----\nMFwwDQYJKoZIhvcNAQEBBQADSwAwSAJBAK==\n-----END PUBLIC KEY-----\n"


@pytest.mark.parametrize("text", ["", "x", b"", bytes(31), RSA_LIKE, "\ud800", PublicKey(b"short")], ids=repr)
def test_what_is_no_key_is_refused(text: str | bytes | PublicKey) -> None:
    with pytest.raises(InvalidInput) as refused:
        public_key(text)
    assert refused.value.code == "bad_public_key"


def test_a_key_of_another_kind_is_refused() -> None:
    from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    made = generate_private_key(SECP256R1()).public_key()
    with pytest.raises(InvalidInput):
        public_key(made.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))


P = 2**255 - 19
ORDER_8 = "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a"


@pytest.mark.parametrize("sign", [0, 1 << 255], ids=["plain", "signed"])
@pytest.mark.parametrize(
    "y", [0, 1, P - 1, P, P + 1, int.from_bytes(bytes.fromhex(ORDER_8), "little")], ids=lambda y: hex(y)[:8]
)
def test_a_key_of_small_order_is_refused(y: int, sign: int) -> None:
    with pytest.raises(InvalidInput) as refused:
        public_key((y | sign).to_bytes(32, "little"))
    assert refused.value.code == "weak_key"


def test_why_keys_of_small_order_are_refused() -> None:
    """Under the neutral element one signature fits every message."""
    from onrecord.proof.evidence.public_keys import PublicKey as Unchecked

    neutral = (1).to_bytes(32, "little")
    forged = neutral + bytes(32)
    assert Unchecked(neutral).verifies(forged, b"anything")
    assert Unchecked(neutral).verifies(forged, b"anything else")
