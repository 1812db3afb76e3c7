"""Pytest as a process that is forked, not started.

Loading pytest, the plugin and httpx takes longer than the small projects that tests run with them. One server for each
pytest process loads them once and forks a child for every run.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import NoReturn

LOADED = ("httpx", "httpcore", "anyio._backends._asyncio", "onrecord.pytest_plugin.test_run")
"""Not the plugin itself: pytest imports it, and rewrites its assertions."""


def call(arguments: Sequence[str], folder: Path) -> tuple[int, list[str], list[str]]:
    """Run pytest in a folder and return its status and the lines of its two streams."""
    with tempfile.TemporaryDirectory() as outputs:
        names = [os.path.join(outputs, name) for name in ("stdout", "stderr")]
        request = {"arguments": list(arguments), "folder": str(folder), "env": dict(os.environ), "streams": names}
        server = _server()
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write(json.dumps(request) + "\n")
        server.stdin.flush()
        status = int(server.stdout.readline())
        stdout, stderr = (Path(name).read_text().splitlines() for name in names)
    return status, stdout, stderr


@cache
def _server() -> subprocess.Popen[str]:
    tests = Path(__file__).parents[1]
    command = [sys.executable, "-m", "kit.pytest_server"]
    made = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=tests)
    owner = os.getpid()
    atexit.register(lambda: os.getpid() == owner and made.kill())
    return made


def _serve() -> None:
    from _pytest.config import default_plugins

    for name in (*(f"_pytest.{plugin}" for plugin in default_plugins), *LOADED):
        import_module(name)
    gc.freeze()
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            _become(**json.loads(line))
        _, status = os.waitpid(pid, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def _become(arguments: list[str], folder: str, env: dict[str, str], streams: list[str]) -> NoReturn:
    """Be the process of one run, as `python -m pytest` is."""
    from kit.command_server import _leave, _open_streams

    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for number, name in enumerate(streams, 1):
        os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT), number)
    os.closerange(3, 20)
    _open_streams()
    os.environ.clear()
    os.environ.update(env)
    os.chdir(folder)
    pytest = import_module("pytest")
    sys.argv = [str(Path(pytest.__file__).with_name("__main__.py")), *arguments]
    sys.path[0] = folder
    status = 1
    try:
        status = int(pytest.console_main())
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    _leave(status)


if __name__ == "__main__":
    _serve()
