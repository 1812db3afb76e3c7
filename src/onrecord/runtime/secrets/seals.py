"""Seals: the encrypted originals of placeholders, stored beside the log and never exported.

A run that resumes needs its secrets, and its record holds only placeholders. The originals are in a row of the run's
inbox, outside the chain: the record stays valid without the row and without the key.

Rules:

1. AES-256-GCM. The key of a seal is derived from a secret of the key ring (`keys`, purpose `seal`) and from the seal's
   owner: run, seq, kind of event and the event's salt. A seal that is moved to another event does not open.
2. Erasing the content of an event removes its salt, and with it the key of its seal.
3. A seal is written before its event. If the event is never written, the seal cannot be found: its name needs the salt.
4. Rotated secrets still open their seals. If a secret is gone, its seals raise `sealed_elsewhere`.
"""

from __future__ import annotations

import hmac
import warnings
from base64 import b64decode, b64encode
from hashlib import sha256
from typing import Any, NamedTuple

from onrecord.core.canonical import canonical_bytes, parse_stored, stored_bytes
from onrecord.core.codec import decode, encode
from onrecord.errors import Damaged, KeysUnavailable, OnrecordError
from onrecord.extras import install_command
from onrecord.journal.reader import JournalReader
from onrecord.runtime.engine.stops import NotReplayable
from onrecord.runtime.secrets.keys import KeyInfo, KeyRing, decode_secret, describe, new_member, replace_current

PURPOSE = "seal"
ALGORITHM = "aes-256-gcm"
FACTS = "Header"
"""The kind under which the facts of a run are sealed, at seq 0."""
SECRET_BYTES = 32
NONCE_BYTES = 12
_DOMAIN = "onrecord.seal/1"


class SealedElsewhere(NotReplayable):
    """A seal cannot be opened with the keys of this user. The record itself is intact."""

    code = "sealed_elsewhere"
    default_hint = (
        "The chain is still valid, and a replay works with the placeholders. To resume the run, restore the file of "
        "secrets of the user who recorded it (`onrecord keys where`)."
    )


class SealOwner(NamedTuple):
    """The event, or the facts of a run (seq 0), to which a seal belongs."""

    namespace: str
    run: str
    seq: int
    kind: str
    salt: bytes

    @property
    def name(self) -> str:
        """Return the inbox key of the seal, which does not reveal the salt."""
        return f"seal/{self.seq}/{sha256(b'onrecord.sealname/1' + bytes(1) + self.salt).hexdigest()[:32]}"

    def preimage(self) -> bytes:
        return canonical_bytes([_DOMAIN, self.namespace, self.run, self.seq, self.kind, self.salt.hex()])


class SealKeys(KeyRing):
    """The sealing secrets of a key ring. The first one is created with the first seal."""

    def current_seal(self) -> tuple[str, bytes]:
        members = self._seal_members()
        current = next((key_id for key_id, member in members.items() if member.get("state") == "current"), None)
        if current is None:
            current = self.rotate_seals().id
        return current, self.seal_secret(current) or b""

    def seal_secret(self, key_id: str) -> bytes | None:
        member = self._seal_members().get(key_id)
        if member is None or member.get("algorithm") != ALGORITHM:
            return None
        secret = decode_secret(member)
        return secret if len(secret) == SECRET_BYTES else None

    def rotate_seals(self) -> KeyInfo:
        """Add a secret that seals from now on. The previous ones still open their seals."""
        self._load()

        def change(members: list[dict[str, Any]]) -> KeyInfo:
            replace_current(members, PURPOSE)
            members.append(new_member(self._sources, PURPOSE, ALGORITHM, "s"))
            return describe(members[-1])

        return self._change(change)

    def new_nonce(self) -> bytes:
        return self._sources.entropy(NONCE_BYTES)

    def _seal_members(self) -> dict[str, dict[str, Any]]:
        return {member["id"]: member for member in self._load().members if member.get("purpose") == PURPOSE}


_warnings_shown: dict[Any, Any] = {}


class Seals:
    """Write and open seals. The key ring is opened on first use, since most runs hold no secrets."""

    def __init__(self, keys: SealKeys | None = None) -> None:
        self._keys = keys
        self._warned = False

    @property
    def keys(self) -> SealKeys:
        if self._keys is None:
            self._keys = SealKeys()
        return self._keys

    def put(self, reader: JournalReader, owner: SealOwner, value: Any, time_us: int) -> None:
        """Seal a value; durable on return. Without a key, warn once and return: the run is recorded all the same."""
        try:
            payload = self._encrypt(owner, value)
        except (ImportError, KeysUnavailable) as error:
            if not self._warned:
                self._warned = True
                reason = _name_missing() if isinstance(error, ImportError) else str(error)
                text = f"secrets were redacted and could not be sealed: {reason}"
                # Without a file of its own the warning is one line; the registry shows it once in a process.
                warnings.warn_explicit(text, UserWarning, "onrecord", 1, registry=_warnings_shown)
            return
        reader.store.inbox_put(reader.namespace, reader.run, owner.name, payload, time_us)

    def _encrypt(self, owner: SealOwner, value: Any) -> bytes:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        key_id, secret = self.keys.current_seal()
        nonce = self.keys.new_nonce()
        written = stored_bytes(encode(value).tree)
        encrypted = AESGCM(_derive_key(secret, owner)).encrypt(nonce, written, owner.preimage())
        return stored_bytes({"key": key_id, "sealed": b64encode(nonce + encrypted).decode()})

    def find(self, reader: JournalReader, owner: SealOwner) -> Any:
        """Return the sealed value of an owner, or None if this store has no seal for it."""
        row = reader.store.inbox_find(reader.namespace, [(reader.run, owner.name)]).get((reader.run, owner.name))
        if row is None:
            return None
        try:
            members = parse_stored(row.payload)
            key_id, encrypted = str(members["key"]), b64decode(str(members["sealed"]), validate=True)
        except (OnrecordError, TypeError, LookupError, ValueError):
            raise _broken(owner) from None
        secret = self.keys.seal_secret(key_id)
        if secret is None:
            raise SealedElsewhere(
                f"the seal at seq {owner.seq} of run {owner.run} cannot be opened here: "
                f"the key {key_id[:40]} is not in {self.keys.path}"
            )
        return decode(parse_stored(_decrypt(secret, owner, encrypted)))


def _name_missing() -> str:
    return f"the package cryptography is missing; install it: {install_command('secrets')}"


def _decrypt(secret: bytes, owner: SealOwner, encrypted: bytes) -> bytes:
    try:
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    except ImportError:
        raise SealedElsewhere(
            f"the seal at seq {owner.seq} of run {owner.run} cannot be opened here: {_name_missing()}"
        ) from None
    try:
        return AESGCM(_derive_key(secret, owner)).decrypt(
            encrypted[:NONCE_BYTES], encrypted[NONCE_BYTES:], owner.preimage()
        )
    except (InvalidTag, ValueError):
        raise _broken(owner) from None


def _derive_key(secret: bytes, owner: SealOwner) -> bytes:
    return hmac.digest(secret, owner.preimage(), sha256)


def _broken(owner: SealOwner) -> Damaged:
    return Damaged(
        f"the seal at seq {owner.seq} of run {owner.run} was altered, or belongs to another event",
        hint="The chain is still valid; the secrets of that event are lost.",
        code="seal_broken",
    )
