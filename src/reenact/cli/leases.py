"""Does anybody hold a run? (`reenact.reports.leases`)"""

from reenact.reports.leases import is_held

__all__ = ["is_held"]
