"""Wait keys: bearer capabilities with which an outside caller resolves one wait of one run.

    rwk1.<fields, base64url>.<signature, base64url>

Rules:

1. The signature is HMAC-SHA-256 over a versioned preimage in which the length of every field precedes it, so no two
   sets of fields share a preimage. Signatures are compared as bytes, in constant time.
2. A key is stable for one (run, identity): all its fields are, including the id of the signing secret.
3. One text is one key: `parse_wait_key` accepts only what `WaitKey.text` writes.
4. Stores look up digests of the fields, never the fields: a name that a database cannot take costs the same look-up.

This module does no I/O. The secrets are in `onrecord.runtime.secrets.keys`.
"""

from __future__ import annotations

import hmac
import struct
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as BinasciiError
from hashlib import sha256
from typing import Any, Literal

import msgspec

from onrecord.core.canonical import canonical_bytes
from onrecord.core.codec import encode
from onrecord.core.lazy_regex import Pattern
from onrecord.core.links import check_namespace, check_run_id
from onrecord.errors import InvalidInput

VERSION = 1
PREFIX = "rwk1"
SECRET_BYTES = 32
MAX_NAME_CHARACTERS = 256
MAX_ORDINAL = 2**53 - 1
MAX_TEXT_CHARACTERS = 8192
WAIT_KEY_SHAPE = Pattern(r"rwk1\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{43}")
"""Matches a key inside other text. A key is a secret wherever it appears."""

_TEXT = Pattern(r"rwk1\.([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]{43})\Z")
_KEY_ID = Pattern(r"[A-Za-z0-9_-]{1,64}\Z")
_FORBIDDEN = Pattern(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff\u2028\u2029]")
_SIGNED = b"onrecord.wait-key/1\0"
_WAIT_ID = b"onrecord.wait-id/1\0"
_SESSION_ID = b"onrecord.wait-session/1\0"

WaitKind = Literal["tool_completion", "named", "process_signal"]
WAIT_KINDS: tuple[WaitKind, ...] = ("tool_completion", "named", "process_signal")


class WaitIdentity(msgspec.Struct, frozen=True):
    """The identity of a wait within its run. The ordinal (from 1) distinguishes waits of one name."""

    kind: WaitKind
    name: str
    ordinal: int = 1

    @classmethod
    def tool_completion(cls, call_id: str, ordinal: int = 1) -> WaitIdentity:
        return cls("tool_completion", call_id, ordinal).checked()

    @classmethod
    def named(cls, name: str, ordinal: int = 1) -> WaitIdentity:
        return cls("named", name, ordinal).checked()

    @classmethod
    def process_signal(cls, name: str, ordinal: int) -> WaitIdentity:
        """Return the identity of the ordinal-th signal of that name: each signal is a wait, so none is lost or taken
        twice.
        """
        return cls("process_signal", name, ordinal).checked()

    def checked(self) -> WaitIdentity:
        if self.kind not in WAIT_KINDS:
            raise InvalidInput(f"a wait is one of {', '.join(WAIT_KINDS)}", code="bad_wait")
        check_name(self.name, "the name of a wait")
        if type(self.ordinal) is not int or not 1 <= self.ordinal <= MAX_ORDINAL:
            raise InvalidInput("the ordinal of a wait is a whole number from 1", code="bad_wait")
        return self

    @property
    def id(self) -> str:
        """Return an id of the wait within its run, in characters that every store accepts."""
        return sha256(_WAIT_ID + _frame(self.kind, self.name, str(self.ordinal))).hexdigest()[:32]


class WaitKey(msgspec.Struct, frozen=True):
    """A signed capability. Its holder may resolve the wait, so its `repr` omits the signature."""

    namespace: str
    run: str
    session: str | None
    kind: str
    name: str
    ordinal: int
    key_id: str
    signature: str = ""
    """base64url, 43 characters."""
    version: int = VERSION

    @property
    def identity(self) -> WaitIdentity:
        return WaitIdentity(self.kind, self.name, self.ordinal)  # type: ignore[arg-type]

    @property
    def wait_id(self) -> str:
        return self.identity.id

    @property
    def text(self) -> str:
        """Return the key as the token that is given out."""
        return f"{PREFIX}.{_encode_base64(_frame(*self._fields()))}.{self.signature}"

    def preimage(self) -> bytes:
        return _SIGNED + _frame(*self._fields())

    def signed(self, secret: bytes) -> WaitKey:
        return msgspec.structs.replace(self, signature=_encode_base64(hmac_sha256(secret, self.preimage())))

    def is_signed_by(self, secret: bytes) -> bool:
        """Compare in constant time: one HMAC for any key."""
        expected = _encode_base64(hmac_sha256(secret, self.preimage())).encode()
        return hmac.compare_digest(expected, _encode_text(self.signature))

    def is_well_formed(self) -> bool:
        """Return False for a key built by hand from invalid fields."""
        try:
            check_run_id(self.run)
            check_namespace(self.namespace)
            self.identity.checked()
            if self.session is not None:
                check_name(self.session, "a session")
        except (InvalidInput, TypeError):
            return False
        return self.version == VERSION and isinstance(self.key_id, str) and bool(_KEY_ID.match(self.key_id))

    def __repr__(self) -> str:
        return f"<WaitKey of {self.kind} {self.name!r} #{self.ordinal} in run {self.run}>"

    def _fields(self) -> tuple[str, ...]:
        # The flag before the session distinguishes no session from the session "".
        session = ("", "") if self.session is None else ("session", self.session)
        version, ordinal = str(self.version), str(self.ordinal)
        return (version, self.namespace, self.run, *session, self.kind, self.name, ordinal, self.key_id)


