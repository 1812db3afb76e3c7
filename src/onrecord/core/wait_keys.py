"""Wait keys: bearer capabilities that let somebody outside resolve one wait of one run.

    rwk1.<fields, base64url>.<signature, base64url>

Rules:

1. The signature is HMAC-SHA-256 over a versioned preimage in which every field stands behind its length, so no two
   sets of fields share one. Signatures are compared as bytes, in constant time.
2. A key is stable for one (run, identity): all its fields are, the id of the signing secret too.
3. A text has one key and a key one text: what is not exactly what `text` writes is not parsed.
4. What a key opens is found by digests of its fields, never by the fields themselves: a name that a database could
   not even be asked for costs the same look-up as any other.

Nothing here does input or output; where the secrets live is `reenact.effect.keys`.
"""

from __future__ import annotations

import hmac
import struct
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as BinasciiError
from hashlib import sha256
from typing import Any, Literal

import msgspec

from reenact.core.canonical import canonical_bytes
from reenact.core.codec import encode
from reenact.core.lazy_patterns import Pattern
from reenact.core.links import check_namespace, check_run_id
from reenact.errors import InvalidInput

VERSION = 1
PREFIX = "rwk1"
SECRET_BYTES = 32
MAX_NAME_CHARACTERS = 256
MAX_ORDINAL = 2**53 - 1
MAX_TEXT_CHARACTERS = 8192
WAIT_KEY_SHAPE = Pattern(r"rwk1\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{43}")
"""How a key looks inside other text; wherever one appears it is a secret."""

_TEXT = Pattern(r"rwk1\.([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]{43})\Z")
_KEY_ID = Pattern(r"[A-Za-z0-9_-]{1,64}\Z")
_UNFIT = Pattern(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff\u2028\u2029]")
_SIGNED = b"reenact.wait-key/1\0"
_WAIT_ID = b"reenact.wait-id/1\0"
_SESSION_ID = b"reenact.wait-session/1\0"

WaitKind = Literal["tool_completion", "named", "process_signal"]
WAIT_KINDS: tuple[WaitKind, ...] = ("tool_completion", "named", "process_signal")


class WaitIdentity(msgspec.Struct, frozen=True):
    """Which wait of a run is meant. The ordinal (from 1) tells waits of one name apart."""

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
        """The ordinal-th signal of that name: each signal is a wait of its own, so none is lost or taken twice."""
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
        """Names the wait inside its run, in characters that every store takes."""
        return sha256(_WAIT_ID + _framed(self.kind, self.name, str(self.ordinal))).hexdigest()[:32]


class WaitKey(msgspec.Struct, frozen=True):
    """A signed capability. Whoever has it may resolve the wait, so its `repr` does not hold the signature."""

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
        """The one token that goes out."""
        return f"{PREFIX}.{_base64(_framed(*self._fields()))}.{self.signature}"

    def preimage(self) -> bytes:
        return _SIGNED + _framed(*self._fields())

    def signed(self, secret: bytes) -> WaitKey:
        return msgspec.structs.replace(self, signature=_base64(hmac_sha256(secret, self.preimage())))

    def is_signed_by(self, secret: bytes) -> bool:
        """One HMAC, whatever the key is like."""
        expected = _base64(hmac_sha256(secret, self.preimage())).encode()
        return hmac.compare_digest(expected, _bytes(self.signature))

    def is_well_formed(self) -> bool:
        """False for a key that was put together by hand from what no key of ours holds."""
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
        # Whether there is a session is a field of its own: no session is not the session "".
        session = ("", "") if self.session is None else ("session", self.session)
        version, ordinal = str(self.version), str(self.ordinal)
        return (version, self.namespace, self.run, *session, self.kind, self.name, ordinal, self.key_id)


DECOY = WaitKey("default", "none", None, "named", "none", 1, "none", "")
"""What stands for a key that cannot be read: it takes the way of any other and opens nothing."""


def parse_wait_key(text: str) -> WaitKey:
    """The key of a text; `InvalidInput` for anything that `WaitKey.text` does not write. The signature is not checked.

    The message never quotes the text: most of what is nearly a key is a key with a slip in it.
    """
    key = _parsed(text)
    if key is None or key.text != text or not key.is_well_formed():
        raise InvalidInput(
            "not a wait key",
            hint=f"A wait key begins with {PREFIX}. and has two more parts; copy the whole of it.",
            code="bad_wait_key",
        )
    return key


def _parsed(text: object) -> WaitKey | None:
    match = _TEXT.match(text) if isinstance(text, str) and len(text) <= MAX_TEXT_CHARACTERS else None
    if match is None:
        return None
    try:
        data = urlsafe_b64decode(match[1] + "=" * (-len(match[1]) % 4))
        version, namespace, run, has_session, session, kind, name, ordinal, key_id = _unframed(data)
        # `key.text != text` in the caller refuses other spellings of the same number.
        number, counted = int(version, 10), int(ordinal, 10)
    except (BinasciiError, ValueError, struct.error):
        return None
    return WaitKey(namespace, run, session if has_session else None, kind, name, counted, key_id, match[2], number)


class Resolution(msgspec.Struct, frozen=True):
    """How a wait ended. Every one is terminal."""

    status: Literal["ok", "error", "cancelled", "timeout", "lost"]
    value: Any = None
    """ok: the value · error: what went wrong · cancelled: why, if said · lost: the id of the wait that was first."""

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
        """Another wait of a first-of-several was resolved before."""
        return cls("lost", to)

    def same_as(self, other: Resolution) -> bool:
        """Equal as data: Python's `==` takes True for 1, and a client may write the members in another order."""
        if self.status != other.status:
            return False
        return canonical_bytes(encode(self.value).tree) == canonical_bytes(encode(other.value).tree)


RESOLUTION_STATUSES = frozenset(("ok", "error", "cancelled", "timeout", "lost"))


class ResolveOutcome(msgspec.Struct, frozen=True):
    """What became of an attempt to resolve. `terminal` is there when the wait had been resolved before."""

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

    def stands(self, resolution: Resolution) -> bool:
        """The wait ended with just this, now or before: whoever tries again after a lost answer is served."""
        return self.status == "accepted" or (self.terminal is not None and self.terminal.same_as(resolution))


def hmac_sha256(secret: bytes, message: bytes) -> bytes:
    return hmac.digest(secret, message, "sha256")


def session_id(session: str) -> str:
    """Names a session in characters that every store takes."""
    return sha256(_SESSION_ID + _framed(session)).hexdigest()[:32]


def check_name(name: str, what: str) -> str:
    """Blank names are refused: they are what a forgotten variable looks like."""
    if not isinstance(name, str) or not name.strip() or len(name) > MAX_NAME_CHARACTERS or _UNFIT.search(name):
        raise InvalidInput(
            f"{what} is text of 1 to {MAX_NAME_CHARACTERS} characters, without control characters", code="bad_wait"
        )
    return name


def _bytes(text: object) -> bytes:
    return text.encode("utf-8", "surrogatepass") if isinstance(text, str) else b""


def _framed(*fields: str) -> bytes:
    parts = []
    for field in fields:
        data = _bytes(str(field))
        parts.append(struct.pack(">I", len(data)) + data)
    return b"".join(parts)


def _unframed(data: bytes) -> list[str]:
    fields, at = [], 0
    while at < len(data):
        (length,) = struct.unpack_from(">I", data, at)
        field = data[at + 4 : at + 4 + length]
        if len(field) != length:
            raise ValueError("a field is cut off")
        fields.append(field.decode())
        at += 4 + length
    return fields


def _base64(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()
