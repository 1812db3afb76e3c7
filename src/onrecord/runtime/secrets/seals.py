"""What placeholders stand for, sealed for whoever recorded it: beside the log, and never exported.

A run that goes on here needs the secrets that it was given; its record has placeholders. What they stand for is kept in
a row of the run's inbox, which is no part of the chain: without it, or without the key, the record is as valid as ever.

Rules:

1. AES-256-GCM. The key of a seal is derived from a secret of the key ring (`keys`, purpose `seal`) and from what the
   seal belongs to: run, seq, kind of event, and the event's own salt. A seal that is moved elsewhere does not open.
2. Once the content of an event is erased its salt is gone, and with it the key of its seal.
3. A seal is written before its event. If that is never written nobody finds the seal: its name depends on the salt.
4. Rotated secrets go on opening what they sealed. One that is gone takes what it sealed with it: `sealed_elsewhere`.
"""

from __future__ import annotations

import hmac
import warnings
from base64 import b64decode, b64encode
from binascii import Error as BinasciiError
from hashlib import sha256
from typing import Any, NamedTuple

from reenact.core.canonical import canonical_bytes, parse_stored, stored_bytes
from reenact.core.codec import decode, encode
from reenact.effect.keys import KeyInfo, KeyRing
from reenact.effect.stopping import NotReplayable
from reenact.errors import Damaged, KeysUnavailable, ReenactError
from reenact.journal.reader import JournalReader

PURPOSE = "seal"
ALGORITHM = "aes-256-gcm"
FACTS = "Header"
"""The kind under which the facts of a run are sealed, at seq 0."""
SECRET_BYTES = 32
NONCE_BYTES = 12
_DOMAIN = "reenact.seal/1"


class SealedElsewhere(NotReplayable):
    """The record is whole, but what its placeholders stand for cannot be opened with the keys of this user."""

    code = "sealed_elsewhere"
    default_hint = (
        "The chain is still valid, and a replay goes on with the placeholders. To go on with the run, put back the "
        "file of secrets of whoever recorded it (`reenact keys where`)."
    )


class Place(NamedTuple):
    """What a seal belongs to."""

    namespace: str
    run: str
    seq: int
    kind: str
    salt: bytes

    @property
    def name(self) -> str:
        """The key of its row: says nothing of the salt."""
        return f"seal/{self.seq}/{sha256(b'reenact.sealname/1' + bytes(1) + self.salt).hexdigest()[:32]}"

    def bound(self) -> bytes:
        return canonical_bytes([_DOMAIN, self.namespace, self.run, self.seq, self.kind, self.salt.hex()])


class SealKeys(KeyRing):
    """The secrets of a key ring that seal. The first is made when something is sealed first."""

    def current_seal(self) -> tuple[str, bytes]:
        found = self._seal_members()
        current = next((key_id for key_id, member in found.items() if member.get("state") == "current"), None)
        if current is None:
            current = self.rotate_seals().id
        return current, self.seal_secret(current) or b""

    def seal_secret(self, key_id: str) -> bytes | None:
        member = self._seal_members().get(key_id)
        if member is None or member.get("algorithm") != ALGORITHM:
            return None
        try:
            secret = b64decode(str(member.get("secret")), validate=True)
        except (BinasciiError, ValueError):
            return None
        return secret if len(secret) == SECRET_BYTES else None

    def rotate_seals(self) -> KeyInfo:
        """Adds a secret that seals from now on; the ones before go on opening."""
        self._load()

        def change(members: list[dict[str, Any]]) -> KeyInfo:
            for member in members:
                if member.get("purpose") == PURPOSE and member.get("state") == "current":
                    member["state"] = "replaced"
            made = {
                "id": "s" + self._sources.entropy(8).hex(),
                "purpose": PURPOSE,
                "algorithm": ALGORITHM,
                "secret": b64encode(self._sources.entropy(SECRET_BYTES)).decode(),
                "created": self._sources.now_us(),
                "state": "current",
            }
            members.append(made)
            return KeyInfo(str(made["id"]), PURPOSE, "current", int(str(made["created"])), None)

        return self._change(change)

    def new_nonce(self) -> bytes:
        return self._sources.entropy(NONCE_BYTES)

    def _seal_members(self) -> dict[str, dict[str, Any]]:
        return {member["id"]: member for member in self._load().members if member.get("purpose") == PURPOSE}


class Seals:
    """The seals of a store. Made when first needed: most runs are given no secrets."""

    def __init__(self, keys: SealKeys | None = None) -> None:
        self._keys = keys
        self._told = False

    @property
    def keys(self) -> SealKeys:
        if self._keys is None:
            self._keys = SealKeys()
        return self._keys

    def put(self, reader: JournalReader, place: Place, value: Any, time_us: int) -> None:
        """Durable when it returns. Where nothing can be sealed the run is recorded all the same."""
        try:
            payload = self._sealed(place, value)
        except (ImportError, KeysUnavailable) as error:
            if not self._told:
                self._told = True
                why = "`pip install reenact[secrets]` is missing" if isinstance(error, ImportError) else str(error)
                warnings.warn(f"secrets were redacted and could not be sealed: {why}", stacklevel=2)
            return
        reader.store.inbox_put(reader.namespace, reader.run, place.name, payload, time_us)

    def _sealed(self, place: Place, value: Any) -> bytes:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        key_id, secret = self.keys.current_seal()
        nonce = self.keys.new_nonce()
        written = stored_bytes(encode(value).tree)
        closed = AESGCM(_derived(secret, place)).encrypt(nonce, written, place.bound())
        return stored_bytes({"key": key_id, "sealed": b64encode(nonce + closed).decode()})

    def find(self, reader: JournalReader, place: Place) -> Any:
        """What was sealed there; None: nothing was, or not here."""
        row = reader.store.inbox_find(reader.namespace, [(reader.run, place.name)]).get((reader.run, place.name))
        if row is None:
            return None
        try:
            members = parse_stored(row.payload)
            key_id, closed = str(members["key"]), b64decode(str(members["sealed"]), validate=True)
        except (ReenactError, TypeError, LookupError, ValueError):
            raise _broken(place) from None
        secret = self.keys.seal_secret(key_id)
        if secret is None:
            raise SealedElsewhere(
                f"what was redacted at seq {place.seq} of run {place.run} cannot be opened here: "
                f"the key {key_id[:40]} is not in {self.keys.path}"
            )
        return decode(parse_stored(_opened(secret, place, closed)))


def _opened(secret: bytes, place: Place, closed: bytes) -> bytes:
    try:
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    except ImportError:
        raise SealedElsewhere(
            f"what was redacted at seq {place.seq} of run {place.run} cannot be opened here: "
            "`pip install reenact[secrets]` is missing"
        ) from None
    try:
        return AESGCM(_derived(secret, place)).decrypt(closed[:NONCE_BYTES], closed[NONCE_BYTES:], place.bound())
    except (InvalidTag, ValueError):
        raise _broken(place) from None


def _derived(secret: bytes, place: Place) -> bytes:
    return hmac.digest(secret, place.bound(), sha256)


def _broken(place: Place) -> Damaged:
    return Damaged(
        f"the seal at seq {place.seq} of run {place.run} was altered, or belongs to another event",
        hint="The chain is still valid; what the placeholders of that event stand for is lost.",
        code="seal_broken",
    )
