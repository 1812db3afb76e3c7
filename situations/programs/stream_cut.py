"""The server goes away in the middle of a stream."""

from kit import client, pieces, say

found = []
try:
    for piece in pieces(client(), "a question to be cut"):
        found.append(piece)  # noqa: PERF402, what came before the error counts
    say("ended well")
except Exception as error:
    say("broke off:", type(error).__name__)
say(found)
