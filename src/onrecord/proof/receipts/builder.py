"""Build receipts without a journal, for effects that another system executes and records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from onrecord.core.canonical import parse_stored, stored_bytes
from onrecord.core.codec import Encoded, encode
from onrecord.errors import Damaged, InvalidInput
from onrecord.journal.sources import Sources, SystemSources
from onrecord.proof.receipts.sampling_params import SamplingParams
from onrecord.proof.receipts.token import NONCE_BYTES, ReplayToken, Status, encode_artifacts, seal_token

_MISSING: Any = object()


class ReplayTokenBuilder:
    """Collect the members of a receipt, then `mint` it.

    Required: `effect_name`, `inputs`, and `outputs` or `error`. Defaults: no model version, no sampling parameters,
    time and nonce from the sources, namespace and flow `default`, no tags, first in its flow.
    """

    def __init__(self, *, sources: Sources | None = None) -> None:
        self._sources = sources or SystemSources()
        self._name = ""
        self._kind: str | None = None
        self._inputs = _MISSING
        self._outcome: tuple[Status, Any] | None = None
        self._model_version = ""
        self._sampling = SamplingParams()
        self._time: int | None = None
        self._nonce: bytes | None = None
        self._namespace = self._flow = "default"
        self._tags: dict[str, str] = {}
        self._previous: str | None = None
        self._replaces: str | None = None

    def effect_name(self, name: str) -> ReplayTokenBuilder:
        self._name = name
        return self

    def effect_kind(self, kind: str | None) -> ReplayTokenBuilder:
        self._kind = kind
        return self

    def inputs(self, value: Any) -> ReplayTokenBuilder:
        self._inputs = value
        return self

    def outputs(self, value: Any) -> ReplayTokenBuilder:
        self._outcome = ("succeeded", value)
        return self

    def error(self, error: BaseException) -> ReplayTokenBuilder:
        """Set the outcome to this error."""
        self._outcome = ("failed", error)
        return self

    def model_version(self, version: str) -> ReplayTokenBuilder:
        self._model_version = version
        return self

    def sampling(self, sampling: SamplingParams) -> ReplayTokenBuilder:
        self._sampling = sampling
        return self

    def time(self, microseconds: int) -> ReplayTokenBuilder:
        """Set the time in whole microseconds since 1970, which is both stored and hashed."""
        if type(microseconds) is not int:
            raise InvalidInput("a receipt's time is whole microseconds since 1970", code="bad_time")
        self._time = microseconds
        return self

    def nonce(self, nonce: bytes) -> ReplayTokenBuilder:
        if len(nonce) != NONCE_BYTES:
            raise InvalidInput(f"a nonce has {NONCE_BYTES} bytes", code="bad_nonce")
        self._nonce = nonce
        return self

    def namespace(self, namespace: str) -> ReplayTokenBuilder:
        self._namespace = namespace
        return self

    def flow(self, flow: str) -> ReplayTokenBuilder:
        self._flow = flow
        return self

    def tags(self, tags: Mapping[str, str]) -> ReplayTokenBuilder:
        self._tags = dict(tags)
        return self

    def after(self, token: ReplayToken | str | None) -> ReplayTokenBuilder:
        """Set the previous receipt of the flow; None for the first."""
        self._previous = token.token_hash if isinstance(token, ReplayToken) else token
        return self

    def replaces(self, token: ReplayToken | str | None) -> ReplayTokenBuilder:
        self._replaces = token.token_hash if isinstance(token, ReplayToken) else token
        return self

    def mint(self) -> ReplayToken:
        if not self._name.strip():
            raise _missing("the name of the effect", "effect_name")
        if self._inputs is _MISSING:
            raise _missing("its inputs", "inputs")
        if self._outcome is None:
            raise _missing("its outputs, or its error", "outputs")
        inputs, outputs = encode(self._inputs), encode(self._outcome[1])
        try:
            return seal_token(self._unsealed(self._outcome[0], inputs, outputs))
        except Damaged as refused:  # the caller gave values that a receipt cannot hold
            raise InvalidInput(refused.message, code=refused.code) from None

    def _unsealed(self, status: Status, inputs: Encoded, outputs: Encoded) -> ReplayToken:
        return ReplayToken(
            namespace=self._namespace,
            flow=self._flow,
            effect_name=self._name,
            effect_kind=self._kind,
            status=status,
            inputs=_copy_tree(inputs),
            inputs_hash="",
            outputs=_copy_tree(outputs),
            outputs_hash="",
            model_version=self._model_version,
            sampling=_copy_tree(encode(self._sampling.to_data())),
            time=self._sources.now_us() if self._time is None else self._time,
            nonce=(self._sources.entropy(NONCE_BYTES) if self._nonce is None else self._nonce).hex(),
            previous=self._previous,
            replaces=self._replaces,
            tags=self._tags,
            place=None,
            artifacts=encode_artifacts({**inputs.artifacts, **outputs.artifacts}),
        )


def _missing(what: str, method: str) -> InvalidInput:
    return InvalidInput(f"a receipt needs {what}", hint=f"Call {method}() before mint().", code=f"missing_{method}")


def _copy_tree(encoded: Encoded) -> Any:
    """Return a copy of the tree, so that the caller cannot change the receipt later."""
    return parse_stored(stored_bytes(encoded.tree) if encoded.stored is None else encoded.stored)
