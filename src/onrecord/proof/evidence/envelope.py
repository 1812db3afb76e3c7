"""The signed envelope: DSSE (v1), in exactly one spelling.

What is signed is not the JSON but its pre-authentication encoding: the type and the payload, each behind its length.
So a signature is good for one payload of one type, however the envelope is spelled. We still accept one spelling only
(compact, members in this order, canonical base64), so that no bit of a bundle can change unseen.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from binascii import Error as BinasciiError
from typing import Any, NamedTuple

from reenact.core.canonical import stored_bytes
from reenact.core.strict_json import read_strict
from reenact.errors import InvalidValue
from reenact.replays.evidence.problems import FlawError
from reenact.replays.evidence.public_keys import SIGNATURE_BYTES, PublicKey

PAYLOAD_TYPE = "application/vnd.reenact.evidence.v1+json"
MAX_ENVELOPE_BYTES = 4 * 1024 * 1024
MAX_SIGNATURES = 16


class Envelope(NamedTuple):
    payload: bytes
    payload_type: str
    signatures: list[tuple[str, bytes]]
    """(key id, signature)"""


def pre_authentication_encoding(payload_type: str, payload: bytes) -> bytes:
    kind = payload_type.encode()
    return b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload)


def write_envelope(envelope: Envelope) -> bytes:
    return stored_bytes(
        {
            "payload": b64encode(envelope.payload).decode(),
            "payloadType": envelope.payload_type,
            "signatures": [{"keyid": key, "sig": b64encode(sig).decode()} for key, sig in envelope.signatures],
        }
    )


def read_envelope(line: bytes) -> Envelope:
    try:
        tree = read_strict(line, max_bytes=MAX_ENVELOPE_BYTES, max_depth=8)
    except InvalidValue as refused:
        code = refused.code if refused.code in ("duplicate_key", "too_large") else "bad_envelope"
        raise FlawError(code, f"the first line is not an envelope: {refused.message}") from None
    envelope = _from_tree(tree)
    if write_envelope(envelope) != line:
        raise FlawError("bad_envelope", "the envelope is not spelled as the format says")
    if envelope.payload_type != PAYLOAD_TYPE:
        raise FlawError("wrong_payload_type", "what is signed is something else than evidence")
    if not envelope.signatures:
        raise FlawError("unsigned", "nobody has signed it")
    if len({key for key, _ in envelope.signatures}) != len(envelope.signatures):
        raise FlawError("duplicate_signature", "one key has signed twice")
    return envelope


def _from_tree(tree: Any) -> Envelope:
    if type(tree) is not dict or set(tree) != {"payload", "payloadType", "signatures"}:
        raise FlawError("bad_envelope", "an envelope has payload, payloadType and signatures")
    written = tree["signatures"]
    if type(tree["payloadType"]) is not str or type(written) is not list:
        raise FlawError("bad_envelope", "a member of the envelope has another type than it should")
    if len(written) > MAX_SIGNATURES:
        raise FlawError("too_many_signatures", f"there are more than {MAX_SIGNATURES} signatures")
    signatures = []
    for one in written:
        if type(one) is not dict or set(one) != {"keyid", "sig"} or type(one["keyid"]) is not str:
            raise FlawError("bad_envelope", "a signature has keyid and sig")
        signatures.append((one["keyid"], _base64(one["sig"])))
    return Envelope(_base64(tree["payload"]), tree["payloadType"], signatures)


def _base64(text: Any) -> bytes:
    try:
        return b64decode(text, validate=True)
    except (BinasciiError, ValueError, TypeError):
        raise FlawError("bad_envelope", "a member of the envelope is not base64") from None


def verified_signers(envelope: Envelope, keys: dict[str, PublicKey]) -> list[PublicKey]:
    """The keys whose signature holds: at least one.

    A signature under a key that is not known is left aside. One under a known key that does not hold condemns the
    whole: somebody has altered something.
    """
    data = pre_authentication_encoding(envelope.payload_type, envelope.payload)
    signers = []
    for key_id, signature in envelope.signatures:
        key = keys.get(key_id)
        if key is None:
            continue
        if len(signature) != SIGNATURE_BYTES or not key.verifies(signature, data):
            raise FlawError("bad_signature", f"the signature under key {key_id} does not hold")
        signers.append(key)
    if not signers:
        named = ", ".join(key_id[:80] for key_id, _ in envelope.signatures[:3])
        raise FlawError("unknown_key", f"it is signed under keys that are not trusted here: {named}")
    return signers
