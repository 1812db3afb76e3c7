"""Every kind of test that people write: classes, parameters, loops of other plugins, unittest, many processes."""

from __future__ import annotations

import subprocess
import sys

import pytest

from kit.paths import TESTS
from kit.plugin import Project

pytest_plugins = ["pytester"]

ASYNC = """
import asyncio


@pytest.fixture
async def login():
    async with httpx.AsyncClient() as client:
        yield (await client.get(f"{URL}/login")).json()["number"]
        await client.get(f"{URL}/logout")


async def fetch(client, name):
    return (await client.get(f"{URL}/{name}")).json()["number"]


@pytest.mark.onrecord
@MARK
async def test_race(login):
    async with httpx.AsyncClient() as client:
        tasks = [asyncio.create_task(fetch(client, name)) for name in "abc"]
        done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        rest = await asyncio.gather(*pending)
    print("numbers", login, sorted([*rest, *(task.result() for task in done)]))
"""


def recorded_and_replayed(project: Project, *arguments: str, beside: tuple[str, ...] = (), passed: int = 1) -> None:
    project.run("--onrecord=once", *arguments, beside=beside).assert_outcomes(passed=passed)
    asked = len(project.server.asked)
    assert asked > 0
    project.server.stop()
    project.run(*arguments, beside=beside).assert_outcomes(passed=passed)
    assert len(project.server.asked) == asked


def test_pytest_asyncio(project: Project) -> None:
    project.pytester.makeini("[pytest]\nasyncio_default_fixture_loop_scope = function\nasyncio_mode = auto\n")
    project.write(ASYNC.replace("MARK", "pytest.mark.asyncio"))
    recorded_and_replayed(project, beside=("pytest_asyncio.plugin",))


def test_pytest_asyncio_with_a_loop_for_all_tests(project: Project) -> None:
    project.pytester.makeini(
        "[pytest]\nasyncio_default_fixture_loop_scope = session\nasyncio_default_test_loop_scope = session\n"
        "asyncio_mode = auto\n"
    )
    again = ASYNC.replace("test_race", "test_again").partition("@pytest.mark.onrecord")[2]
    project.write(ASYNC.replace("MARK", "pytest.mark.asyncio") + "@pytest.mark.onrecord" + again.replace("@MARK\n", ""))
    recorded_and_replayed(project, beside=("pytest_asyncio.plugin",), passed=2)


def test_anyio(project: Project) -> None:
    backend = '\n\n@pytest.fixture(scope="session")\ndef anyio_backend():\n    return "asyncio"\n'
    again = ASYNC.replace("test_race", "test_again").partition("@pytest.mark.onrecord")[2]
    text = f"{ASYNC}{backend}\n\n@pytest.mark.onrecord{again}"
    project.write(text.replace("MARK", "pytest.mark.anyio"))
    recorded_and_replayed(project, beside=("anyio.pytest_plugin",), passed=2)


def test_unittest(project: Project) -> None:
    project.write(
        """
import unittest


@pytest.mark.onrecord
class TestPlain(unittest.TestCase):
    def setUp(self):
        self.login = httpx.get(f"{URL}/login").json()["number"]

    def tearDown(self):
        httpx.get(f"{URL}/logout")

    def test_one(self):
        self.assertGreater(httpx.get(f"{URL}/one").json()["number"], self.login)


@pytest.mark.onrecord
class TestAsync(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self):
        self.client = httpx.AsyncClient()
        self.login = (await self.client.get(f"{URL}/login")).json()["number"]
        self.addAsyncCleanup(self.client.aclose)

    async def test_two(self):
        self.assertGreater((await self.client.get(f"{URL}/two")).json()["number"], self.login)
"""
    )
    recorded_and_replayed(project, passed=2)
    assert project.recordings() == [
        "recordings/test_agent/TestAsync.test_two.jsonl",
        "recordings/test_agent/TestPlain.test_one.jsonl",
    ]


