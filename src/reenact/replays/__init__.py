"""Reading runs back and judging them: replay, drift, divergence, evidence, forks."""
