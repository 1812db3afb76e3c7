"""The receipt of one effect: everything needed to check it, and to execute the effect again, in one small document.

Rules:

1. Every hash is computed again from the stored members: inputs, outputs, and the whole receipt. A receipt with edited
   inputs does not verify, even if its outputs are right.
2. The receipt's hash covers the canonical JSON of all members by name, so no text can imitate the border between two
   members. The time is an integer of microseconds, hashed as stored.
3. Hashes cover the canonical form: a tool that sorts keys or writes 1.0 as 1 does not change a receipt.
4. Inputs and outputs are stored as the codec writes them (docs/format.md, 3.1). Bytes of more than 64 KiB are named by
   their address; `artifacts` may hold them, and each is checked against its address.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from binascii import Error as BinasciiError
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Any, Literal, NamedTuple

import msgspec

from onrecord.core.canonical import canonical_bytes, stored_bytes
from onrecord.core.codec import decode
from onrecord.core.hashing import artifact_address, parse_hash, render, value_digest
from onrecord.core.links import MAX_TIME, is_name
from onrecord.core.strict_json import read_strict
from onrecord.errors import Damaged, InvalidValue
from onrecord.proof.receipts.sampling_params import SamplingParams

FORMAT = "onrecord.token/1"
MAX_TOKEN_BYTES = 64 * 1024 * 1024
MAX_TAGS = 64
MAX_TEXT = 1024
NONCE_BYTES = 16
ERASED: dict[str, Any] = {"$erased": {}}

_TAG = b"onrecord.token/1\0"
_NONCE = re.compile(r"[0-9a-f]{32}\Z")
_SHARING = frozenset({"$node", "$list", "$string"})
_NOT_HASHED = frozenset({"token_hash", "artifacts"})

Status = Literal["succeeded", "failed", "denied"]


class TokenProblem(NamedTuple):
    code: str
    message: str


class JournalPosition(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The position of an effect in a journal. The link hashes bind it to everything recorded before."""

    run: str
    header_hash: str
    request: int
    request_hash: str
    answer: int
    answer_hash: str
    lane: str
    key: str | None


