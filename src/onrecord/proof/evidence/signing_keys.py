"""The keys that sign evidence, in the user's file of secrets beside all others (`reenact.effect.keys`).

A key is made when something is first signed. The private half is in that file and nowhere else: nothing here returns
it. Rotating drops the private half of the key before, which will never sign again, and keeps its public half with the
time from when to when it signed: what was signed then can still be checked.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from binascii import Error as BinasciiError
from typing import Any

from reenact.effect.keys import KeyInfo, KeyRing
from reenact.errors import KeysUnavailable
from reenact.journal.sources import Sources
from reenact.replays.evidence.public_keys import KEY_BYTES, PublicKey, cryptography
from reenact.store.contract import Store

PURPOSE = "signature"
ALGORITHM = "ed25519"


class SigningKeys(KeyRing):
    """The file of secrets, as far as it is about signatures. It is found where every other secret is."""

    def sign_bytes(self, data: bytes) -> tuple[str, bytes]:
        """The id of the present key, which is made if there is none, and its signature of the data."""
        member = self._signer()
        private = cryptography().Ed25519PrivateKey.from_private_bytes(self._bytes(member, "secret"))
        signature: bytes = private.sign(data)
        return PublicKey(self._bytes(member, "public")).id, signature

    def current_public_key(self) -> PublicKey:
        """The key that signs, which is made if there is none."""
        member = self._signer()
        return PublicKey(self._bytes(member, "public"), member["created"])

    def public_keys(self) -> list[PublicKey]:
        """All that ever signed here, the present one last. Nothing is made for asking."""
        if not self.path.exists():
            return []
        return [
            PublicKey(self._bytes(member, "public"), member["created"], member.get("until"))
            for member in self._signers(self._load().members)
        ]

    def rotate_signer(self, *, store: Store | None = None, namespace: str = "default") -> KeyInfo:
        """Adds a key that signs from now on."""
        self._load()
        made = self._change(self._with_new)
        self._note(store, namespace, "keys_rotated", made)
        return made

    def _signer(self) -> dict[str, Any]:
        member = self._current()
        if member is None:
            self._change(self._with_first)
            member = self._current()
        assert member is not None
        return member

    def _with_first(self, members: list[dict[str, Any]]) -> KeyInfo:
        """Under the lock of the file: whoever comes second finds the key of whoever came first."""
        current = _current(members)
        return self._with_new(members) if current is None else _info(current)

    def _with_new(self, members: list[dict[str, Any]]) -> KeyInfo:
        now = self._sources.now_us()
        for member in self._signers(members):
            if member["state"] == "current":
                member.update(state="replaced", until=now)
                member.pop("secret", None)
        members.append(_new_member(self._sources, now))
        return _info(members[-1])

    def _current(self) -> dict[str, Any] | None:
        return _current(self._signers(self._load().members))

    def _signers(self, members: list[dict[str, Any]]) -> list[dict[str, Any]]:
        found = [member for member in members if member.get("purpose") == PURPOSE]
        for member in found:
            if member.get("algorithm") != ALGORITHM or member.get("state") not in ("current", "replaced"):
                raise self._unusable(member)
        return found

    def _bytes(self, member: dict[str, Any], name: str) -> bytes:
        try:
            data = b64decode(str(member.get(name)), validate=True)
        except (BinasciiError, ValueError):
            data = b""
        if len(data) != KEY_BYTES:
            raise self._unusable(member)
        return data

    def _unusable(self, member: dict[str, Any]) -> KeysUnavailable:
        return KeysUnavailable(
            f"the file of secrets {self.path} holds a signing key that cannot be used ({member['id'][:64]!r})",
            hint="Put the file back from a copy.",
        )


def _current(members: list[dict[str, Any]]) -> dict[str, Any] | None:
    """The last one that signs, if any."""
    signing = [member for member in members if member.get("purpose") == PURPOSE and member.get("state") == "current"]
    return signing[-1] if signing else None


def _new_member(sources: Sources, now: int) -> dict[str, Any]:
    secret = sources.entropy(KEY_BYTES)
    public = cryptography().Ed25519PrivateKey.from_private_bytes(secret).public_key().public_bytes_raw()
    return {
        "id": "s" + PublicKey(public).id.removeprefix("sha256:")[:16],
        "purpose": PURPOSE,
        "algorithm": ALGORITHM,
        "secret": b64encode(secret).decode(),
        "public": b64encode(public).decode(),
        "created": now,
        "state": "current",
    }


def _info(member: dict[str, Any]) -> KeyInfo:
    return KeyInfo(member["id"], PURPOSE, str(member["state"]), member["created"], member.get("until"))
