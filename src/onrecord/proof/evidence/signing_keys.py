"""The keys that sign evidence, in the user's file of secrets (`onrecord.runtime.secrets.keys`).

The first signature makes a key. The private half is only in that file: nothing here returns it. A rotation deletes the
private half of the old key and keeps its public half with the time in which it signed, so that old signatures can still
be checked.
"""

from __future__ import annotations

from base64 import b64encode
from typing import Any

from onrecord.errors import KeysUnavailable
from onrecord.journal.sources import Sources
from onrecord.proof.evidence.public_keys import KEY_BYTES, PublicKey, load_cryptography
from onrecord.runtime.secrets.keys import KeyInfo, KeyRing, decode_secret, describe
from onrecord.store.contract import Store

PURPOSE = "signature"
ALGORITHM = "ed25519"


class SigningKeys(KeyRing):
    """Signing keys in the file of secrets."""

    def sign_bytes(self, data: bytes) -> tuple[str, bytes]:
        """Return the id of the current key and its signature of the data. Make a key if there is none."""
        member = self._signer()
        private = load_cryptography().Ed25519PrivateKey.from_private_bytes(self._decode_member(member, "secret"))
        signature: bytes = private.sign(data)
        return PublicKey(self._decode_member(member, "public")).id, signature

    def current_public_key(self) -> PublicKey:
        """Return the current key. Make one if there is none."""
        member = self._signer()
        return PublicKey(self._decode_member(member, "public"), member["created"])

    def public_keys(self) -> list[PublicKey]:
        """Return all keys that ever signed here, the current one last. Make none."""
        if not self.path.exists():
            return []
        return [
            PublicKey(self._decode_member(member, "public"), member["created"], member.get("until"))
            for member in self._signers(self._load().members)
        ]

    def rotate_signer(self, *, store: Store | None = None, namespace: str = "default") -> KeyInfo:
        """Add a key that signs from now on."""
        self._load()
        key = self._change(self._add_new)
        self._note(store, namespace, "keys_rotated", key)
        return key

    def _signer(self) -> dict[str, Any]:
        member = self._current()
        if member is None:
            self._change(self._add_first)
            member = self._current()
        assert member is not None
        return member

    def _add_first(self, members: list[dict[str, Any]]) -> KeyInfo:
        """Add a key if there is none. Called under the file's lock, so two processes do not make two keys."""
        current = _current(members)
        return self._add_new(members) if current is None else describe(current)

    def _add_new(self, members: list[dict[str, Any]]) -> KeyInfo:
        now = self._sources.now_us()
        for member in self._signers(members):
            if member["state"] == "current":
                member.update(state="replaced", until=now)
                member.pop("secret", None)
        members.append(_new_member(self._sources, now))
        return describe(members[-1])

    def _current(self) -> dict[str, Any] | None:
        return _current(self._signers(self._load().members))

    def _signers(self, members: list[dict[str, Any]]) -> list[dict[str, Any]]:
        found = [member for member in members if member.get("purpose") == PURPOSE]
        for member in found:
            if member.get("algorithm") != ALGORITHM or member.get("state") not in ("current", "replaced"):
                raise self._unusable(member)
        return found

    def _decode_member(self, member: dict[str, Any], name: str) -> bytes:
        data = decode_secret(member, name)
        if len(data) != KEY_BYTES:
            raise self._unusable(member)
        return data

    def _unusable(self, member: dict[str, Any]) -> KeysUnavailable:
        return KeysUnavailable(
            f"the file of secrets {self.path} holds a signing key that cannot be used ({member['id'][:64]!r})",
            hint="Restore the file from a backup.",
        )


def _current(members: list[dict[str, Any]]) -> dict[str, Any] | None:
    """Return the last current signing key, if any."""
    signing = [member for member in members if member.get("purpose") == PURPOSE and member.get("state") == "current"]
    return signing[-1] if signing else None


def _new_member(sources: Sources, now: int) -> dict[str, Any]:
    secret = sources.entropy(KEY_BYTES)
    public = load_cryptography().Ed25519PrivateKey.from_private_bytes(secret).public_key().public_bytes_raw()
    return {
        "id": "s" + PublicKey(public).id.removeprefix("sha256:")[:16],
        "purpose": PURPOSE,
        "algorithm": ALGORITHM,
        "secret": b64encode(secret).decode(),
        "public": b64encode(public).decode(),
        "created": now,
        "state": "current",
    }
