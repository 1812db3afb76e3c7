"""A process dies in the middle of a stream."""

import os
import signal

from kit import ask, client, dies_here, pieces, say

model = client()
say(ask(model, "a first question"))
found = []
for piece in pieces(model, "a long question"):
    found.append(piece)
    if dies_here():
        os.kill(os.getpid(), signal.SIGKILL)
say(found)
