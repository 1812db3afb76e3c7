"""The key ring: the secrets of this user, in one file that other users cannot read.

Rules:

1. Secrets are only in this file: not in a store, an export, a message or a `repr`.
2. The file has mode 0600 and belongs to the user or to root. A file with a wider mode is refused, not repaired.
3. The file is created on first use, by a link: the first process that links a whole file wins, and the others read that
   file. A change replaces the whole file, under a lock file beside it.
4. `rotate` adds a secret that signs from now on. Older secrets verify until `retire` drops them. That is refused before
   their overlap has ended, unless `force` is set.
5. A missing secret (retired, or the file is lost) is never replaced silently: keys signed with it are refused, and
   signing with it raises `wait_secret_missing`.

    {"format": "onrecord.keys/1", "keys": [{"id", "purpose", "algorithm", "secret", "created", "state", "until"}, …]}

`purpose` distinguishes the kinds of secrets (waits, signatures, seals). Members of unknown purpose are kept unchanged.
"""

from __future__ import annotations

import fcntl
import os
import stat
import sys
from base64 import b64decode, b64encode
from binascii import Error as BinasciiError
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from onrecord.core.canonical import stored_bytes
from onrecord.core.events import OperationNoted
from onrecord.core.strict_json import read_strict
from onrecord.core.wait_keys import SECRET_BYTES, WaitKey
from onrecord.errors import InvalidInput, InvalidValue, KeysUnavailable, Refused
from onrecord.journal.operations import OperationsJournal
from onrecord.journal.sources import Sources, SystemSources
from onrecord.store.contract import Store
from onrecord.store.location import sync_folder

FORMAT = "onrecord.keys/1"
FILE_VARIABLE = "ONRECORD_KEY_FILE"
FILE_NAME = "keys.json"
WAITS = "wait"
HMAC = "hmac-sha256"
MAX_FILE_BYTES = 1024 * 1024
OVERLAP_SECONDS = 7 * 86_400
_WIDER_THAN_OWNER = 0o077


class KeyInfo(NamedTuple):
    """The public facts of a secret."""

    id: str
    purpose: str
    state: str
    """`current` signs and verifies; `replaced` only verifies; `retired` has no secret any more."""
    created: int
    until: int | None
    """The end of the overlap of a replaced secret, or the time at which a secret was retired."""


class _Contents(NamedTuple):
    """The parsed file. Threads share a ring, so this value is replaced as a whole and never changed."""

    stamp: tuple[int, ...]
    members: list[dict[str, Any]]
    secrets: dict[str, bytes]
    current: str


