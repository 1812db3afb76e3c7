"""The whole suite in one class."""

from __future__ import annotations

from reenact.testing.store_contract.appending import Appending
from reenact.testing.store_contract.changes import Changes
from reenact.testing.store_contract.leases_and_inbox import LeasesAndInbox
from reenact.testing.store_contract.many_inboxes import ManyInboxes
from reenact.testing.store_contract.namespaces import Namespaces
from reenact.testing.store_contract.races import Races
from reenact.testing.store_contract.reading import Reading
from reenact.testing.store_contract.removal import Removal
from reenact.testing.store_contract.runs import Runs
from reenact.testing.store_contract.shared_values import SharedValues
from reenact.testing.store_contract.transactions import Transactions


class StoreContract(
    Races,
    Removal,
    LeasesAndInbox,
    ManyInboxes,
    Changes,
    Namespaces,
    SharedValues,
    Transactions,
    Reading,
    Appending,
    Runs,
):
    """To be subclassed: see the package."""
