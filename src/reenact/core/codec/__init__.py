"""Python values to plain JSON trees and back, without losing what they were or naming code to run."""

from reenact.core.codec.decode import decode
from reenact.core.codec.encode import ARTIFACT_BYTES, Encoded, encode
from reenact.core.codec.json_text import encode_json_text
from reenact.core.codec.registry import Registry, default_registry, label_of, register_type
from reenact.core.codec.standins import Erased, NonReplayable, Plain, RecordedError, UnknownTag

__all__ = [
    "ARTIFACT_BYTES",
    "Encoded",
    "Erased",
    "NonReplayable",
    "Plain",
    "RecordedError",
    "Registry",
    "UnknownTag",
    "decode",
    "default_registry",
    "encode",
    "encode_json_text",
    "label_of",
    "register_type",
]
