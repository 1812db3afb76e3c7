"""Try every framework, or those and the programs that are named, and write `docs/evidence/frameworks.md`.

`python -m frameworks [--replays N] [--kills N] [NAME ...]`
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from frameworks.catalogue import FRAMEWORKS, Framework
from frameworks.environments import NotInstalled, find_version, install
from frameworks.server import serving
from frameworks.table import Row, read_rows, write_rows
from frameworks.trial import Trial, measure


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--replays", type=int, default=20)
    parser.add_argument("--recordings", type=int, default=4)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    rows = read_rows()
    failed = 0
    for framework in FRAMEWORKS:
        for program in framework.programs:
            if options.names and not {framework.name, program}.intersection(options.names):
                continue
            began = time.monotonic()
            rows[program], problems = _try(framework, program, options)
            print(f"{rows[program].line}  {time.monotonic() - began:.0f} s", *problems, sep="\n", flush=True)
            failed += bool(problems)
            write_rows(rows)
    return 1 if failed else 0


def _try(framework: Framework, program: str, options: argparse.Namespace) -> tuple[Row, list[str]]:
    try:
        commands = install(framework)
    except NotInstalled as error:
        return Row.not_installed(framework, program), [str(error)]
    with (
        serving() as server,
        tempfile.TemporaryDirectory() as folder,
        Trial(program, commands, Path(folder) / "trial", server) as trial,
    ):
        figures = measure(trial, options.recordings, options.replays, options.kills)
    return Row.of(framework, find_version(framework), program, figures), figures.problems


if __name__ == "__main__":
    raise SystemExit(main())
