"""Pages for people. Each is rendered here with what a report says, and brought to life by a small script of its own.

What a page shows is what the API answers: the same reports, the same JSON. A page without its script can still be read.
"""
