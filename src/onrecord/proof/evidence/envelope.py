"""The signed envelope: DSSE (v1), in exactly one spelling.

The signature covers the pre-authentication encoding: the type and the payload, each after its length. So a signature
is valid for one payload of one type, however the envelope is written. Only one spelling is accepted all the same
(compact, members in this order, canonical base64), so that every changed bit of a bundle is detected.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from binascii import Error as BinasciiError
from typing import Any, NamedTuple

from onrecord.core.canonical import stored_bytes
from onrecord.core.strict_json import read_strict
from onrecord.errors import InvalidValue
from onrecord.proof.evidence.problems import FlawError
from onrecord.proof.evidence.public_keys import SIGNATURE_BYTES, PublicKey

PAYLOAD_TYPE = "application/vnd.onrecord.evidence.v1+json"
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
    envelope = _parse_envelope(tree)
    if write_envelope(envelope) != line:
        raise FlawError("bad_envelope", "the envelope is not written in the form that the format prescribes")
    if envelope.payload_type != PAYLOAD_TYPE:
        raise FlawError("wrong_payload_type", "the signed payload is not evidence")
    if not envelope.signatures:
        raise FlawError("unsigned", "the envelope has no signature")
    if len({key for key, _ in envelope.signatures}) != len(envelope.signatures):
        raise FlawError("duplicate_signature", "the envelope has two signatures of one key")
    return envelope


def _parse_envelope(tree: Any) -> Envelope:
    if type(tree) is not dict or set(tree) != {"payload", "payloadType", "signatures"}:
        raise FlawError("bad_envelope", "the envelope does not have exactly payload, payloadType and signatures")
    items = tree["signatures"]
    if type(tree["payloadType"]) is not str or type(items) is not list:
        raise FlawError("bad_envelope", "a member of the envelope has the wrong type")
    if len(items) > MAX_SIGNATURES:
        raise FlawError("too_many_signatures", f"there are more than {MAX_SIGNATURES} signatures")
    signatures = []
    for one in items:
        if type(one) is not dict or set(one) != {"keyid", "sig"} or type(one["keyid"]) is not str:
            raise FlawError("bad_envelope", "a signature does not have exactly keyid and sig")
        signatures.append((one["keyid"], _decode_base64(one["sig"])))
    return Envelope(_decode_base64(tree["payload"]), tree["payloadType"], signatures)


def _decode_base64(text: Any) -> bytes:
    try:
        return b64decode(text, validate=True)
    except (BinasciiError, ValueError, TypeError):
        raise FlawError("bad_envelope", "a member of the envelope is not base64") from None


def verified_signers(envelope: Envelope, keys: dict[str, PublicKey]) -> list[PublicKey]:
    """Return the trusted keys with a valid signature, at least one.

    Signatures of unknown keys are ignored. An invalid signature of a trusted key makes the whole envelope invalid: it
    was altered.
    """
    data = pre_authentication_encoding(envelope.payload_type, envelope.payload)
    signers = []
    for key_id, signature in envelope.signatures:
        key = keys.get(key_id)
        if key is None:
            continue
        if len(signature) != SIGNATURE_BYTES or not key.verifies(signature, data):
            raise FlawError("bad_signature", f"the signature of key {key_id} is not valid")
        signers.append(key)
    if not signers:
        key_ids = ", ".join(key_id[:80] for key_id, _ in envelope.signatures[:3])
        raise FlawError("unknown_key", f"it is signed only by keys that are not trusted here: {key_ids}")
    return signers