DECOY = WaitKey("default", "none", None, "named", "none", 1, "none", "")
"""A key that replaces an unreadable one: it takes the same code path and opens nothing."""


def parse_wait_key(text: str) -> WaitKey:
    """Parse a key. Raise `InvalidInput` for anything that `WaitKey.text` does not write. The signature is not checked.

    The message never quotes the text: a text that is nearly a key is mostly a real key with a typo.
    """
    key = _parse_fields(text)
    if key is None or key.text != text or not key.is_well_formed():
        raise InvalidInput(
            "not a wait key",
            hint=f"A wait key begins with {PREFIX}. and has two more parts; copy the whole key.",
            code="bad_wait_key",
        )
    return key


def _parse_fields(text: object) -> WaitKey | None:
    match = _TEXT.match(text) if isinstance(text, str) and len(text) <= MAX_TEXT_CHARACTERS else None
    if match is None:
        return None
    try:
        data = urlsafe_b64decode(match[1] + "=" * (-len(match[1]) % 4))
        version, namespace, run, has_session, session, kind, name, ordinal, key_id = _unframe(data)
        # `key.text != text` in the caller refuses other spellings of the same number.
        number, ordinal_number = int(version, 10), int(ordinal, 10)
    except (BinasciiError, ValueError, struct.error):
        return None
    return WaitKey(
        namespace, run, session if has_session else None, kind, name, ordinal_number, key_id, match[2], number
    )


class Resolution(msgspec.Struct, frozen=True):
    """The end of a wait. Every resolution is terminal."""

    status: Literal["ok", "error", "cancelled", "timeout", "lost"]
    value: Any = None
    """ok: the value · error: the error · cancelled: the reason, if given · lost: the id of the wait that was first."""

    @classmethod
    def ok(cls, value: Any = None) -> Resolution:
        return cls("ok", value)

    @classmethod
    def error(cls, error: Any) -> Resolution:
        return cls("error", error)

    @classmethod
    def cancelled(cls, reason: str | None = None) -> Resolution:
        return cls("cancelled", reason)

    @classmethod
    def timeout(cls) -> Resolution:
        return cls("timeout")

    @classmethod
    def lost(cls, to: str) -> Resolution:
        """Return the resolution of a wait whose competitor in a first-of-several was resolved first."""
        return cls("lost", to)

    def same_as(self, other: Resolution) -> bool:
        """Compare as data: Python's `==` takes True for 1, and a client may order members differently."""
        if self.status != other.status:
            return False
        return canonical_bytes(encode(self.value).tree) == canonical_bytes(encode(other.value).tree)


RESOLUTION_STATUSES = frozenset(("ok", "error", "cancelled", "timeout", "lost"))


class ResolveOutcome(msgspec.Struct, frozen=True):
    """The outcome of an attempt to resolve. `terminal` is set if the wait had been resolved before."""

    status: Literal["accepted", "already_resolved", "unknown_or_revoked"]
    terminal: Resolution | None = None

    @classmethod
    def accepted(cls) -> ResolveOutcome:
        return cls("accepted")

    @classmethod
    def already_resolved(cls, terminal: Resolution) -> ResolveOutcome:
        return cls("already_resolved", terminal)

    @classmethod
    def unknown_or_revoked(cls) -> ResolveOutcome:
        return cls("unknown_or_revoked")

    def confirms(self, resolution: Resolution) -> bool:
        """Return True if the wait ended with this resolution, now or before: a retry after a lost answer succeeds."""
        return self.status == "accepted" or (self.terminal is not None and self.terminal.same_as(resolution))


def hmac_sha256(secret: bytes, message: bytes) -> bytes:
    return hmac.digest(secret, message, "sha256")


def session_id(session: str) -> str:
    """Return an id of a session in characters that every store accepts."""
    return sha256(_SESSION_ID + _frame(session)).hexdigest()[:32]


def check_name(name: str, what: str) -> str:
    """Return the name. Raise `InvalidInput` if it is invalid or blank: a blank name usually is a forgotten variable."""
    if not isinstance(name, str) or not name.strip() or len(name) > MAX_NAME_CHARACTERS or _FORBIDDEN.search(name):
        raise InvalidInput(
            f"{what} is text of 1 to {MAX_NAME_CHARACTERS} characters, without control characters", code="bad_wait"
        )
    return name


def _encode_text(text: object) -> bytes:
    return text.encode("utf-8", "surrogatepass") if isinstance(text, str) else b""


def _frame(*fields: str) -> bytes:
    parts = []
    for field in fields:
        data = _encode_text(str(field))
        parts.append(struct.pack(">I", len(data)) + data)
    return b"".join(parts)


def _unframe(data: bytes) -> list[str]:
    fields, at = [], 0
    while at < len(data):
        (length,) = struct.unpack_from(">I", data, at)
        field = data[at + 4 : at + 4 + length]
        if len(field) != length:
            raise ValueError("a field is cut off")
        fields.append(field.decode())
        at += 4 + length
    return fields


def _encode_base64(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()
