"""Execute the effect of a receipt again and judge whether the outcome is the same.

A generator decides (`_replay_effect`): it yields a call and receives the outcome (`runtime.engine.invokers`).

Rules:

1. A receipt that does not verify is never executed: its claims are not true.
2. An error is an outcome. It is compared like an output, and the other results are kept.
3. An effect without a value to compare is `not_replayable`, which is neither a match nor a divergence.
4. Another model is called only on request (`model=`). Then every effect gets a new receipt, which names the old one.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any, NamedTuple

from onrecord.core.canonical import parse_stored, stored_bytes
from onrecord.core.codec import encode
from onrecord.errors import Damaged, InvalidInput, InvalidValue
from onrecord.journal.sources import Sources, SystemSources
from onrecord.proof.receipts.builder import ReplayTokenBuilder
from onrecord.proof.receipts.chain import check_chain
from onrecord.proof.receipts.log import ReplayLog
from onrecord.proof.receipts.results import FlowReplay, TokenReplay, Verdict
from onrecord.proof.receipts.sampling_params import SamplingParams
from onrecord.proof.receipts.token import ERASED, ReplayToken, Status, find_tags, hash_of
from onrecord.runtime.engine.invokers import CameOfIt, EffectInvoker, drive, drive_async
from onrecord.runtime.engine.stops import NotReplayable

_WITHOUT_VALUE = frozenset({"$opaque", "$erased", "$secret"})


class _TokenCall(NamedTuple):
    name: str
    inputs: Any
    model: str
    sampling: SamplingParams


class _Terms(NamedTuple):
    """Terms of a replay, as the caller gave them."""

    log: ReplayLog | None
    model: str | None
    into: str | None
    trusted: bool
    sources: Sources | None


class _TokenOptions(NamedTuple):
    model: str | None
    into: str
    sources: Sources
    trusted: bool
    artifact: Callable[[bytes], bytes] | None


_Decisions = Generator[_TokenCall, CameOfIt, TokenReplay]


def replay_token(
    token: ReplayToken | str,
    invoker: EffectInvoker,
    *,
    log: ReplayLog | None = None,
    model: str | None = None,
    into: str | None = None,
    trusted: bool = False,
    sources: Sources | None = None,
) -> TokenReplay:
    """Execute one effect again. If `token` is a hash, the receipt is read from `log`.

    `trusted` marks the caller's own receipt: its inputs may be restored to loaded classes. `into` is the flow of the
    new receipt if another `model` is called.
    """
    found, options = _prepare(token, _Terms(log, model, into, trusted, sources))
    return drive(_replay_effect(found, options, None), invoker)


async def replay_token_async(
    token: ReplayToken | str,
    invoker: EffectInvoker,
    *,
    log: ReplayLog | None = None,
    model: str | None = None,
    into: str | None = None,
    trusted: bool = False,
    sources: Sources | None = None,
) -> TokenReplay:
    found, options = _prepare(token, _Terms(log, model, into, trusted, sources))
    return await drive_async(_replay_effect(found, options, None), invoker)


def replay_flow(
    log: ReplayLog,
    flow: str,
    invoker: EffectInvoker,
    *,
    collect_all: bool = False,
    model: str | None = None,
    into: str | None = None,
    trusted: bool = False,
    sources: Sources | None = None,
) -> FlowReplay:
    """Execute a flow again in order, up to the first divergence; with `collect_all`, to its end."""
    run = _Flow(log, flow, _Terms(log, model, into, trusted, sources), collect_all)
    while (decisions := run.next()) is not None:
        run.take(drive(decisions, invoker))
    return run.result()


async def replay_flow_async(
    log: ReplayLog,
    flow: str,
    invoker: EffectInvoker,
    *,
    collect_all: bool = False,
    model: str | None = None,
    into: str | None = None,
    trusted: bool = False,
    sources: Sources | None = None,
) -> FlowReplay:
    run = _Flow(log, flow, _Terms(log, model, into, trusted, sources), collect_all)
    while (decisions := run.next()) is not None:
        run.take(await drive_async(decisions, invoker))
    return run.result()


def _prepare(token: ReplayToken | str, terms: _Terms) -> tuple[ReplayToken, _TokenOptions]:
    if isinstance(token, str):
        if terms.log is None:
            raise InvalidInput("a receipt's hash needs a log to read it from", hint="Give log=.", code="no_log")
        token = terms.log.get(token)
    return token, _make_options([token], token.flow, terms)


def _make_options(tokens: Sequence[ReplayToken], flow: str, terms: _Terms) -> _TokenOptions:
    log, model, into, trusted, _ = terms
    sources = terms.sources or SystemSources()
    if model is not None and not any(token.model_version for token in tokens):
        raise InvalidInput(
            "no model was called here, so there is no model to replace", hint="Leave model= out.", code="no_model"
        )
    if model is not None and into is None:
        into = f"{flow[:100]}.{sources.entropy(6).hex()}"
    return _TokenOptions(model, into or flow, sources, trusted, None if log is None else log.artifact)


class _Flow:
    """A flow during its replay: the results so far, and the next receipt."""

    def __init__(self, log: ReplayLog, flow: str, terms: _Terms, collect_all: bool) -> None:
        self._flow = flow
        self._tokens = log.tokens_for_flow(flow)
        self._options = _make_options(self._tokens, flow, terms)
        self._collect_all = collect_all
        self._results: list[TokenReplay] = []
        self._last_new: str | None = None
        self._stopped = False

    def next(self) -> _Decisions | None:
        if self._stopped or len(self._results) == len(self._tokens):
            return None
        return _replay_effect(self._tokens[len(self._results)], self._options, self._last_new)

    def take(self, result: TokenReplay) -> None:
        self._results.append(result)
        if result.new_token is not None:
            self._last_new = result.new_token.token_hash
        broken = result.verdict in (Verdict.DIVERGED, Verdict.INVALID_TOKEN)
        self._stopped = broken and not self._collect_all and len(self._results) < len(self._tokens)

    def result(self) -> FlowReplay:
        return FlowReplay(self._flow, len(self._tokens), self._results, check_chain(self._tokens), self._stopped)


def _replay_effect(token: ReplayToken, options: _TokenOptions, after: str | None) -> _Decisions:
    """Yield the call if the effect can be executed, and judge its outcome."""
    for problem in token.problems():
        return _result(token, Verdict.INVALID_TOKEN, problem.code, problem.message)
    if token.status == "denied":
        return _result(token, Verdict.NOT_REPLAYABLE, "effect_denied", "policy denied it, so it was never executed")
    # An error may hold a client among its attributes: it is compared as it was recorded.
    outputs = token.outputs if token.status == "succeeded" or token.outputs == ERASED else None
    for side, tree in (("inputs", token.inputs), ("outputs", outputs)):
        if any(name in _WITHOUT_VALUE for name, _ in find_tags(tree)):
            return _result(token, Verdict.NOT_REPLAYABLE, f"{side}_without_value", f"its {side} are not complete")
    try:
        # A copy, so that the invoker cannot change the receipt.
        inputs = token.decoded(parse_stored(stored_bytes(token.inputs)), **_decoding_options(options))
    except Damaged as damage:
        return _result(token, Verdict.NOT_REPLAYABLE, damage.code, damage.message)
    model = options.model if options.model is not None and token.model_version else token.model_version
    outcome = yield _TokenCall(token.effect_name, inputs, model, token.sampling_params)
    if isinstance(outcome.error, NotReplayable):
        return _result(token, Verdict.NOT_REPLAYABLE, outcome.error.code, outcome.error.message)
    return _judge(token, outcome, options, after, model)


def _decoding_options(options: _TokenOptions) -> dict[str, Any]:
    return {"trusted": options.trusted, "artifact": options.artifact}


def _judge(token: ReplayToken, outcome: CameOfIt, options: _TokenOptions, after: str | None, model: str) -> TokenReplay:
    status: Status = "succeeded" if outcome.error is None else "failed"
    actual = outcome.value if outcome.error is None else outcome.error
    try:
        encoded = encode(actual)
    except InvalidValue as problem:  # e.g. the value contains itself
        return _result(
            token, Verdict.NOT_REPLAYABLE, problem.code, problem.message, actual=actual, actual_status=status
        )
    more: dict[str, Any] = {
        "actual_hash": hash_of(encoded.tree),
        "actual": actual,
        "actual_status": status,
        "model": options.model if model != token.model_version else None,
    }
    if options.model is not None:
        more["new_token"] = _new_receipt(token, outcome, options, after, model)
    if outcome.error is None and not encoded.replayable:
        return _result(token, Verdict.NOT_REPLAYABLE, "actual_without_value", "the new outcome is not complete", **more)
    if status != token.status:
        reason = "effect_failed" if status == "failed" else "effect_succeeded"
        return _result(token, Verdict.DIVERGED, reason, f"it {token.status} then and {status} now", **more)
    if more["actual_hash"] == token.outputs_hash:
        return _result(token, Verdict.MATCH, "same_outcome", "the outcome is the same", **more)
    reason = "output_differs" if status == "succeeded" else "error_differs"
    return _result(token, Verdict.DIVERGED, reason, "the outcome differs", **more)


def _result(token: ReplayToken, verdict: Verdict, reason: str, message: str, **more: Any) -> TokenReplay:
    return TokenReplay(
        token.token_hash,
        token.effect_name,
        verdict,
        reason,
        message,
        token.outputs_hash,
        expected_status=token.status,
        **more,
    )


def _new_receipt(
    token: ReplayToken, outcome: CameOfIt, options: _TokenOptions, after: str | None, model: str
) -> ReplayToken:
    builder = (
        ReplayTokenBuilder(sources=options.sources)
        .effect_name(token.effect_name)
        .effect_kind(token.effect_kind)
        .inputs(token.decoded(token.inputs, **_decoding_options(options)))
        .model_version(model)
        .sampling(token.sampling_params)
        .namespace(token.namespace)
        .flow(options.into)
        .tags(token.tags)
        .after(after)
        .replaces(token)
    )
    return (builder.outputs(outcome.value) if outcome.error is None else builder.error(outcome.error)).mint()
