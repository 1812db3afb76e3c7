"""Receipts that come from no journal: for effects that somebody else carries out and records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reenact.core.canonical import parse_stored, stored_bytes
from reenact.core.codec import Encoded, encode
from reenact.errors import Damaged, InvalidInput
from reenact.journal.sources import Sources, SystemSources
from reenact.tokens.sampling import SamplingParams
from reenact.tokens.token import NONCE_BYTES, ReplayToken, Status, sealed, written_artifacts

_MISSING: Any = object()


class ReplayTokenBuilder:
    """Collects what a receipt says, then `mint`s it.

    Required: `effect_name`, `inputs`, and `outputs` or `error`. Otherwise: model version empty, sampling left to the
    provider, time and nonce from the sources, namespace and flow `default`, no tags, first in its flow.
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
        """The effect failed: its error is what came of it."""
        self._outcome = ("failed", error)
        return self

    def model_version(self, version: str) -> ReplayTokenBuilder:
        self._model_version = version
        return self

    def sampling(self, sampling: SamplingParams) -> ReplayTokenBuilder:
        self._sampling = sampling
        return self

    def time(self, microseconds: int) -> ReplayTokenBuilder:
        """Whole microseconds since 1970: what is hashed is what is stored."""
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
        """The receipt before this one in its flow; None for the first."""
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
            return sealed(self._unsealed(self._outcome[0], inputs, outputs))
        except Damaged as refused:  # nobody has damaged anything: the caller gave what no receipt can hold
            raise InvalidInput(refused.message, code=refused.code) from None

    def _unsealed(self, status: Status, inputs: Encoded, outputs: Encoded) -> ReplayToken:
        return ReplayToken(
            namespace=self._namespace,
            flow=self._flow,
            effect_name=self._name,
            effect_kind=self._kind,
            status=status,
            inputs=_own(inputs),
            inputs_hash="",
            outputs=_own(outputs),
            outputs_hash="",
            model_version=self._model_version,
            sampling=_own(encode(self._sampling.to_data())),
            time=self._sources.now_us() if self._time is None else self._time,
            nonce=(self._sources.entropy(NONCE_BYTES) if self._nonce is None else self._nonce).hex(),
            previous=self._previous,
            replaces=self._replaces,
            tags=self._tags,
            place=None,
            artifacts=written_artifacts({**inputs.artifacts, **outputs.artifacts}),
        )


def _missing(what: str, method: str) -> InvalidInput:
    return InvalidInput(f"a receipt needs {what}", hint=f"Call {method}() before mint().", code=f"missing_{method}")


def _own(encoded: Encoded) -> Any:
    """A tree that nobody else holds: what the caller does to its values later must not change the receipt."""
    return parse_stored(stored_bytes(encoded.tree) if encoded.stored is None else encoded.stored)
