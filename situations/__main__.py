"""`make situations`: every recorder that can be had in every situation; the table goes to docs/situations.md.

python -m situations [name …] [--subject NAME …] [--jobs 2] [--write]
"""

from __future__ import annotations

import argparse
import os
import sys
from importlib.metadata import version
from pathlib import Path

from situations.catalogue import SITUATIONS
from situations.checks import Verdict
from situations.measuring import Cell, verdicts
from situations.subjects import OURS, PEERS, NotInstalled, Subject
from situations.table import document, line

PROJECT = Path(__file__).parents[1]
DOCUMENT = PROJECT / "docs" / "situations.md"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m situations", description=__doc__)
    parser.add_argument("names", nargs="*", choices=[*SITUATIONS, []], help="situations; all by default")
    parser.add_argument("--subject", action="append", help="recorders; all by default", default=[])
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--write", action="store_true", help=f"write {DOCUMENT.relative_to(PROJECT)}")
    options = parser.parse_args()
    chosen = {name: SITUATIONS[name] for name in options.names or SITUATIONS}
    subjects, missing = installed(options.subject)

    def tell(cell: Cell, found: Verdict) -> None:
        print(line(cell, found), flush=True)

    found = verdicts(subjects, chosen, options.jobs, tell)
    text = document(subjects, missing, chosen, found)
    print(text)
    if options.write:
        DOCUMENT.write_text(text)
    return 0


def ours() -> Subject:
    """The environment that this runs in."""
    OURS.bin = Path(sys.executable).parent
    OURS.version = version("reenact")
    return OURS


def installed(wanted: list[str]) -> tuple[list[Subject], dict[str, str]]:
    """Who can be had, and why others cannot."""
    cache = Path(os.environ.get("SITUATIONS_CACHE") or PROJECT / ".situations")
    cache.mkdir(exist_ok=True)
    (cache / ".gitignore").write_text("*\n")
    found, missing = [ours()] if not wanted or OURS.name in wanted else [], {}
    for peer in PEERS:
        if wanted and peer.name not in wanted:
            continue
        print(f"… installing {peer.name}", file=sys.stderr, flush=True)
        try:
            peer.install(cache)
        except (NotInstalled, OSError) as failure:
            missing[peer.name] = str(failure)
            continue
        found.append(peer)
    return found, missing


if __name__ == "__main__":
    sys.exit(main())
