"""The receipt of one effect: everything needed to check it, and to do the effect again, in one small document.

Rules:

1. Every hash is derived again from what is stored: inputs, outputs, and the receipt as a whole. A receipt whose inputs
   were edited does not verify, although its outputs are right.
2. The own hash is taken over the canonical JSON of all members by name, so no text in one member can pass for the
   border between two. The time is an integer of microseconds, hashed as it is stored.
3. Hashes are over the canonical form: a receipt that went through a tool which sorts keys or writes 1.0 as 1 is the
   same receipt.
4. Inputs and outputs are kept as the codec writes them (docs/format.md, 3.1). Bytes of more than 64 KiB are named by
   their address; `artifacts` may carry them along, and each is checked against its address.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from binascii import Error as BinasciiError
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Any, Literal, NamedTuple

import msgspec

from reenact.core.canonical import canonical_bytes, stored_bytes
from reenact.core.codec import decode
from reenact.core.hashing import artifact_address, parse_hash, render, value_digest
from reenact.core.links import MAX_TIME, is_name
from reenact.core.strict_json import read_strict
from reenact.errors import Damaged, InvalidValue
from reenact.tokens.sampling import SamplingParams

FORMAT = "reenact.token/1"
MAX_TOKEN_BYTES = 64 * 1024 * 1024
MAX_TAGS = 64
MAX_TEXT = 1024
NONCE_BYTES = 16
ERASED: dict[str, Any] = {"$erased": {}}

_TAG = b"reenact.token/1\0"
_NONCE = re.compile(r"[0-9a-f]{32}\Z")
_SHARING = frozenset({"$node", "$list", "$string"})
_NOT_HASHED = frozenset({"token_hash", "artifacts"})

Status = Literal["succeeded", "failed", "denied"]


class TokenProblem(NamedTuple):
    code: str
    message: str


class Place(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where an effect stands in a journal. The link hashes bind it to everything that was recorded before."""

    run: str
    header_hash: str
    request: int
    request_hash: str
    answer: int
    answer_hash: str
    lane: str
    key: str | None


