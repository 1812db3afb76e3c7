"""Names and paths of recordings, and the command that makes them. Imported at every start of pytest.

`folder/test_module.py::TestClass::test_name[parameter]` is recorded in
`folder/recordings/test_module/TestClass.test_name[parameter].jsonl`. A name that is too long, or has other characters
than these, is shortened and ends with a digest, so that no two tests share a file.
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
MAX_NAME_CHARACTERS = 120
MAX_ID_CHARACTERS = 100
_NOT_IN_FILE_NAME = re.compile(r"[^A-Za-z0-9_.\[\]=,+-]+")
_NOT_IN_RUN_ID = re.compile(r"[^A-Za-z0-9._-]+")


def recording_path(item: pytest.Item) -> Path:
    return recordings_of(item.path) / f"{_file_name(test_name(item))}{SUFFIX}"


def recordings_of(module: Path) -> Path:
    """Return the folder of a test module's recordings."""
    return module.parent / FOLDER / _file_name(module.name.removesuffix(".py"))


def test_name(item: pytest.Item) -> str:
    """Return the name of the test within its module."""
    return ".".join(item.nodeid.split("::")[1:]) if "::" in item.nodeid else item.name


def _file_name(name: str) -> str:
    plain = _NOT_IN_FILE_NAME.sub("-", name)
    if plain == name and len(plain) <= MAX_NAME_CHARACTERS and not plain.startswith(".") and plain:
        return plain
    return f"{plain.lstrip('.')[: MAX_NAME_CHARACTERS - 10] or 'test'}~{_digest(name, 8)}"


def run_id(item: pytest.Item) -> str:
    """Return the run id, which is the same for every recording of a test: recording again changes little."""
    plain = _NOT_IN_RUN_ID.sub("-", test_name(item)).strip("-._")[:MAX_ID_CHARACTERS]
    return f"{plain or 'test'}-{_digest(item.nodeid, 8)}"


def _digest(text: str, length: int) -> str:
    return sha256(text.encode(errors="surrogatepass")).hexdigest()[:length]


def record_command(item: pytest.Item, mode: str) -> str:
    """Return the command that records the test, for the folder in which pytest was started."""
    module, separator, test = item.nodeid.partition("::")
    start_folder = item.config.invocation_params.dir
    module = os.path.relpath(item.path, start_folder) if item.path.exists() else module
    return f"pytest --onrecord={mode} {shlex.quote(f'{module}{separator}{test}')}"


def relative_path(path: Path, config: pytest.Config) -> str:
    try:
        return str(path.relative_to(config.invocation_params.dir))
    except ValueError:
        return str(path)
