"""What a test's recording is called, where it lies, and the command that makes it. Loaded with pytest itself.

`folder/test_module.py::TestClass::test_name[parameter]` is recorded in
`folder/recordings/test_module/TestClass.test_name[parameter].jsonl`. A name with other characters than these, or one
that is too long for a file, is cut and ends with a digest of the whole, so that no two tests share a file.
"""

from __future__ import annotations

import os
import re
import shlex
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

FOLDER = "recordings"
SUFFIX = ".jsonl"
LONGEST = 120
LONGEST_ID = 100
_ODD = re.compile(r"[^A-Za-z0-9_.\[\]=,+-]+")
_ODD_IN_ID = re.compile(r"[^A-Za-z0-9._-]+")


def recording_path(item: pytest.Item) -> Path:
    return recordings_of(item.path) / f"{_file_name(own_name(item))}{SUFFIX}"


def recordings_of(module: Path) -> Path:
    """The folder of a test module's recordings."""
    return module.parent / FOLDER / _file_name(module.name.removesuffix(".py"))


def own_name(item: pytest.Item) -> str:
    """The test within its module."""
    return ".".join(item.nodeid.split("::")[1:]) if "::" in item.nodeid else item.name


def _file_name(name: str) -> str:
    plain = _ODD.sub("-", name)
    if plain == name and len(plain) <= LONGEST and not plain.startswith(".") and plain:
        return plain
    return f"{plain.lstrip('.')[: LONGEST - 10] or 'test'}~{_digest(name, 8)}"


def run_id(item: pytest.Item) -> str:
    """The same for every recording of a test, so that recording it again changes nothing that need not change."""
    plain = _ODD_IN_ID.sub("-", own_name(item)).strip("-._")[:LONGEST_ID]
    return f"{plain or 'test'}-{_digest(item.nodeid, 8)}"


def _digest(text: str, length: int) -> str:
    return sha256(text.encode(errors="surrogatepass")).hexdigest()[:length]


def command(item: pytest.Item, mode: str) -> str:
    """What is typed to record the test, from where pytest was started."""
    module, separator, test = item.nodeid.partition("::")
    started = item.config.invocation_params.dir
    module = os.path.relpath(item.path, started) if item.path.exists() else module
    return f"pytest --reenact={mode} {shlex.quote(f'{module}{separator}{test}')}"


def shown(path: Path, config: pytest.Config) -> str:
    try:
        return str(path.relative_to(config.invocation_params.dir))
    except ValueError:
        return str(path)
