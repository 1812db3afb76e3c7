"""How a run stands, by its record and its lease. (`reenact.reports.standing`)"""

from reenact.reports.standing import Open, Standing, open_requests, standing_of

__all__ = ["Open", "Standing", "open_requests", "standing_of"]
