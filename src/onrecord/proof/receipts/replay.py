"""Doing the effect of a receipt again, and saying whether the same came of it.

What decides is one generator (`_deciding`): it asks for a call and is handed what came of it (`effect.invokers`).
(One of the systems that this goes back to calls the executor of receipts `ReplayExecutor` and its result
`ReplayOutcome`; another uses the same names for whole runs. Here they are `replay_token`, `replay_flow` and
`TokenReplay`, `FlowReplay`.)

Rules:

1. A receipt that does not verify is never carried out: what it says was done was not.
2. An error is something that can come of an effect. It is compared like an output, and loses nobody else's result.
3. What has no value to compare is `not_replayable`, which is neither a match nor a divergence.
4. Another model is asked only on purpose (`model=`). Then every effect gets a new receipt, which names the old one.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any, NamedTuple

from reenact.core.canonical import parse_stored, stored_bytes
from reenact.core.codec import encode
from reenact.effect.invokers import CameOfIt, EffectInvoker, drive, drive_async
from reenact.effect.stopping import NotReplayable
from reenact.errors import Damaged, InvalidInput, InvalidValue
from reenact.journal.sources import Sources, SystemSources
from reenact.tokens.building import ReplayTokenBuilder
from reenact.tokens.chain import check_chain
from reenact.tokens.log import ReplayLog
from reenact.tokens.results import FlowReplay, TokenReplay, Verdict
from reenact.tokens.sampling import SamplingParams
from reenact.tokens.token import ERASED, ReplayToken, Status, hash_of, tags_in

_WITHOUT_VALUE = frozenset({"$opaque", "$erased", "$secret"})


class _Call(NamedTuple):
    name: str
    inputs: Any
    model: str
    sampling: SamplingParams


class _Options(NamedTuple):
    model: str | None
    into: str
    sources: Sources
    trusted: bool
    artifact: Callable[[bytes], bytes] | None


_Deciding = Generator[_Call, CameOfIt, TokenReplay]


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
    """Does one effect again. A hash instead of a receipt is looked up in `log`.

    `trusted`: the receipt is one's own, so classes that are loaded may come back in its inputs. `into` is the flow of
    the new receipt when another `model` is asked.
    """
    found, options = _prepared(token, log, model, into, trusted, sources)
    return drive(_deciding(found, options, None), invoker)


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
    found, options = _prepared(token, log, model, into, trusted, sources)
    return await drive_async(_deciding(found, options, None), invoker)


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
    """Does a flow again in its order, up to the first divergence; with `collect_all`, to its end."""
    run = _Flow(log, flow, model, into, trusted, sources, collect_all)
    while (deciding := run.next()) is not None:
        run.take(drive(deciding, invoker))
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
    run = _Flow(log, flow, model, into, trusted, sources, collect_all)
    while (deciding := run.next()) is not None:
        run.take(await drive_async(deciding, invoker))
    return run.result()


# Deciding


def _prepared(
    token: ReplayToken | str,
    log: ReplayLog | None,
    model: str | None,
    into: str | None,
    trusted: bool,
    sources: Sources | None,
) -> tuple[ReplayToken, _Options]:
    if isinstance(token, str):
        if log is None:
            raise InvalidInput("a receipt's hash is looked up in a log", hint="Give log=.", code="no_log")
        token = log.get(token)
    return token, _options([token], token.flow, log, model, into, trusted, sources)


def _options(
    tokens: Sequence[ReplayToken],
    flow: str,
    log: ReplayLog | None,
    model: str | None,
    into: str | None,
    trusted: bool,
    sources: Sources | None,
) -> _Options:
    sources = sources or SystemSources()
    if model is not None and not any(token.model_version for token in tokens):
        raise InvalidInput(
            "no model was asked here, so there is none to ask another in its place of",
            hint="Leave model= out.",
            code="no_model",
        )
    if model is not None and into is None:
        into = f"{flow[:100]}.{sources.entropy(6).hex()}"
    return _Options(model, into or flow, sources, trusted, None if log is None else log.artifact)


class _Flow:
    """A flow on its way: which receipt is next, and what came of those before."""

    def __init__(
        self,
        log: ReplayLog,
        flow: str,
        model: str | None,
        into: str | None,
        trusted: bool,
        sources: Sources | None,
        collect_all: bool,
    ) -> None:
        self._flow = flow
        self._tokens = log.tokens_for_flow(flow)
        self._options = _options(self._tokens, flow, log, model, into, trusted, sources)
        self._collect_all = collect_all
        self._results: list[TokenReplay] = []
        self._last_new: str | None = None
        self._stopped = False

    def next(self) -> _Deciding | None:
        if self._stopped or len(self._results) == len(self._tokens):
            return None
        return _deciding(self._tokens[len(self._results)], self._options, self._last_new)

    def take(self, result: TokenReplay) -> None:
        self._results.append(result)
        if result.new_token is not None:
            self._last_new = result.new_token.token_hash
        broken = result.verdict in (Verdict.DIVERGED, Verdict.INVALID_TOKEN)
        self._stopped = broken and not self._collect_all and len(self._results) < len(self._tokens)

    def result(self) -> FlowReplay:
        return FlowReplay(self._flow, len(self._tokens), self._results, check_chain(self._tokens), self._stopped)


def _deciding(token: ReplayToken, options: _Options, after: str | None) -> _Deciding:
    """Asks for the call if there is one to make, and judges what came of it."""
    for problem in token.problems():
        return _result(token, Verdict.INVALID_TOKEN, problem.code, problem.message)
    if token.status == "denied":
        return _result(token, Verdict.NOT_REPLAYABLE, "effect_denied", "policy denied it, so nothing was done")
    # A client on an error's attributes does not unmake the error: it is compared as it was recorded.
    outputs = token.outputs if token.status == "succeeded" or token.outputs == ERASED else None
    for side, tree in (("inputs", token.inputs), ("outputs", outputs)):
        if any(name in _WITHOUT_VALUE for name, _ in tags_in(tree)):
            return _result(token, Verdict.NOT_REPLAYABLE, f"{side}_without_value", f"its {side} have no whole value")
    try:
        # A copy: whatever the invoker does to its inputs, the receipt stays as it is.
        inputs = token.decoded(parse_stored(stored_bytes(token.inputs)), **_opening(options))
    except Damaged as damage:
        return _result(token, Verdict.NOT_REPLAYABLE, damage.code, damage.message)
    model = options.model if options.model is not None and token.model_version else token.model_version
    came = yield _Call(token.effect_name, inputs, model, token.sampling_params)
    if isinstance(came.error, NotReplayable):
        return _result(token, Verdict.NOT_REPLAYABLE, came.error.code, came.error.message)
    return _judged(token, came, options, after, model)


def _opening(options: _Options) -> dict[str, Any]:
    return {"trusted": options.trusted, "artifact": options.artifact}


def _judged(token: ReplayToken, came: CameOfIt, options: _Options, after: str | None, model: str) -> TokenReplay:
    status: Status = "succeeded" if came.error is None else "failed"
    actual = came.value if came.error is None else came.error
    try:
        encoded = encode(actual)
    except InvalidValue as problem:  # it contains itself
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
        more["new_token"] = _new_receipt(token, came, options, after, model)
    if came.error is None and not encoded.replayable:
        return _result(
            token, Verdict.NOT_REPLAYABLE, "actual_without_value", "what came now has no whole value", **more
        )
    if status != token.status:
        reason = "effect_failed" if status == "failed" else "effect_succeeded"
        return _result(token, Verdict.DIVERGED, reason, f"it {token.status} then and {status} now", **more)
    if more["actual_hash"] == token.outputs_hash:
        return _result(token, Verdict.MATCH, "same_outcome", "the same came of it", **more)
    reason = "output_differs" if status == "succeeded" else "error_differs"
    return _result(token, Verdict.DIVERGED, reason, "something else came of it", **more)


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


def _new_receipt(token: ReplayToken, came: CameOfIt, options: _Options, after: str | None, model: str) -> ReplayToken:
    builder = (
        ReplayTokenBuilder(sources=options.sources)
        .effect_name(token.effect_name)
        .effect_kind(token.effect_kind)
        .inputs(token.decoded(token.inputs, **_opening(options)))
        .model_version(model)
        .sampling(token.sampling_params)
        .namespace(token.namespace)
        .flow(options.into)
        .tags(token.tags)
        .after(after)
        .replaces(token)
    )
    return (builder.outputs(came.value) if came.error is None else builder.error(came.error)).mint()
