"""Record a block as one run, without a decorator: `with onrecord.record("nightly"):`."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from onrecord.core.events import Completed, Failed
from onrecord.journal.journal import LEASE_SECONDS, Journal
from onrecord.runtime.api.origins import refuse_while_loading
from onrecord.runtime.api.policy import Policy
from onrecord.runtime.engine.context import current_lane
from onrecord.runtime.engine.execution import adopted, end_run, entered, install_hooks
from onrecord.runtime.engine.lease_keeper import keeper
from onrecord.runtime.engine.run import LiveRun
from onrecord.runtime.engine.stops import RunStopped
from onrecord.runtime.engine.stores import store_of
from onrecord.runtime.secrets.run_secrets import FACT as REDACTION_FACT
from onrecord.store.contract import Store

if TYPE_CHECKING:
    from onrecord.runtime.secrets.redaction import Redaction


@contextmanager
def record(
    name: str,
    *,
    run_id: str | None = None,
    store: Store | str | None = None,
    namespace: str = "default",
    policy: Policy | None = None,
    redact: Redaction | bool = False,
    strict: bool = False,
) -> Iterator[LiveRun]:
    """Record the block as a run, which ends with the block: completed, or failed with the block's own exception.

    A block cannot be executed again by itself, so such a run cannot be resumed. It can be read, verified and compared.
    With `strict`, a connection or process that would not be recorded is refused before it happens.
    Inside another run a block is part of that run, so that a replay of it executes nothing.
    """
    refuse_while_loading(name)
    if (lane := current_lane()) is not None:
        yield lane.run
        return
    install_hooks()
    facts: dict[str, Any] = {"recording": name}
    values: Sequence[str] = ()
    if redact:
        from onrecord.runtime.secrets.redaction import Redaction, parse_redaction  # a lazy import

        redaction = parse_redaction(redact) or Redaction()
        facts[REDACTION_FACT], values = redaction.to_fact(), redaction.values
    journal = Journal.create(store_of(store), run_id, namespace, facts=facts)
    run = LiveRun(journal, guard=policy.make_guard() if policy is not None else None)
    run.secrets.learn(values, None)
    run.is_strict = strict
    keeper.keep(run, LEASE_SECONDS)
    try:
        with _entered(run):
            yield run
    except RunStopped as stopped:
        raise run.stopped or stopped.reason from None
    except Exception as error:
        if run.stopped is None:
            end_run(run, Failed(error))
        raise
    except BaseException as interruption:
        run.interrupt(interruption)
        raise
    else:
        end_run(run, Completed())
    finally:
        keeper.let_go(run)
        journal.release()


@contextmanager
def _entered(run: LiveRun) -> Iterator[None]:
    """Let the current thread be the main strand of the run, or the current task of a running loop."""
    task = asyncio.current_task() if asyncio._get_running_loop() is not None else None
    if task is None:
        with run.lock:
            run.coordinator.start()
        with entered(run.coordinator.main):
            yield
        return
    with adopted(run.coordinator.main, task):
        yield
