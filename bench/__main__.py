"""Measure everything beside its floor in one run, as ratios (`make bench`); write docs/evidence/benchmarks.md.

    python -m bench [name …] [--scale 0.1] [--write]

Absolute times differ from machine to machine and from minute to minute, so each measurement is interleaved with its
floor and only the ratio is judged.
"""

from __future__ import annotations

import argparse
import platform
import re
import sys
from pathlib import Path

from bench.measurement import Row, Workplace
from bench.suites import SUITES

DOCUMENT = Path(__file__).parents[1] / "docs" / "evidence" / "benchmarks.md"
_SECTION = re.compile(r"^### ([\w-]+)\n\n(.*?\n)(?=\n###|\n##|\Z)", re.MULTILINE | re.DOTALL)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("names", nargs="*", choices=[*SUITES, []], help="suites to run; all by default")
    parser.add_argument("--scale", type=float, default=1.0, help="fraction of the full sizes")
    parser.add_argument("--write", action="store_true", help="write the results to docs/evidence/benchmarks.md")
    options = parser.parse_args()
    found: dict[str, list[Row]] = {}
    with Workplace(options.scale) as workplace:
        print(f"bare write + fdatasync of 4 KiB: {workplace.fsync_us():.0f} µs (median), on {workplace.describe()}")
        for name in options.names or SUITES:
            print(f"… {name}", file=sys.stderr, flush=True)
            rows = found.setdefault(name, [])
            for row in SUITES[name](workplace):
                rows.append(row)
                print(row.line(), flush=True)
        if options.write:
            DOCUMENT.write_text(render_document(found, workplace, options.scale))
    return 0 if all(row.holds is not False for rows in found.values() for row in rows) else 1


def render_document(found: dict[str, list[Row]], workplace: Workplace, scale: float) -> str:
    """Return the page: the suites that ran now, and the page's sections of the others."""
    kept = dict(_SECTION.findall(DOCUMENT.read_text())) if DOCUMENT.exists() else {}
    where = f"{platform.python_implementation()} {platform.python_version()}, {workplace.describe()}"
    for name, rows in found.items():
        table = "\n".join(row.markdown() for row in rows)
        run = f"{where}, bare write + fdatasync of 4 KiB {workplace.fsync_us():.0f} µs, scale {scale:g}"
        kept[name] = f"{run}\n\n| what | measured | must be | |\n|---|---|---|---|\n{table}\n"
    sections = "\n".join(f"### {name}\n\n{kept[name]}" for name in SUITES if name in kept)
    return f"""# Benchmarks

`make bench` writes this page. Each figure is measured beside its floor, in one run, interleaved;
the figures are medians. Compare the ratios: these machines are noisy. Each suite names the machine
it ran on.

{sections}
## Not met

A bar that is not met is open work. The bar stays.

- *One append, SQLite.* The row is twice the size of the event (link, hashes, salt). The rest is
  Python that runs directly after a sync, with cold caches; with warm caches the same code takes 15
  µs. Processor time above the bare commit was between 57 and 130 µs in different minutes on one
  machine.
- *Group commit.* The interpreter lock is the limit. Linking an event and waking its appender cost
  about 50 µs, so 64 appenders reach what one processor can do. Tasks of one loop do better than
  threads, which pass the lock twice each.
- *Postgres.* There is one round trip instead of two. The server does the checks of the append (row
  lock, ids, head) and updates two more indexes.
- *Verifying.* Each event is parsed, written again and hashed three times; the floor hashes twice.
- *Later appends of a conversation.* The value is written as text twice, for the store and for its
  digest, and that grows with the conversation. Rows and stored bytes are the same early and late.
- *Recording an effect.* Two events are hashed and committed, and one commit is synced; that least
  work is measured beside it. The rest is about ninety Python calls with cold caches after each
  sync and, in a task, a second round of the loop. The SQL of the two commits alone takes more than
  120 µs of processor time on such a machine.
- *A recorded HTTP call.* At the relaxed level 0.4 of a plain call is about 150 µs. Linking and
  committing its two events costs that much. At the full level the bar is met in some minutes and
  missed in others.
- *The first part of a stream that arrives at once.* It waits for three commits: of the request,
  the head and the part.
- *Fifty turns of incompressible text.* 104 events of about 1 KB each, beside the 55 KB of text.
"""


if __name__ == "__main__":
    sys.exit(main())
