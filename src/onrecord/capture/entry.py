"""Entry point of the process that runs a program: `python -m onrecord.capture.entry` (see `program_main`)."""

from __future__ import annotations

from onrecord.capture import garbage_collector

if __name__ == "__main__":
    garbage_collector.pause()
    from onrecord.capture.program_main import main

    main()
