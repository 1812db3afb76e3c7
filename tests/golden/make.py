"""Writes the golden files: `python tests/golden/make.py`. Files that exist are left alone without `--overwrite`.

Never called by a test: a golden file that is written by what it judges judges nothing.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from golden.vectors import RECORDING, VECTORS, all_vectors, recordings


def write(*, overwrite: bool) -> None:
    if "pytest" in sys.modules:
        raise SystemExit("golden files are not written by tests")
    for path, data in {
        VECTORS: json.dumps(all_vectors(), indent=1, ensure_ascii=False).encode() + b"\n",
        RECORDING: recordings()["golden-1"],
    }.items():
        if path.exists() and not overwrite:
            print(f"{path} exists and is left alone", file=sys.stderr)
        else:
            path.write_bytes(data)
            print(f"{path}: {len(data)} bytes", file=sys.stderr)


if __name__ == "__main__":
    write(overwrite="--overwrite" in sys.argv[1:])