class KeyRing:
    """The secrets of one file. The file is read on first use, and again after it has changed."""

    def __init__(self, path: str | os.PathLike[str] | None = None, *, sources: Sources | None = None) -> None:
        self.path = Path(path) if path is not None else default_path()
        self._sources = sources or SystemSources()
        self._contents = _Contents((), [], {}, "")
        self._decoy = self._sources.entropy(SECRET_BYTES)
        """Verifies keys of unknown secrets: it takes as long and never succeeds."""

    def __repr__(self) -> str:
        return f"<KeyRing {self.path}>"

    # Signing

    def current_id(self) -> str:
        return self._load().current

    def has(self, key_id: str) -> bool:
        return key_id in self._load().secrets

    def ids(self) -> list[str]:
        return list(self._load().secrets)

    def sign(self, key: WaitKey) -> WaitKey:
        secret = self._load().secrets.get(key.key_id)
        if secret is None:
            raise KeysUnavailable(
                f"the secret {key.key_id} that signs this wait is not in {self.path}",
                hint="Restore the file of secrets, or issue the wait again under the current secret (`reissue`).",
                code="wait_secret_missing",
            )
        return key.signed(secret)

    def verifies(self, key: WaitKey) -> bool:
        """Return True if a secret of this ring signed the key. Computes one HMAC even if the secret is unknown."""
        secret = self._load().secrets.get(key.key_id)
        matches = key.is_signed_by(self._decoy if secret is None else secret)
        return matches and secret is not None

    # Managing

    def entries(self) -> list[KeyInfo]:
        return [describe(member) for member in self._load().members]

    def rotate(
        self, *, overlap_seconds: float = OVERLAP_SECONDS, store: Store | None = None, namespace: str = "default"
    ) -> KeyInfo:
        """Add a secret that signs from now on. The previous one still verifies, at least for the overlap."""
        if not 0 <= overlap_seconds <= 1e9:
            raise InvalidInput("an overlap is a number of seconds from 0", code="bad_overlap")
        self._load()

        def change(members: list[dict[str, Any]]) -> KeyInfo:
            now = self._sources.now_us()
            replace_current(members, WAITS, until=now + int(overlap_seconds * 1_000_000))
            members.append(new_member(self._sources, WAITS, HMAC, "k"))
            return describe(members[-1])

        added = self._change(change)
        self._note(store, namespace, "keys_rotated", added)
        return added

    def retire(
        self, key_id: str, *, force: bool = False, store: Store | None = None, namespace: str = "default"
    ) -> KeyInfo:
        """Drop a replaced secret. Keys that it signed are refused from now on."""
        self._load()

        def change(members: list[dict[str, Any]]) -> KeyInfo:
            member = next((one for one in members if one["id"] == key_id and _is_wait(one)), None)
            if member is None:
                raise InvalidInput(
                    "there is no wait secret of that id", hint="`onrecord keys list` shows them.", code="unknown_key"
                )
            now = self._sources.now_us()
            if member["state"] == "current":
                raise Refused(
                    f"{key_id} signs new keys",
                    hint="Rotate first, then retire it after its overlap has ended.",
                    code="key_in_use",
                )
            if member["state"] == "replaced":
                if now < (member.get("until") or 0) and not force:
                    raise Refused(
                        f"the overlap of {key_id} has not ended",
                        hint="Wait keys signed with it would be refused; --now retires it all the same.",
                        code="key_in_overlap",
                    )
                member.update(state="retired", until=now)
                member.pop("secret", None)
            return describe(member)

        retired = self._change(change)
        self._note(store, namespace, "key_retired", retired)
        return retired

    def _note(self, store: Store | None, namespace: str, operation: str, info: KeyInfo) -> None:
        if store is not None:
            journal = OperationsJournal.open_for(store, namespace, sources=self._sources)
            journal.note(OperationNoted(operation=operation, detail={"key_id": info.id, "purpose": info.purpose}))

    # The file

    def _load(self) -> _Contents:
        try:
            seen = os.stat(self.path)
        except FileNotFoundError:
            self._create()
            seen = os.stat(self.path)
        except OSError as error:
            raise _unusable(self.path, error.strerror or "cannot be read") from None
        contents = self._contents
        return contents if contents.stamp == _stamp(seen) else self._read()

    def _read(self) -> _Contents:
        try:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError as error:
            raise _unusable(self.path, error.strerror or "cannot be read") from None
        try:
            found = os.fstat(descriptor)
            _check_private(self.path, found)
            with open(descriptor, "rb", closefd=False) as file:
                data = file.read(MAX_FILE_BYTES + 1)
        finally:
            os.close(descriptor)
        members = _parse(self.path, data)
        waits = [member for member in members if _is_wait(member)]
        secrets = {member["id"]: _parse_secret(self.path, member) for member in waits if member["state"] != "retired"}
        current = [member["id"] for member in waits if member["state"] == "current"]
        if len(current) != 1 or len({member["id"] for member in waits}) != len(waits):
            raise _unusable(self.path, "does not name exactly one current secret for waits")
        self._contents = contents = _Contents(_stamp(found), members, secrets, current[0])
        return contents

    def _create(self) -> None:
        """Create the file by a link, which fails if another process was first. A rename would replace its file."""
        folder = self.path.parent
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with self._temporary([new_member(self._sources, WAITS, HMAC, "k")]) as temporary, suppress(FileExistsError):
                os.link(temporary, self.path)
            sync_folder(str(folder))
        except OSError as error:
            raise _unusable(self.path, f"cannot be created: {error.strerror}") from None

    def _change(self, change: Callable[[list[dict[str, Any]]], KeyInfo]) -> KeyInfo:
        try:
            with _locked(self.path.with_name(self.path.name + ".lock")):
                members = [dict(member) for member in self._read().members]
                result = change(members)
                with self._temporary(members) as temporary:
                    os.replace(temporary, self.path)
                sync_folder(str(self.path.parent))
                self._read()
                return result
        except OSError as error:
            raise _unusable(self.path, f"cannot be changed: {error.strerror}") from None

    @contextmanager
    def _temporary(self, members: list[dict[str, Any]]) -> Iterator[Path]:
        """Write a whole, synced file beside the real one. It is removed after the block unless it was renamed."""
        path = self.path.with_name(f".{self.path.name}.{self._sources.entropy(8).hex()}")
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(stored_bytes({"format": FORMAT, "keys": members}) + b"\n")
                file.flush()
                os.fsync(descriptor)
            yield path
        finally:
            with suppress(FileNotFoundError):
                path.unlink()


