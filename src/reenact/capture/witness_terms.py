"""How a program's process is told that it is to be watched (`witness`), which is loaded only then."""

from __future__ import annotations

import os

from reenact.capture.processes import ending

VARIABLE = "REENACT_WITNESS"
"""Names the file into which everything is noted. Taken away, like everything else that is ours."""


def watch_if_asked() -> None:
    path = os.environ.pop(VARIABLE, None)
    if path is None:
        return
    from reenact.capture.witness import Witness

    witness = Witness(path)
    witness.install()
    ending.register(witness.conclude)
