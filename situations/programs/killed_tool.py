"""A process dies inside a tool that has already acted."""

import os
import signal

from kit import ask, client, dies_here, note, say, tool

model = client()
say(ask(model, "whom to pay?"))


@tool
def pay(whom: str) -> str:
    note("ledger", whom)
    if dies_here():
        os.kill(os.getpid(), signal.SIGKILL)
    return "paid"


say(pay("bob"))
say(ask(model, "what next?"))
