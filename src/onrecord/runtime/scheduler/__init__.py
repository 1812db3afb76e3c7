"""Lanes and deliveries: one order for tasks, threads, jobs and locks."""