class ReplayToken(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A receipt. `ReplayTokenBuilder` and `mint` make it, `from_json` reads it, and `problems` checks it."""

    format: Literal["onrecord.token/1"] = "onrecord.token/1"
    namespace: str
    flow: str
    effect_name: str
    effect_kind: str | None
    status: Status
    inputs: Any
    inputs_hash: str
    outputs: Any
    """The outcome: the output, the error of a failed effect, or the reason of a denied one."""
    outputs_hash: str
    model_version: str
    sampling: dict[str, Any]
    time: int
    """Microseconds since 1970, UTC."""
    nonce: str
    previous: str | None
    """The hash of the previous receipt in the flow."""
    replaces: str | None
    """The hash of the receipt whose effect was executed again, with another model."""
    tags: dict[str, str]
    """Reasons why the effect was allowed: purpose, legal basis and the like."""
    place: JournalPosition | None
    token_hash: str = ""
    artifacts: dict[str, str] = {}
    """Bytes that inputs and outputs name by address, as base64. The receipt's hash covers the address only."""

    def problems(self) -> list[TokenProblem]:
        """Return everything that is wrong with the receipt; an empty list if it verifies."""
        found = []
        for name, tree, claimed in (
            ("inputs", self.inputs, self.inputs_hash),
            ("outputs", self.outputs, self.outputs_hash),
        ):
            if hash_of(tree) != claimed:
                found.append(TokenProblem(f"bad_{name}_hash", f"the {name} are not those that were hashed"))
        if hash_token(self) != self.token_hash:
            found.append(TokenProblem("bad_token_hash", "the receipt is not the one that was minted"))
        found.extend(_check_artifacts(self))
        return found

    @property
    def verifies(self) -> bool:
        return not self.problems()

    def raise_if_invalid(self) -> None:
        for problem in self.problems():
            raise Damaged(f"receipt {self.token_hash[:15]}…: {problem.message}", code=problem.code, hint=_HINT)

    @property
    def sampling_params(self) -> SamplingParams:
        return SamplingParams.from_data(decode(self.sampling))

    def decoded(self, tree: Any, *, trusted: bool = False, artifact: Callable[[bytes], bytes] | None = None) -> Any:
        """Return the value of inputs or outputs. Loaded classes are restored only from a trusted receipt."""

        def find(address: bytes) -> bytes:
            data = self.artifacts.get(render(address))
            if data is not None:
                return b64decode(data)
            if artifact is None:
                raise Damaged(f"the receipt does not hold {render(address)}", code="missing_artifact", hint=_HINT)
            return artifact(address)

        return decode(tree, loaded_classes=trusted, artifact=find)

    def members(self) -> dict[str, Any]:
        """Return the JSON tree, without `artifacts` if there are none."""
        tree: dict[str, Any] = {name: getattr(self, name) for name in self.__struct_fields__}
        tree["place"] = None if self.place is None else msgspec.structs.asdict(self.place)
        if not self.artifacts:
            del tree["artifacts"]
        return tree

    def to_json(self) -> bytes:
        return stored_bytes(self.members())

    @classmethod
    def from_json(cls, data: bytes | str) -> ReplayToken:
        """Parse untrusted bytes. Raise Damaged if they are not a receipt; `problems` checks whether it verifies."""
        try:
            text = data.encode() if isinstance(data, str) else bytes(data)
            tree = read_strict(text, max_bytes=MAX_TOKEN_BYTES)
        except UnicodeEncodeError:
            raise _not_a_receipt("text with a lone surrogate") from None
        except InvalidValue as refused:
            raise _not_a_receipt(refused.message, refused.code) from None
        return cls.from_members(tree)

    @classmethod
    def from_members(cls, tree: Any) -> ReplayToken:
        if type(tree) is not dict or not tree.keys() >= _REQUIRED:
            raise _not_a_receipt("it is not an object, or lacks a member")
        # msgspec checks all members except these, which may have any type and depth.
        values = {name: tree[name] for name in ("inputs", "outputs", "sampling")}
        try:
            token = msgspec.convert({**tree, **dict.fromkeys(values), "sampling": {}}, cls, strict=True)
        except msgspec.ValidationError as error:
            raise _not_a_receipt(str(error)[:200]) from None
        if type(values["sampling"]) is not dict:
            raise _not_a_receipt("sampling is not an object")
        token = msgspec.structs.replace(token, **values)
        check_members(token)
        return token


_REQUIRED = frozenset(ReplayToken.__struct_fields__) - {"artifacts"}
_HINT = "Get the receipt again from its issuer."


def _not_a_receipt(message: str, code: str = "bad_token") -> Damaged:
    return Damaged(f"not a receipt: {message}", code=code, hint=_HINT)


def hash_of(tree: Any) -> str:
    """Return the hash of encoded inputs or outputs."""
    return render(value_digest(canonical_bytes(tree)))


def hash_token(token: ReplayToken) -> str:
    hashed = {name: value for name, value in token.members().items() if name not in _NOT_HASHED}
    return render(sha256(_TAG + canonical_bytes(hashed)).digest())


def seal_token(token: ReplayToken) -> ReplayToken:
    """Return the receipt with all its hashes. Raise Damaged if a member is not allowed."""
    replace = msgspec.structs.replace
    token = replace(token, inputs_hash=hash_of(token.inputs), outputs_hash=hash_of(token.outputs))
    token = replace(token, token_hash=hash_token(token))
    check_members(token)
    return token


def check_members(token: ReplayToken) -> None:
    """Raise Damaged for a member that cannot be hashed, written or stored."""
    if not is_name(token.namespace) or not is_name(token.flow):
        raise _not_a_receipt("namespace and flow are 1 to 128 characters of A-Z a-z 0-9 . _ : -")
    if not token.effect_name.strip() or len(token.effect_name) > MAX_TEXT or len(token.model_version) > MAX_TEXT:
        raise _not_a_receipt(f"the name of the effect is missing, or a name has more than {MAX_TEXT} characters")
    if not 0 <= token.time <= MAX_TIME:
        raise _not_a_receipt("the time is whole microseconds since 1970, below 2^53")
    if not _NONCE.match(token.nonce):
        raise _not_a_receipt("the nonce has 32 lower-case hex digits")
    if len(token.tags) > MAX_TAGS or any(len(text) > MAX_TEXT for pair in token.tags.items() for text in pair):
        raise _not_a_receipt(f"there are at most {MAX_TAGS} tags of at most {MAX_TEXT} characters")
    hashes = [token.inputs_hash, token.outputs_hash, token.token_hash, token.previous, token.replaces]
    if token.place is not None:
        hashes += [token.place.header_hash, token.place.request_hash, token.place.answer_hash]
    try:
        for text in hashes:
            if text is not None:
                parse_hash(text)
        canonical_bytes(token.members())
    except InvalidValue as refused:
        raise _not_a_receipt(refused.message, refused.code) from None
    for tree in (token.inputs, token.outputs, token.sampling):
        if any(name in _SHARING for name, _ in find_tags(tree)):
            # A journal would read such a tag as a reference to another recorded value.
            raise _not_a_receipt("it holds references that only a journal can resolve")


def find_tags(tree: Any) -> list[tuple[str, Any]]:
    """Return every tag of an encoded tree, with its content."""
    found = []
    todo = [tree]
    while todo:
        value = todo.pop()
        if type(value) is dict:
            if len(value) == 1:
                name = next(iter(value))
                if name.startswith("$") and not name.startswith("$$"):
                    found.append((name, value[name]))
            todo.extend(value.values())
        elif type(value) is list:
            todo.extend(value)
    return found


def named_artifacts(token: ReplayToken) -> set[str]:
    """Return the addresses of bytes that inputs and outputs name."""
    named = [
        content for tree in (token.inputs, token.outputs) for name, content in find_tags(tree) if name == "$artifact"
    ]
    return {content["digest"] for content in named if type(content) is dict and type(content.get("digest")) is str}


def _check_artifacts(token: ReplayToken) -> list[TokenProblem]:
    found = []
    named = named_artifacts(token) if token.artifacts else set()
    for digest, text in token.artifacts.items():
        try:
            data = b64decode(text, validate=True)
        except (BinasciiError, ValueError):
            data = None
        if data is None or b64encode(data).decode() != text or render(artifact_address(data)) != digest:
            found.append(TokenProblem("bad_artifact", "attached bytes are not those that were recorded"))
        elif digest not in named:
            found.append(TokenProblem("unneeded_artifact", "bytes are attached that the receipt does not name"))
    return found


def encode_artifacts(artifacts: Mapping[bytes, bytes]) -> dict[str, str]:
    return {render(address): b64encode(data).decode() for address, data in artifacts.items()}
