"""`python -m reenact.capture.entry`: where the process begins that runs a program (`first_process`)."""

from __future__ import annotations

from reenact.capture import collecting

if __name__ == "__main__":
    collecting.rest()
    from reenact.capture.first_process import main

    main()
