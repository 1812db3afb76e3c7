"""What a line about a run says. (`reenact.reports.summaries`)"""

from reenact.reports.summaries import Summary, agent_of, facts_of, summary_of

__all__ = ["Summary", "agent_of", "facts_of", "summary_of"]
