"""The program has read enough, and leaves a stream before its end."""

from kit import ask, client, pieces, say

model = client()
stream = pieces(model, "a long question")
say(next(stream))
stream.close()
say(ask(model, "and another one"))
