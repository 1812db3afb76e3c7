"""The codec: Python values to plain JSON trees and back. It keeps their types; data never names code to run."""

from onrecord.core.codec.decode import decode
from onrecord.core.codec.encode import ARTIFACT_BYTES, Encoded, encode
from onrecord.core.codec.json_text import encode_json_text
from onrecord.core.codec.registry import Registry, default_registry, label_of, register_type
from onrecord.core.codec.unresolved import Erased, NonReplayable, Plain, RecordedError, UnknownTag

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
