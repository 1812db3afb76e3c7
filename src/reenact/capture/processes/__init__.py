"""Processes of a recorded program: each Python process that it starts is a run of its own, linked to the one above it.

1. Whoever starts a process gives it a ticket: whose child it is, and at which place of the parent's run it was begun.
   The ids of the runs follow from the place, so that a resume and a replay find them again (`tickets`, `starting`).
2. A fresh interpreter finds its ticket in the environment, through a start hook that is put before everything else on
   its path and takes itself away again (`hook`); a forked one has it in memory, one of `multiprocessing` in its data.
3. It begins its run before its first line, and ends it when it ends (`own_run`). A job of a process pool is a run of
   its own as well: which worker it comes to is a matter of chance (`pools`).
4. What became of each is told in a folder that the first process makes and takes away (`session`).
"""
