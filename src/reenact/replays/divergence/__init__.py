"""Where two runs part: found by bisection, the rest aligned, every difference named."""
