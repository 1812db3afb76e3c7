"""`make situations`: every recorder that can be had in every situation; the table goes to docs/evidence/situations.md.

python -m situations [name …] [--subject NAME …] [--jobs 2] [--write]
"""

from __future__ import annotations

import argparse
import os
import sys
import threading
from pathlib import Path

from situations.catalogue import SITUATIONS
from situations.checks import Verdict
from situations.kept import Kept
from situations.measuring import verdicts
from situations.subjects import CONTROL, OURS, PEERS, NotInstalled, Subject, here
from situations.table import document, line

PROJECT = Path(__file__).parents[1]
DOCUMENT = PROJECT / "docs" / "evidence" / "situations.md"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m situations", description=__doc__)
    parser.add_argument("names", nargs="*", choices=[*SITUATIONS, []], help="situations to measure; all by default")
    parser.add_argument("--subject", action="append", help="recorders to measure; all by default", default=[])
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--write", action="store_true", help=f"write {DOCUMENT.relative_to(PROJECT)}")
    options = parser.parse_args()
    chosen = {name: SITUATIONS[name] for name in options.names or SITUATIONS}
    cache = Path(os.environ.get("SITUATIONS_CACHE") or PROJECT / ".situations")
    cache.mkdir(exist_ok=True)
    (cache / ".gitignore").write_text("*\n")
    subjects, missing = installed(cache)
    kept = Kept(cache / "verdicts.json")
    wanted = [subject for subject in subjects if not options.subject or subject.name in options.subject]
    lock = threading.Lock()

    def tell(subject: Subject, situation: str, found: Verdict) -> None:
        with lock:
            kept.keep(subject, situation, found)
            print(line(subject.name, situation, found), flush=True)

    verdicts(wanted, chosen, options.jobs, tell)
    text = document(subjects, missing, SITUATIONS, kept.of(subjects, list(SITUATIONS)))
    print(text)
    if options.write:
        DOCUMENT.write_text(text)
    return 0


def installed(cache: Path) -> tuple[list[Subject], dict[str, str]]:
    """Who can be had, and why others cannot."""
    found, missing = [here(OURS)], {}
    for peer in PEERS:
        print(f"… installing {peer.name}", file=sys.stderr, flush=True)
        try:
            peer.install(cache)
        except (NotInstalled, OSError) as failure:
            missing[peer.name] = str(failure)
            continue
        found.append(peer)
    return [*found, here(CONTROL)], missing


if __name__ == "__main__":
    sys.exit(main())
