"""What `child.py` starts."""

from kit import ask, client, say

say(ask(client(), "a question of the child"))
