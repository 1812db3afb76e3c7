"""A program starts soon: what it may never need is not loaded before its first line, and is there when it is needed."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from kit.programs import Server, show_optional_packages

pytestmark = pytest.mark.usefixtures("folder")

NOT_LOADED = {
    *("click", "rich", "wrapt", "email", "importlib.metadata", "http.client", "urllib.request", "multiprocessing"),
    *("pdb", "difflib", "tomllib", "platformdirs", "tempfile", "shutil", "cryptography", "genai_prices", "psycopg"),
    *(
        "onrecord.cli",
        "onrecord.analysis",
        "onrecord.reports",
        "onrecord.proof.receipts",
        "onrecord.web",
        "onrecord.testing",
    ),
    *(
        "onrecord.capture.explain",
        "onrecord.capture.debugger",
        "onrecord.capture.doctor_probe",
        "onrecord.runtime.waits",
    ),
    *("onrecord.capture.interceptors.http_client", "onrecord.capture.cassettes", "onrecord.capture.mcp"),
}
ASKING = {
    "imported": "import httpx, http.client",
    "from": "from httpx import get as get\nfrom http.client import HTTPConnection",
    "found first": "from importlib import util\nassert util.find_spec('httpx').loader.get_code('httpx')\nimport httpx",
    "missing first": "import importlib.util\nassert importlib.util.find_spec('requests.nothing') is None",
    "in threads": """
import importlib, threading
names = ["httpx", "http.client", "requests.adapters", "urllib3.connectionpool", "aiohttp.client"]
threads = [threading.Thread(target=importlib.import_module, args=(name,)) for name in names]
for one in threads: one.start()
for one in threads: one.join()
""",
    "by a finder of its own": """
import sys
class Finder:
    def find_spec(self, name, path=None, target=None):
        return None
sys.meta_path.insert(0, Finder())
import httpx
""",
}
REQUESTS = """
import http.client, sys, urllib.request, httpx
url = sys.argv[1]
print(httpx.get(url + "/number").json()["number"])
print(urllib.request.urlopen(url + "/number").read())
connection = http.client.HTTPConnection(url.removeprefix("http://"))
connection.request("GET", "/number")
print(connection.getresponse().read())
print(type(httpx.__spec__.loader).__name__, type(httpx.__loader__).__name__)
"""


def onrecord(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [os.path.join(os.path.dirname(sys.executable), "onrecord"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def recorded(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    Path("program.py").write_text(textwrap.dedent(program))
    result = onrecord("run", "program.py", *arguments)
    assert result.returncode == 0, result.stderr
    return result


def test_what_a_program_may_never_need_is_not_loaded_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    show_optional_packages(monkeypatch)
    loaded = set(recorded("import sys\nprint('|'.join(sys.modules))").stdout.strip().split("|"))
    assert {"apsw", "onrecord.store.sqlite.store"} <= loaded
    assert not loaded & NOT_LOADED


@pytest.mark.parametrize("asking", ASKING.values(), ids=ASKING)
def test_a_library_is_seen_however_it_is_imported(asking: str, server: Server) -> None:
    first = recorded(asking + REQUESTS, server.url)
    assert "3 effects" in first.stderr
    assert "unseen" not in first.stderr
    assert "SourceFileLoader SourceFileLoader" in first.stdout
    again = onrecord("replay", "@last")
    assert (again.returncode, again.stdout) == (0, first.stdout), again.stderr


def test_the_collector_of_cycles_works_for_the_program() -> None:
    program = """
        import gc, weakref
        class Knot: pass
        knot = Knot()
        knot.itself = knot
        gone = weakref.ref(knot)
        del knot
        assert gc.isenabled() and gone() is not None
        gc.collect()
        assert gone() is None
        print("collected")
    """
    assert recorded(program).stdout == "collected\n"
