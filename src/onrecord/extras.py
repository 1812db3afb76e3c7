"""Name the command that adds an extra to this installation.

The package is not on an index, so its bare name may install nothing, or another project's package. The command names
the checkout, archive or repository that this installation came from; if that is gone, the packages of the extra.
"""

from __future__ import annotations

import os
import shlex
import sys

PACKAGE = "onrecord"


def install_command(extra: str) -> str:
    return " ".join([*_pip(), "install", *_requirement(extra)])


def _pip() -> list[str]:
    import importlib.util
    import shutil

    found = shutil.which("pip")
    if found is not None and os.path.dirname(found) == os.path.dirname(sys.executable):
        return ["pip"]
    if importlib.util.find_spec("pip") is None:  # an environment without a pip of its own
        return [
            shlex.quote(getattr(sys, "_base_executable", "python3")),
            "-m",
            "pip",
            "--python",
            shlex.quote(sys.executable),
        ]
    return [shlex.quote(sys.executable), "-m", "pip"]  # a bare pip would install into another environment


def _requirement(name: str) -> list[str]:
    from urllib.parse import urlsplit
    from urllib.request import url2pathname

    source, extra = _source(), f"[{name}]"
    url = str(source.get("url", ""))
    path = url2pathname(urlsplit(url).path) if url.startswith("file:") else ""
    if "dir_info" in source and os.path.isdir(path):
        is_editable = bool(source["dir_info"].get("editable"))
        return [*(["-e"] if is_editable else []), shlex.quote(path + extra)]
    if "vcs_info" in source:
        vcs = source["vcs_info"]
        return [shlex.quote(f"{PACKAGE}{extra} @ {vcs.get('vcs')}+{url}@{vcs.get('commit_id')}")]
    if "archive_info" in source and (not path or os.path.isfile(path)):
        return [shlex.quote(f"{PACKAGE}{extra} @ {url}")]
    gone = [f" # {path} is gone, which {PACKAGE} was installed from"] if path else []
    return [*(_packages(name) or [shlex.quote(PACKAGE + extra)]), *gone]


def _packages(extra: str) -> list[str]:
    """Return the requirements of an extra, from the metadata of this installation."""
    from importlib.metadata import PackageNotFoundError, requires

    try:
        found = [one.partition(";") for one in requires(PACKAGE) or ()]
    except PackageNotFoundError:
        return []
    return [
        shlex.quote(one.strip())
        for one, _, marker in found
        if marker.strip() in (f"extra == '{extra}'", f'extra == "{extra}"')
    ]


def _source() -> dict[str, dict[str, object]]:
    """Return what pip recorded about where the package came from (PEP 610); empty for an index."""
    import json
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        found = json.loads(distribution(PACKAGE).read_text("direct_url.json") or "{}")
    except (PackageNotFoundError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
