"""Hooks of the plugin. The rest of Onrecord is imported only when a test uses it.

Life of a test that is marked, or that has the fixture `onrecord`:

1. Its run begins before its first fixture of function scope and ends after the last one. Fixtures of a wider scope
   belong to no test, so they are not recorded.
2. The run covers the test's fixtures and its function, not what pytest and other plugins do in between.
3. If the test passes, its recording is written in one piece. A test that fails never replaces a recording.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import pytest

from onrecord.pytest_plugin import options, summary

if TYPE_CHECKING:
    from onrecord.pytest_plugin.fixture import RecordedTest
    from onrecord.pytest_plugin.test_run import TestRun

RUN_FIXTURE = "_onrecord_run"
_TEST_RUN: pytest.StashKey[TestRun] = pytest.StashKey()


def pytest_addoption(parser: pytest.Parser) -> None:
    options.add_options(parser)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "onrecord(mode=None, cassette=None, match_on=...): record what the test does, and replay it from then on.",
    )
    options.check_options(config)
    summary.begin(config)


@pytest.hookimpl(trylast=True)
def pytest_itemcollected(item: pytest.Item) -> None:
    """Note the test, also if it is deselected later."""
    marker_options = options.read_marker(item) if isinstance(item, pytest.Function) else None
    summary.note_collected(item, is_recorded=marker_options is not None and marker_options.cassette is None)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if isinstance(item, pytest.Function) and options.read_marker(item) is not None:
            _put_run_first(item)


def _put_run_first(item: pytest.Function) -> None:
    """Put the run's fixture before all fixtures of function scope and after those of a wider scope."""
    if RUN_FIXTURE in item.fixturenames:
        return
    definitions = item._fixtureinfo.name2fixturedefs
    wider_indices = [
        index
        for index, name in enumerate(item.fixturenames)
        if name in definitions and definitions[name][-1].scope != "function"
    ]
    item.fixturenames.insert(max(wider_indices, default=-1) + 1, RUN_FIXTURE)


# Fixtures


@pytest.fixture(name=RUN_FIXTURE)
def begin_run(request: pytest.FixtureRequest) -> Iterator[TestRun]:
    """Begin the run of the test, and end it at teardown."""
    from onrecord.pytest_plugin.test_run import TestRun

    test_run = TestRun(request.node, options.read_marker(request.node) or options.MarkerOptions())
    request.node.stash[_TEST_RUN] = test_run
    try:
        yield test_run
    finally:
        del request.node.stash[_TEST_RUN]
        test_run.finish()


@pytest.fixture
def onrecord(_onrecord_run: TestRun) -> RecordedTest:
    """Return what the test has done so far: tokens, cost, tool calls, requests."""
    return _onrecord_run.report


def _find_test_run(item: Any) -> TestRun | None:
    stash = getattr(item, "stash", None)
    return stash.get(_TEST_RUN, None) if stash is not None else None


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_fixture_setup(
    fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest
) -> Generator[None, Any, Any]:
    """Set up a fixture inside the run, before plugins that run fixtures in their own event loop."""
    test_run = _find_test_run(getattr(request, "_pyfuncitem", None))
    if test_run is None:
        with _block_network_if_configured(request.config, None) if fixturedef.scope == "function" else nullcontext():
            return (yield)
    if fixturedef.scope != "function" or fixturedef.argname == RUN_FIXTURE:
        with test_run.leave_run():
            return (yield)
    with test_run.set_up_fixture(fixturedef):
        return (yield)


# Phases


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    test_run = _find_test_run(item)
    with (
        _block_network_if_configured(item.config, test_run),
        nullcontext() if test_run is None else test_run.call_test(),
    ):
        return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, Any, Any]:
    """Wrap the test function before plugins that run it in their own event loop and context."""
    test_run = _find_test_run(pyfuncitem)
    if test_run is None:
        return (yield)
    with test_run.wrap_function(pyfuncitem):
        return (yield)


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, Any, Any]:
    test_run = _find_test_run(item)
    with nullcontext() if test_run is None else test_run.tear_down():
        return (yield)


def _block_network_if_configured(config: pytest.Config, test_run: TestRun | None) -> AbstractContextManager[None]:
    """Return the network block for a test without a run. A test with a run has its own."""
    if test_run is not None or not config.getini("onrecord_block_network"):
        return nullcontext()
    from onrecord.pytest_plugin.network import block_network

    return block_network(config.getini("onrecord_allow_hosts"))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
    report = yield
    if call.excinfo is not None and hasattr(report, "wasxfail") and _find_test_run(item) is not None:
        from onrecord.pytest_plugin.test_run import NotReplayed

        if call.excinfo.errisinstance(NotReplayed):
            del report.wasxfail
            report.outcome = "failed"
            report.longrepr = item.repr_failure(call.excinfo)
    return report


# The end


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    summary.print_summary(terminalreporter, config)


def pytest_sessionfinish(session: pytest.Session) -> None:
    summary.finish(session.config)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Add what a process of pytest-xdist reports at its end."""
    summary.add_worker_output(node.config, getattr(node, "workeroutput", {}))
