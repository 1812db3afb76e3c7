"""What several tests use: servers, programs, agents, stores, damage."""
