"""Names that agents use: agent, tool, step, wait, policy, worker."""
