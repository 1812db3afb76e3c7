"""The page around the recordings: always the same, byte for byte, so that it can be told from one that was altered."""

from __future__ import annotations

import re
from base64 import b64encode
from functools import cache
from hashlib import sha256
from pathlib import Path

from onrecord.html_export.blocks import CLOSING, COMPARISON_TYPE, RECORDING_TYPE, opening

OWN = Path(__file__).parent / "static"
PAGES = Path(__file__).parent.parent / "web" / "static"
"""What the pages of `onrecord serve` are made of, too."""

SCRIPTS = (
    PAGES / "dom.js",
    PAGES / "keys.js",
    PAGES / "lanes.js",
    OWN / "sha256.js",
    OWN / "values.js",
    OWN / "recording.js",
    OWN / "verify.js",
    OWN / "shared_run.js",
    OWN / "pretty.js",
    OWN / "event_list.js",
    OWN / "inspector.js",
    OWN / "conversation.js",
    OWN / "verdict.js",
    PAGES / "compare_details.js",
    OWN / "comparison.js",
    OWN / "share.js",
)
"""In the order in which they need each other."""
STYLES = (PAGES / "style.css", PAGES / "compare.css", OWN / "share.css")

_IMPORT = re.compile(r"^import [^;]*;\n", re.MULTILINE)
_EXPORT = re.compile(r"^export (?=async function|function|class|const|let)", re.MULTILINE)
_PLACE = re.compile(r"\{\{(\w+)\}\}")


def page_pieces() -> tuple[bytes, bytes]:
    """What stands before the recordings, and behind them."""
    before, _, behind = _shell().partition("{{recordings}}\n")
    return before.encode(), behind.encode()


def page_digest(recordings: int) -> str:
    """Of everything but the recordings, and the comparison where there are two."""
    before, behind = page_pieces()
    kinds = [(RECORDING_TYPE, f"recording-{number}") for number in range(1, recordings + 1)]
    kinds += [(COMPARISON_TYPE, "comparison")] if recordings > 1 else []
    between = b"".join(opening(kind, name) + CLOSING for kind, name in kinds)
    return sha256(before + between + behind).hexdigest()


@cache
def _shell() -> str:
    script = _bundle()
    style = "\n".join(path.read_text(encoding="utf-8") for path in STYLES)
    policy = (
        f"default-src 'none'; script-src '{_source(script)}'; style-src '{_source(style)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    values = {"policy": policy, "style": style, "script": script}
    template = (OWN / "share.html").read_text(encoding="utf-8")
    return _PLACE.sub(lambda found: values.get(found[1], found[0]), template)


def _bundle() -> str:
    """Our modules as one script: a file that is opened from disk may not load others."""
    parts = []
    for path in SCRIPTS:
        text = _EXPORT.sub("", _IMPORT.sub("", path.read_text(encoding="utf-8")))
        parts.append(f"// --- {path.name}\n{text}")
    return '"use strict";\n(() => {\n' + "\n".join(parts) + "})();\n"


def _source(text: str) -> str:
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"
