"""What is said about runs, as plain JSON: one place for every surface, so that all of them say the same.

The command line prints these with `--json`, the HTTP interface answers with them. Everything here reads and nothing
writes; nothing is decoded into objects, and no program code runs.
"""
