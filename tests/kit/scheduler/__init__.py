"""Small programs on the scheduler alone."""
