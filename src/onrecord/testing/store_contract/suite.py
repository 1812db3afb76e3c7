"""The whole suite in one class."""

from __future__ import annotations

from onrecord.testing.store_contract.appends import AppendCases
from onrecord.testing.store_contract.changes import Changes
from onrecord.testing.store_contract.leases_and_inbox import LeasesAndInbox
from onrecord.testing.store_contract.many_inboxes import ManyInboxes
from onrecord.testing.store_contract.namespaces import Namespaces
from onrecord.testing.store_contract.races import Races
from onrecord.testing.store_contract.reads import ReadCases
from onrecord.testing.store_contract.removal import Removal
from onrecord.testing.store_contract.runs import Runs
from onrecord.testing.store_contract.shared_values import SharedValues
from onrecord.testing.store_contract.transactions import Transactions


class StoreContract(
    Races,
    Removal,
    LeasesAndInbox,
    ManyInboxes,
    Changes,
    Namespaces,
    SharedValues,
    Transactions,
    ReadCases,
    AppendCases,
    Runs,
):
    """Base class of all tests of the contract; see the package."""