class ReplayToken(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A receipt. Made by `ReplayTokenBuilder` and by `mint`; read with `from_json`, and then checked by `problems`."""

    format: Literal["reenact.token/1"] = "reenact.token/1"
    namespace: str
    flow: str
    effect_name: str
    effect_kind: str | None
    status: Status
    inputs: Any
    inputs_hash: str
    outputs: Any
    """What came of it: the output, the error of a failed effect, the reason of a denied one."""
    outputs_hash: str
    model_version: str
    sampling: dict[str, Any]
    time: int
    """Microseconds since 1970, UTC."""
    nonce: str
    previous: str | None
    """The own hash of the receipt before this one in its flow."""
    replaces: str | None
    """The own hash of the receipt that this one was made in answer to, with another model."""
    tags: dict[str, str]
    """Why the effect was allowed: purpose, legal basis, or whatever else is asked for later."""
    place: Place | None
    token_hash: str = ""
    artifacts: dict[str, str] = {}
    """Bytes that inputs and outputs name by address, as base64. Outside of the own hash: the address covers them."""

    # Checking

    def problems(self) -> list[TokenProblem]:
        """Everything that does not hold, from what is stored; nothing when the receipt verifies."""
        found = []
        for name, tree, claimed in (
            ("inputs", self.inputs, self.inputs_hash),
            ("outputs", self.outputs, self.outputs_hash),
        ):
            if hash_of(tree) != claimed:
                found.append(TokenProblem(f"bad_{name}_hash", f"the {name} are not those that were hashed"))
        if own_hash(self) != self.token_hash:
            found.append(TokenProblem("bad_token_hash", "the receipt is not the one that was minted"))
        found.extend(_artifact_problems(self))
        return found

    @property
    def verifies(self) -> bool:
        return not self.problems()

    def raise_if_invalid(self) -> None:
        for problem in self.problems():
            raise Damaged(f"receipt {self.token_hash[:15]}…: {problem.message}", code=problem.code, hint=_HINT)

    # Values

    @property
    def sampling_params(self) -> SamplingParams:
        return SamplingParams.from_data(decode(self.sampling))

    def decoded(self, tree: Any, *, trusted: bool = False, artifact: Callable[[bytes], bytes] | None = None) -> Any:
        """The value of inputs or outputs. Classes that are loaded come back only if the receipt is one's own."""

        def find(address: bytes) -> bytes:
            carried = self.artifacts.get(render(address))
            if carried is not None:
                return b64decode(carried)
            if artifact is None:
                raise Damaged(f"the receipt does not carry {render(address)}", code="missing_artifact", hint=_HINT)
            return artifact(address)

        return decode(tree, loaded_classes=trusted, artifact=find)

    # Text

    def members(self) -> dict[str, Any]:
        """As a JSON tree; `artifacts` is left out where there are none."""
        tree: dict[str, Any] = {name: getattr(self, name) for name in self.__struct_fields__}
        tree["place"] = None if self.place is None else msgspec.structs.asdict(self.place)
        if not self.artifacts:
            del tree["artifacts"]
        return tree

    def to_json(self) -> bytes:
        return stored_bytes(self.members())

    @classmethod
    def from_json(cls, data: bytes | str) -> ReplayToken:
        """Reads hostile bytes. `Damaged` for what is not a receipt; whether it verifies is for `problems` to say."""
        try:
            text = data.encode() if isinstance(data, str) else bytes(data)
            tree = read_strict(text, max_bytes=MAX_TOKEN_BYTES)
        except UnicodeEncodeError:
            raise _bad("text with a lone surrogate") from None
        except InvalidValue as refused:
            raise _bad(refused.message, refused.code) from None
        return cls.from_members(tree)

    @classmethod
    def from_members(cls, tree: Any) -> ReplayToken:
        if type(tree) is not dict or not tree.keys() >= _REQUIRED:
            raise _bad("it is no object, or lacks a member")
        # Values of any type and depth are left alone; everything else has the type of its name.
        values = {name: tree[name] for name in ("inputs", "outputs", "sampling")}
        try:
            token = msgspec.convert({**tree, **dict.fromkeys(values), "sampling": {}}, cls, strict=True)
        except msgspec.ValidationError as error:
            raise _bad(str(error)[:200]) from None
        if type(values["sampling"]) is not dict:
            raise _bad("sampling is no object")
        token = msgspec.structs.replace(token, **values)
        check_members(token)
        return token


_REQUIRED = frozenset(ReplayToken.__struct_fields__) - {"artifacts"}
_HINT = "Get the receipt again from whoever issued it."


def _bad(message: str, code: str = "bad_token") -> Damaged:
    return Damaged(f"not a receipt: {message}", code=code, hint=_HINT)


def hash_of(tree: Any) -> str:
    """The hash of inputs or outputs as the codec writes them."""
    return render(value_digest(canonical_bytes(tree)))


def own_hash(token: ReplayToken) -> str:
    hashed = {name: value for name, value in token.members().items() if name not in _NOT_HASHED}
    return render(sha256(_TAG + canonical_bytes(hashed)).digest())


def sealed(token: ReplayToken) -> ReplayToken:
    """The receipt with all its hashes, after a look at what nobody may put into one."""
    replace = msgspec.structs.replace
    token = replace(token, inputs_hash=hash_of(token.inputs), outputs_hash=hash_of(token.outputs))
    token = replace(token, token_hash=own_hash(token))
    check_members(token)
    return token


def check_members(token: ReplayToken) -> None:
    """`Damaged` names the member. Whatever passes here can be hashed, written and kept."""
    if not is_name(token.namespace) or not is_name(token.flow):
        raise _bad("namespace and flow are 1 to 128 characters of A-Z a-z 0-9 . _ : -")
    if not token.effect_name.strip() or len(token.effect_name) > MAX_TEXT or len(token.model_version) > MAX_TEXT:
        raise _bad(f"the name of the effect is missing, or a name has more than {MAX_TEXT} characters")
    if not 0 <= token.time <= MAX_TIME:
        raise _bad("the time is whole microseconds since 1970, below 2^53")
    if not _NONCE.match(token.nonce):
        raise _bad("the nonce has 32 lower-case hex digits")
    if len(token.tags) > MAX_TAGS or any(len(text) > MAX_TEXT for pair in token.tags.items() for text in pair):
        raise _bad(f"there are at most {MAX_TAGS} tags of at most {MAX_TEXT} characters")
    hashes = [token.inputs_hash, token.outputs_hash, token.token_hash, token.previous, token.replaces]
    if token.place is not None:
        hashes += [token.place.header_hash, token.place.request_hash, token.place.answer_hash]
    try:
        for text in hashes:
            if text is not None:
                parse_hash(text)
        canonical_bytes(token.members())
    except InvalidValue as refused:
        raise _bad(refused.message, refused.code) from None
    for tree in (token.inputs, token.outputs, token.sampling):
        if any(name in _SHARING for name, _ in tags_in(tree)):
            # In a journal such a tag is read as a reference to what somebody else has recorded.
            raise _bad("it holds references that only a journal can resolve")


def tags_in(tree: Any) -> list[tuple[str, Any]]:
    """Every tag of an encoded tree, with what it holds."""
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


def artifacts_named(token: ReplayToken) -> set[str]:
    """The addresses of bytes that inputs and outputs name."""
    named = [
        content for tree in (token.inputs, token.outputs) for name, content in tags_in(tree) if name == "$artifact"
    ]
    return {content["digest"] for content in named if type(content) is dict and type(content.get("digest")) is str}


def _artifact_problems(token: ReplayToken) -> list[TokenProblem]:
    found = []
    named = artifacts_named(token) if token.artifacts else set()
    for digest, written in token.artifacts.items():
        try:
            data = b64decode(written, validate=True)
        except (BinasciiError, ValueError):
            data = None
        if data is None or b64encode(data).decode() != written or render(artifact_address(data)) != digest:
            found.append(TokenProblem("bad_artifact", "bytes that came along are not those that were recorded"))
        elif digest not in named:
            found.append(TokenProblem("unneeded_artifact", "bytes came along that the receipt does not name"))
    return found


def written_artifacts(artifacts: Mapping[bytes, bytes]) -> dict[str, str]:
    return {render(address): b64encode(data).decode() for address, data in artifacts.items()}
