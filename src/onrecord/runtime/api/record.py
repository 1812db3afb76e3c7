"""Record a block as one run, without a decorator: `with onrecord.record("nightly"):`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from onrecord.core.events import Completed, Failed
from onrecord.journal.journal import LEASE_SECONDS, Journal
from onrecord.runtime.api.origins import refuse_while_loading
from onrecord.runtime.api.policy import Policy
from onrecord.runtime.engine.context import HERE, PLACE
from onrecord.runtime.engine.lease_keeper import keeper
from onrecord.runtime.engine.run import LiveRun
from onrecord.runtime.engine.stops import RunStopped, Suspended
from onrecord.runtime.engine.stores import store_of
from onrecord.runtime.replay.checkpoint_entry import Carrier
from onrecord.runtime.scheduler import thread_driver
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
) -> Iterator[LiveRun]:
    """Record the block as a run, which ends with the block: completed, or failed with the block's own exception.

    A block cannot be executed again by itself, so such a run cannot be resumed. It can be read, verified and compared.
    """
    refuse_while_loading(name)
    thread_driver.install()
    facts: dict[str, Any] = {"recording": name}
    values: Sequence[str] = ()
    if redact:
        from onrecord.runtime.secrets.redaction import Redaction, parse_redaction  # a lazy import

        redaction = parse_redaction(redact) or Redaction()
        facts[REDACTION_FACT], values = redaction.to_fact(), redaction.values
    journal = Journal.create(store_of(store), run_id, namespace, facts=facts)
    run = LiveRun(journal, guard=policy.make_guard() if policy is not None else None)
    run.secrets.learn(values, None)
    keeper.keep(run, LEASE_SECONDS)
    place, token = PLACE.set(run.main), HERE.token
    run.carrier = Carrier.here()
    HERE.token = None
    try:
        yield run
    except RunStopped as stopped:
        raise stopped.reason from None
    except Exception as error:
        if run.stopped is None:
            run.end(Failed(error))
        raise
    except BaseException as interruption:
        run.stop(Suspended(f"run {run.name} was interrupted ({type(interruption).__name__})"))
        raise
    else:
        if run.stopped is not None:
            raise run.stopped
        run.end(Completed())
    finally:
        PLACE.reset(place)
        HERE.token = token
        run.turns.rests(run.main_token)
        keeper.let_go(run)
        journal.release()
