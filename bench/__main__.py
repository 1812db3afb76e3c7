"""`make bench`: everything measured beside its floor in one run, as ratios; the table goes into docs/benchmarks.md.

    python -m bench [name …] [--scale 0.1] [--write]

Absolute times differ from machine to machine and from minute to minute, so each measurement is interleaved with its
floor and only the ratio is judged.
"""

from __future__ import annotations

import argparse
import platform
import sys
from pathlib import Path

from bench.measuring import Row, Workplace
from bench.suites import SUITES

DOCUMENT = Path(__file__).parents[1] / "docs" / "benchmarks.md"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("names", nargs="*", choices=[*SUITES, []], help="suites to run; all by default")
    parser.add_argument("--scale", type=float, default=1.0, help="fraction of the full sizes")
    parser.add_argument("--write", action="store_true", help="write docs/benchmarks.md")
    options = parser.parse_args()
    rows: list[Row] = []
    with Workplace(options.scale) as workplace:
        print(f"bare write + fdatasync of 4 KiB: {workplace.fsync_us():.0f} µs (median), on {workplace.describe()}")
        for name in options.names or SUITES:
            print(f"… {name}", file=sys.stderr, flush=True)
            for row in SUITES[name](workplace):
                rows.append(row)
                print(row.line(), flush=True)
        if options.write:
            DOCUMENT.write_text(document(rows, workplace))
    return 0 if all(row.holds is not False for row in rows) else 1


def document(rows: list[Row], workplace: Workplace) -> str:
    table = "\n".join(row.markdown() for row in rows)
    return f"""# Benchmarks

Written by `make bench`: every figure beside its floor, measured in one run, interleaved, medians. Ratios are what
counts; these machines are noisy.

{platform.python_implementation()} {platform.python_version()}, {workplace.describe()};
bare write + fdatasync of 4 KiB: {workplace.fsync_us():.0f} µs.

| what | measured | must be | |
|---|---|---|---|
{table}
"""


if __name__ == "__main__":
    sys.exit(main())
