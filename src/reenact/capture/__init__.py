"""Recording programs that nobody changed: the program as one run, and the seams through which it touches the world."""
