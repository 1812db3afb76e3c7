"""The same question three times, and three different answers."""

from kit import ask, client, say

model = client()
for _ in range(3):
    say(ask(model, "heads or tails?"))