def test_names_of_every_kind_have_files_of_their_own(project: Project) -> None:
    text = """
ODD = ["plain", "a/b", "a:b", "..", "ä☃", "", "A\\n", "$(rm)"]


@pytest.mark.onrecord
class TestOuter:
    class TestInner:
        @pytest.mark.parametrize("value", [*ODD, "x" * 400, "x" * 399 + "y"])
        def test_odd(self, value):
            assert httpx.post(f"{URL}/odd", json=value).json()["number"]
"""
    project.write(text)
    project.write("@pytest.mark.onrecord\ndef test_x():\n    httpx.get(f'{URL}/one')\n", "one/test_same.py")
    project.write("@pytest.mark.onrecord\ndef test_x():\n    httpx.get(f'{URL}/two')\n", "two/test_same.py")
    (project.folder / "one" / "__init__.py").touch()
    (project.folder / "two" / "__init__.py").touch()
    recorded_and_replayed(project, passed=12)
    names = project.recordings()
    assert len(names) == len({name.casefold() for name in names}) == 12
    assert all(len(name.rsplit("/", 1)[-1]) < 140 for name in names)
    assert "recordings/test_agent/TestOuter.TestInner.test_odd[plain].jsonl" in names
    assert {"one/recordings/test_same/test_x.jsonl", "two/recordings/test_same/test_x.jsonl"} <= set(names)


def test_processes_of_xdist(project: Project) -> None:
    project.write(
        """
@pytest.mark.onrecord
@pytest.mark.parametrize("number", range(8))
def test_many(number):
    assert httpx.get(f"{URL}/{number}").json()["path"] == f"/{number}"
"""
    )
    (project.folder / "recordings" / "test_agent").mkdir(parents=True)
    (project.folder / "recordings" / "test_agent" / "test_gone.jsonl").touch()
    result = project.run("-n", "2", "--onrecord=once", beside=("xdist.plugin", "xdist.looponfail"))
    result.assert_outcomes(passed=8)
    result.stdout.fnmatch_lines(["recorded:", "*test_many?0?.jsonl", "recordings without a test:", "*test_gone.jsonl"])
    assert len(project.server.asked) == 8
    assert not list(project.folder.rglob("*.tmp"))
    project.server.stop()
    project.run("-n", "2", beside=("xdist.plugin", "xdist.looponfail")).assert_outcomes(passed=8)


def test_a_rerun_starts_afresh(project: Project) -> None:
    project.write(
        """
import pathlib

TRIED = pathlib.Path(__file__).with_name("tried")


@pytest.mark.onrecord
def test_flaky():
    httpx.get(f"{URL}/first")
    if not TRIED.exists():
        TRIED.touch()
        raise AssertionError("once")
    assert httpx.get(f"{URL}/second").status_code == 200
"""
    )
    result = project.run("--reruns", "2", "--onrecord=once", beside=("pytest_rerunfailures",))
    assert "1 passed, 1 rerun" in result.stdout.str()
    assert [path for _, path, _ in project.server.asked] == ["/first", "/first", "/second"]
    (project.folder / "tried").unlink()
    project.server.stop()
    result = project.run("--reruns", "2", beside=("pytest_rerunfailures",))
    assert "1 passed, 1 rerun" in result.stdout.str()


def test_what_a_module_draws_when_it_is_imported_belongs_to_no_test(project: Project) -> None:
    """Whichever test is the first to need it."""
    lazy = "import random, time, uuid\nchance, at, name = random.Random(), time.time(), uuid.uuid4()\n"
    (project.folder / "lazy_module.py").write_text(lazy)
    project.write(
        """
@pytest.mark.onrecord
@pytest.mark.parametrize("number", [1, 2])
def test_lazily(number):
    import lazy_module

    assert lazy_module.chance.random() < 1
    assert httpx.get(f"{URL}/{number}").status_code == 200
"""
    )
    project.run("--onrecord=once").assert_outcomes(passed=2)
    project.server.stop()
    project.run().assert_outcomes(passed=2)
    project.run("test_agent.py::test_lazily[2]").assert_outcomes(passed=1)


