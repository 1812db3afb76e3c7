"""A simulation of the scheduler: random programs, an outside, deaths, resumes, replays, forks and edits."""
