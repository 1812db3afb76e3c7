"""The hooks. Nothing else of Reenact is loaded before a test asks for it.

Life of a test that is marked, or that has the fixture `reenact`:

1. Its run begins before the first of its fixtures of function scope, and ends after the last of them. Fixtures of a
   wider scope belong to no test, and so to no recording.
2. What its fixtures and its function do is the run's; what pytest and other plugins do between them is not.
3. If it has passed, what was recorded is written in one piece. A test that fails never replaces a recording.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import pytest

from reenact.pytest_plugin import options, unused

if TYPE_CHECKING:
    from reenact.pytest_plugin.carrying import CarriedTest
    from reenact.pytest_plugin.findings import Reenacted

RUN_FIXTURE = "_reenact_run"
_CARRIED: pytest.StashKey[CarriedTest] = pytest.StashKey()


def pytest_addoption(parser: pytest.Parser) -> None:
    options.add_options(parser)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "reenact(mode=None, cassette=None, match_on=...): what the test does is recorded, and replayed from then on.",
    )
    options.check_options(config)
    unused.begin(config)


@pytest.hookimpl(trylast=True)
def pytest_itemcollected(item: pytest.Item) -> None:
    """Noted before anything is deselected."""
    asked = options.asked_of(item) if isinstance(item, pytest.Function) else None
    unused.collected(item, is_recorded=asked is not None and asked.cassette is None)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if isinstance(item, pytest.Function) and options.asked_of(item) is not None:
            _put_run_first(item)


def _put_run_first(item: pytest.Function) -> None:
    """Before all fixtures of function scope, behind all of a wider one."""
    if RUN_FIXTURE in item.fixturenames:
        return
    known = item._fixtureinfo.name2fixturedefs
    wider = [at for at, name in enumerate(item.fixturenames) if name in known and known[name][-1].scope != "function"]
    item.fixturenames.insert(max(wider, default=-1) + 1, RUN_FIXTURE)


# Fixtures


@pytest.fixture(name=RUN_FIXTURE)
def run_of_the_test(request: pytest.FixtureRequest) -> Iterator[CarriedTest]:
    """Set up in no run, torn down in none: it is what begins and ends one."""
    from reenact.pytest_plugin.carrying import CarriedTest

    carried = CarriedTest(request.node, options.asked_of(request.node) or options.Asked())
    request.node.stash[_CARRIED] = carried
    try:
        yield carried
    finally:
        del request.node.stash[_CARRIED]
        carried.torn_down()


@pytest.fixture
def reenact(_reenact_run: CarriedTest) -> Reenacted:
    """What the test has done so far: tokens, cost, tool calls, requests."""
    return _reenact_run.findings


def _carried(item: Any) -> CarriedTest | None:
    stash = getattr(item, "stash", None)
    return stash.get(_CARRIED, None) if stash is not None else None


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_fixture_setup(
    fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest
) -> Generator[None, Any, Any]:
    """Before any plugin that hands a fixture to a loop of its own."""
    carried = _carried(getattr(request, "_pyfuncitem", None))
    if carried is None:
        with _network(request.config, None) if fixturedef.scope == "function" else nullcontext():
            return (yield)
    if fixturedef.scope != "function" or fixturedef.argname == RUN_FIXTURE:
        with carried.elsewhere():
            return (yield)
    with carried.setting_up(fixturedef):
        return (yield)


# Phases


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    carried = _carried(item)
    with _network(item.config, carried), nullcontext() if carried is None else carried.calling():
        return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, Any, Any]:
    """Before any plugin that hands the function to a loop of its own, in a context of its own."""
    carried = _carried(pyfuncitem)
    if carried is None:
        return (yield)
    with carried.function_in_place(pyfuncitem):
        return (yield)


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, Any, Any]:
    carried = _carried(item)
    with nullcontext() if carried is None else carried.tearing_down():
        return (yield)


def _network(config: pytest.Config, carried: CarriedTest | None) -> AbstractContextManager[None]:
    """A test that is carried has its own say."""
    if carried is not None or not config.getini("reenact_block_network"):
        return nullcontext()
    from reenact.pytest_plugin.network import blocked

    return blocked(config.getini("reenact_allow_hosts"))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
    report = yield
    if call.excinfo is not None and hasattr(report, "wasxfail") and _carried(item) is not None:
        from reenact.pytest_plugin.carrying import NotReenacted

        if call.excinfo.errisinstance(NotReenacted):
            del report.wasxfail
            report.outcome = "failed"
            report.longrepr = item.repr_failure(call.excinfo)
    return report


# The end


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    unused.tell(terminalreporter, config)


def pytest_sessionfinish(session: pytest.Session) -> None:
    unused.finish(session.config)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """A process of pytest-xdist has ended, and says what it has seen."""
    unused.heard(node.config, getattr(node, "workeroutput", {}))
