"""`with reenact.record("nightly"):` — whatever happens inside is one run, without a decorator."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from reenact.core.events import Completed, Failed
from reenact.effect import threads
from reenact.effect.earlier import Carrier
from reenact.effect.keeping import keeper
from reenact.effect.live_run import LiveRun
from reenact.effect.open_stores import store_of
from reenact.effect.places import HERE, PLACE
from reenact.effect.policy import Policy
from reenact.effect.secrets import FACT as REDACTION_FACT
from reenact.effect.stopping import RunStopped, Suspended
from reenact.journal.journal import LEASE_SECONDS, Journal
from reenact.store.contract import Store

if TYPE_CHECKING:
    from reenact.effect.redacting import Redaction


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
    """Records the block as a run. It ends with the block: completed, or failed with the block's own exception.

    A block cannot be run again by itself, so such a run is not resumed; it can be read, verified and compared.
    """
    threads.install()
    facts: dict[str, Any] = {"recording": name}
    values: Sequence[str] = ()
    if redact:
        from reenact.effect.redacting import Redaction, redaction_of  # loaded where it is needed

        redaction = redaction_of(redact) or Redaction()
        facts[REDACTION_FACT], values = redaction.to_fact(), redaction.values
    journal = Journal.create(store_of(store), run_id, namespace, facts=facts)
    run = LiveRun(journal, guard=policy.guard() if policy is not None else None)
    run.secrets.know(values, None)
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
