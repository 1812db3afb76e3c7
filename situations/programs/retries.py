"""The model is busy twice; the client library tries again by itself."""

from kit import ask, client, say

say(ask(client(max_retries=4), "a busy question"))
