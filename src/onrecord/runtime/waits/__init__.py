"""Waits: a run gives out a signed key, an outside caller resolves it, and the first resolution wins.

Hosts use `registry.py`; `http.py` lets outside callers resolve over the network.
"""

from onrecord.runtime.waits.first_of import FirstOf
from onrecord.runtime.waits.registry import WaitRegistry

__all__ = ["FirstOf", "WaitRegistry"]
