"""Processes of a recorded program: each Python process that it starts is a run of its own, linked to its parent's run.

1. The parent gives a new process a ticket: the parent's run, and the position in that run where the process starts.
   The child's run id follows from both, so a resume and a replay find the run again (`handshake`, `spawn`).
2. A fresh interpreter reads its ticket from the environment. A start hook, first on its path, does that and removes
   itself (`hook`). A forked process has its ticket in memory, a `multiprocessing` child in its start data.
3. A process begins its run before the program's first line and ends it at its own end (`process_run`). A job of a
   process pool is a run of its own, because the worker that gets it is not deterministic (`pools`).
4. Each process reports how its run ended in a folder that the first process creates and removes (`session`).
"""
