"""Waits: a run hands out a signed key, somebody outside resolves it, the first resolution wins.

`desk.py` is what a host uses; `http.py` lets others resolve over the network.
"""

from reenact.effect.waits.desk import WaitDesk
from reenact.effect.waits.first_of import FirstOf

__all__ = ["FirstOf", "WaitDesk"]
