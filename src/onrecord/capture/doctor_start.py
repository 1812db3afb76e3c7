"""Start the probe of `onrecord doctor` in a program's process, if the environment asks for it (`doctor_probe`)."""

from __future__ import annotations

import os

from onrecord.capture.processes import exits

VARIABLE = "ONRECORD_WITNESS"
"""Variable with the path of the notes. It is removed before the program starts."""


def start_probe_if_requested() -> None:
    path = os.environ.pop(VARIABLE, None)
    if path is None:
        return
    from onrecord.capture.doctor_probe import DoctorProbe

    probe = DoctorProbe(path)
    probe.install()
    exits.register(probe.conclude)