def test_fixtures_of_a_wider_scope_belong_to_no_test(project: Project) -> None:
    project.write(
        """
@pytest.fixture(scope="session")
def token():
    return httpx.get(f"{URL}/token").json()["number"]


@pytest.fixture
def user(token):
    return httpx.get(f"{URL}/user").json()["number"]


@pytest.mark.onrecord
@pytest.mark.parametrize("number", [1, 2])
def test_user(user, number):
    assert user


@pytest.mark.onrecord
def test_late(request):
    assert request.getfixturevalue("user")
"""
    )
    project.run("--onrecord=once").assert_outcomes(passed=3)
    paths = [path for _, path, _ in project.server.asked]
    assert paths.count("/token") == 1
    assert paths.count("/user") == 3
    project.run("-k", "2 or late").assert_outcomes(passed=2)  # whichever test comes first
    assert len(project.server.asked) == 5


def test_tools_steps_and_agents_of_a_program(project: Project) -> None:
    project.write(
        """
import dataclasses
import onrecord as product


@dataclasses.dataclass
class Receipt:
    number: int


class NoMoney(Exception):
    pass


@product.tool
def pay(cents):
    if cents < 0:
        raise NoMoney(cents)
    return Receipt(httpx.post(f"{URL}/pay", json=cents).json()["number"])


@product.agent
def support(cents):
    return pay(cents).number


@pytest.mark.onrecord
def test_agent():
    assert support(5) + support.run(6) == 3
    with pytest.raises(NoMoney):
        support(-1)
"""
    )
    recorded_and_replayed(project)
    assert len(project.server.asked) == 2
    path = project.folder / "test_agent.py"
    path.write_text(path.read_text().replace("return pay(cents)", "return pay(cents + 1)"))
    project.run().assert_outcomes(failed=1)  # the agent's own code is what is tested


def test_clock_chance_and_threads_come_back(project: Project) -> None:
    """Also where a module has kept the clock by a name of its own."""
    project.write(
        """
import datetime, random, time, uuid
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter, time as clock
from uuid import uuid4


@pytest.mark.onrecord
def test_values():
    drawn = [str(uuid4()), clock(), time.time_ns(), perf_counter(), random.random(), str(datetime.datetime.now())]
    with ThreadPoolExecutor(3) as pool:
        drawn += pool.map(lambda number: httpx.get(f"{URL}/same").json()["number"], range(6))
    assert httpx.post(f"{URL}/all", json=drawn).status_code == 200


def test_afterwards():
    assert clock is time.time
    assert clock.__module__ == "time"
"""
    )
    recorded_and_replayed(project, passed=2)


def test_sessions_of_mcp(project: Project) -> None:
    shop = TESTS / "kit" / "shop_server.py"
    project.pytester.makeini("[pytest]\n")
    project.write(
        f"""
import asyncio, pathlib, sys
from mcp import ClientSession, StdioServerParameters, stdio_client

SHOP = pathlib.Path({str(project.folder)!r}) / "shop.py"


async def tools():
    server = StdioServerParameters(command=sys.executable, args=[str(SHOP)])
    async with stdio_client(server) as (read, write), ClientSession(read, write) as session:
        await session.initialize()
        return [tool.name for tool in (await session.list_tools()).tools]


@pytest.mark.onrecord
def test_shop(onrecord):
    assert "order" in asyncio.run(tools())
    assert "mcp tools/list" in [call.name for call in onrecord.calls]
"""
    )
    (project.folder / "shop.py").write_text(shop.read_text())
    project.run("--onrecord=once").assert_outcomes(passed=1)
    (project.folder / "shop.py").unlink()  # nobody could be asked
    project.run().assert_outcomes(passed=1)


def test_a_project_without_such_tests_loads_nothing(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """As it is installed: pytest finds the plugin by itself."""
    monkeypatch.delenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD")
    project.pytester.makeini("[pytest]\n")
    project.pytester.makepyfile(
        """
        import sys


        def test_plain(pytestconfig):
            assert pytestconfig.pluginmanager.has_plugin("onrecord")
            heavy = ("apsw", "onrecord.runtime", "onrecord.core", "onrecord.capture", "onrecord.store", "wrapt")
            assert [name for name in sys.modules if name.startswith(heavy)] == []
        """
    )
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:asyncio", "--markers"],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=project.folder,
    )
    assert "@pytest.mark.onrecord" in done.stdout
    project.pytester.runpytest_subprocess("-p", "no:asyncio", timeout=120).assert_outcomes(passed=1)
