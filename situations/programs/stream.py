"""A stream, used while it comes."""

from kit import client, note, pieces, say

found = []
for piece in pieces(client(), "a long gated question"):
    if not found:
        note("first-piece-seen")
    found.append(piece)
say(found)
