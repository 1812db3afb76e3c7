"""Drivers of the scheduler: event loops, threads, executors, locks and timers. They decide nothing."""
