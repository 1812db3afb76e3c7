"""Compare two runs: find the first divergence by bisection, align the rest, and name every difference."""