def default_path() -> Path:
    named = os.environ.get(FILE_VARIABLE)
    if named:
        return Path(named)
    return _config_folder() / FILE_NAME


def _config_folder() -> Path:
    """Return the configuration folder of this user. Linux is decided here, since every recorded program calls this."""
    configured, home = os.environ.get("XDG_CONFIG_HOME", ""), os.environ.get("HOME", "")
    if sys.platform == "linux" and os.path.isabs(configured):
        return Path(configured, "onrecord")
    if sys.platform == "linux" and not configured and os.path.isabs(home):
        return Path(home, ".config", "onrecord")
    from platformdirs import user_config_path

    return user_config_path("onrecord", appauthor=False)


def new_member(sources: Sources, purpose: str, algorithm: str, prefix: str) -> dict[str, Any]:
    return {
        "id": prefix + sources.entropy(8).hex(),
        "purpose": purpose,
        "algorithm": algorithm,
        "secret": b64encode(sources.entropy(SECRET_BYTES)).decode(),
        "created": sources.now_us(),
        "state": "current",
    }


def replace_current(members: list[dict[str, Any]], purpose: str, **changes: Any) -> None:
    """Mark the current secret of a purpose as replaced."""
    for member in members:
        if member.get("purpose") == purpose and member.get("state") == "current":
            member.update(state="replaced", **changes)


def decode_secret(member: dict[str, Any], name: str = "secret") -> bytes:
    """Return the bytes of a secret; empty if they cannot be read."""
    try:
        return b64decode(str(member.get(name)), validate=True)
    except (BinasciiError, ValueError):
        return b""


def _is_wait(member: dict[str, Any]) -> bool:
    return member.get("purpose") == WAITS


def describe(member: dict[str, Any]) -> KeyInfo:
    return KeyInfo(
        member["id"], str(member.get("purpose")), str(member.get("state")), member["created"], member.get("until")
    )


def _parse(path: Path, data: bytes) -> list[dict[str, Any]]:
    try:
        tree = read_strict(data, max_bytes=MAX_FILE_BYTES, max_depth=8)
    except InvalidValue:
        raise _unusable(path, "is not a file of secrets") from None
    if not isinstance(tree, dict) or tree.get("format") != FORMAT or not isinstance(tree.get("keys"), list):
        raise _unusable(path, "is not a file of secrets of this version")
    members: list[dict[str, Any]] = tree["keys"]
    for member in members:
        sound = isinstance(member, dict) and isinstance(member.get("id"), str) and type(member.get("created")) is int
        if not sound or not isinstance(member.get("until"), int | None):
            raise _unusable(path, "holds an entry that is not a secret")
        if _is_wait(member) and member.get("state") not in ("current", "replaced", "retired"):
            raise _unusable(path, "holds an entry that is not a secret")
    return members


def _parse_secret(path: Path, member: dict[str, Any]) -> bytes:
    secret = decode_secret(member)
    if len(secret) < SECRET_BYTES or member.get("algorithm") != HMAC:
        raise _unusable(path, f"holds a secret that cannot be used ({member['id'][:64]!r})")
    return secret


def _check_private(path: Path, found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise _unusable(path, "is not a file")
    if stat.S_IMODE(found.st_mode) & _WIDER_THAN_OWNER:
        raise KeysUnavailable(
            f"others can use the file of secrets {path} (mode {stat.S_IMODE(found.st_mode):04o})",
            hint=f"If no one else has read it: chmod 600 {path}. Otherwise move it away; a new one is created.",
            code="keys_exposed",
        )
    if found.st_uid not in (os.geteuid(), 0):
        raise KeysUnavailable(
            f"the file of secrets {path} belongs to another user",
            hint=f"Set {FILE_VARIABLE} to a file of your own.",
            code="keys_exposed",
        )


def _stamp(found: os.stat_result) -> tuple[int, ...]:
    # The mode is included: a file that became readable for others is refused from then on.
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_mode, found.st_uid


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _unusable(path: Path, reason: str) -> KeysUnavailable:
    return KeysUnavailable(
        f"the file of secrets {path} {reason}",
        hint=f"Restore the file from a copy, set {FILE_VARIABLE} to another file, or move it away: a new one is "
        "created, and wait keys issued before are refused.",
    )
