"""Ed25519 public keys, and the only module that loads `cryptography`.

The algorithm never comes from a bundle: the checker supplies keys of this one kind. OpenSSL decides on odd signatures
(an unreduced scalar is refused, the equation has no cofactor). Keys of small order, for which one signature fits many
messages, are refused when they are read.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import msgspec

from onrecord.core.hashing import render
from onrecord.errors import InvalidInput
from onrecord.extras import install_command

KEY_BYTES = 32
SIGNATURE_BYTES = 64
MAX_PEM_BYTES = 16 * 1024

_KEY_TAG = b"onrecord.key/1\0"
_PRIME = 2**255 - 19
_ORDER_8 = int.from_bytes(bytes.fromhex("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05"), "little")
_SMALL_ORDER = frozenset({0, 1, _PRIME - 1, _ORDER_8, _PRIME - _ORDER_8})
"""The y coordinates of the points of small order."""


class PublicKey(msgspec.Struct, frozen=True):
    """A trusted key and, if known, the time in which it signed (microseconds since 1970)."""

    raw: bytes
    not_before: int | None = None
    not_after: int | None = None

    @property
    def id(self) -> str:
        """Return the key id that a signature names. It is derived from the key, so it cannot be claimed by another."""
        return render(sha256(_KEY_TAG + self.raw).digest())

    def signed_at(self, time: int) -> bool:
        """Return True if the key was in use at that time."""
        return (self.not_before is None or self.not_before <= time) and (
            self.not_after is None or time <= self.not_after
        )

    def verifies(self, signature: bytes, data: bytes) -> bool:
        crypto = load_cryptography()
        try:
            crypto.Ed25519PublicKey.from_public_bytes(self.raw).verify(signature, data)
        except (crypto.InvalidSignature, ValueError):
            return False
        return True

    def to_pem(self) -> str:
        crypto = load_cryptography()
        key = crypto.Ed25519PublicKey.from_public_bytes(self.raw)
        pem: bytes = key.public_bytes(crypto.Encoding.PEM, crypto.PublicFormat.SubjectPublicKeyInfo)
        return pem.decode()


def public_key(key: PublicKey | bytes | str) -> PublicKey:
    """Return a key from its 32 bytes, or from PEM."""
    if isinstance(key, PublicKey):
        found = key
    else:
        data = key.encode("utf-8", "replace") if isinstance(key, str) else bytes(key)
        found = PublicKey(data if len(data) == KEY_BYTES else _read_pem(data))
    if len(found.raw) != KEY_BYTES:
        raise _not_a_key()
    y = int.from_bytes(found.raw, "little") & (2**255 - 1)
    if y % _PRIME in _SMALL_ORDER:
        raise InvalidInput("a public key of small order: one signature would fit many messages", code="weak_key")
    return found


def _read_pem(data: bytes) -> bytes:
    crypto = load_cryptography()
    if len(data) > MAX_PEM_BYTES:
        raise _not_a_key()
    try:
        loaded = crypto.load_pem_public_key(data)
    except (ValueError, TypeError, crypto.UnsupportedAlgorithm):
        raise _not_a_key() from None
    if not isinstance(loaded, crypto.Ed25519PublicKey):
        raise _not_a_key()
    raw: bytes = loaded.public_bytes_raw()
    return raw


def _not_a_key() -> InvalidInput:
    return InvalidInput("not an Ed25519 public key", hint="Give its 32 bytes, or PEM text.", code="bad_public_key")


class _Cryptography:
    """The names used from `cryptography`, imported on first use."""

    def __init__(self) -> None:
        from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
        from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_public_key

        self.InvalidSignature = InvalidSignature
        self.UnsupportedAlgorithm = UnsupportedAlgorithm
        self.Ed25519PrivateKey: Any = Ed25519PrivateKey
        self.Ed25519PublicKey: Any = Ed25519PublicKey
        self.Encoding = Encoding
        self.PublicFormat = PublicFormat
        self.load_pem_public_key = load_pem_public_key


def load_cryptography() -> _Cryptography:
    try:
        return _Cryptography()
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] != "cryptography":
            raise
        raise InvalidInput(
            "signatures need the package cryptography, which is not installed",
            hint=install_command("evidence"),
            code="missing_extra",
        ) from error
