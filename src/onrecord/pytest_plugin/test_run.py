"""Test as a run: recorded, replayed, or served from an earlier recording.

| mode | there is a recording | there is none |
|---|---|---|
| none | replayed, strictly | fails |
| once | replayed, strictly | recorded |
| new | recorded effects are served, the others executed; recorded as a whole | recorded |
| all | recorded | recorded |
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from _pytest.outcomes import Failed

from onrecord.capture.block_run import BlockRun, OwnRecording
from onrecord.capture.cassettes.player import CassetteSubstitutes, read_as_run
from onrecord.capture.earlier_record import EarlierRecord, RecordSubstitutes
from onrecord.capture.interceptors.late_install import draw_interceptors, http_interceptors, mcp_interceptors
from onrecord.core.events import ProcessAttached
from onrecord.errors import NotFound, OnrecordError
from onrecord.pytest_plugin import names, summary
from onrecord.pytest_plugin.files import read_recording, write_recording
from onrecord.pytest_plugin.fixture import RecordedTest
from onrecord.pytest_plugin.messages import failure_text, find_own_line
from onrecord.pytest_plugin.network import NetworkBlocked, watch_network
from onrecord.pytest_plugin.options import ALL, NEW, ONCE, MarkerOptions, cassette_path, choose_mode
from onrecord.runtime.engine.run import LiveRun
from onrecord.runtime.engine.stops import Divergence, RunStopped
from onrecord.runtime.replay.divergence import explain_stop
from onrecord.runtime.replay.history import seq_of
from onrecord.runtime.scheduler.items import Diverged
from onrecord.store.memory import MemoryStore

if TYPE_CHECKING:
    from onrecord.runtime.engine.open_effect import OpenEffect

CALLED = "test_called"
"""Key of a note in the record: the last seq of the test's own function, if its fixtures recorded more after it."""


class _RefusingSubstitutes(RecordSubstitutes):
    """Substitutes of a test without a usable recording: its first effect stops it."""

    is_mocked = True

    def __init__(self, run: LiveRun, reason: OnrecordError) -> None:
        super().__init__(run, EarlierRecord(run.reader))
        self._reason = reason

    def _missing(self, effect: OpenEffect) -> None:
        self._run.stop_here(self._reason)


class NotReplayed(Failed):
    """The test could not be replayed. Pytest reports a failure even if the test is marked `xfail`."""


class TestRun:
    def __init__(self, item: pytest.Function, marker_options: MarkerOptions) -> None:
        self.item = item
        self.mode = choose_mode(item, marker_options)
        self.path = names.recording_path(item)
        self._cassette = marker_options.cassette
        self._refusal: OnrecordError | None = None
        self._has_passed = False
        self._called_at: int | None = None
        self._block = self._begin(marker_options)
        self.report = RecordedTest(self)
        self._installed = ExitStack()
        try:
            self._install(marker_options)
        except BaseException:
            self._installed.close()
            raise

    @property
    def run(self) -> LiveRun:
        return self._block.run

    @property
    def is_replay(self) -> bool:
        """Return True if no effect is executed."""
        return self._block.is_replay or (self.run.substitutes is not None and self.run.substitutes.executes_nothing)

    # Begin

    def _begin(self, marker_options: MarkerOptions) -> BlockRun:
        try:
            if marker_options.cassette is not None:
                return self._begin_cassette(marker_options, marker_options.cassette)
            if self.mode == ALL or (self.mode in (ONCE, NEW) and not self.path.exists()):
                return self._begin_recording()
            if not self.path.exists():
                raise NotFound(f"{self.item.nodeid} has no recording", code="no_recording")
            store, run = read_recording(self.path)
            if self.mode != NEW:
                return self._begin_replay(store, run)
            block = self._begin_recording()  # it serves what the old recording has
            block.run.substitutes = RecordSubstitutes(block.run, EarlierRecord(OwnRecording(store, run)))
            return block
        except OnrecordError as reason:
            self._refusal = reason
            block = self._begin_recording()
            block.run.substitutes = _RefusingSubstitutes(block.run, reason)
            return block

    def _begin_recording(self) -> BlockRun:
        return BlockRun.recorded(MemoryStore(), names.run_id(self.item), {"recording": self.item.nodeid})

    def _begin_replay(self, store: MemoryStore, run: str) -> BlockRun:
        for entry in OwnRecording(store, run).scan():
            if isinstance(entry.event, ProcessAttached) and isinstance(entry.event.process, dict):
                self._called_at = entry.event.process.get(CALLED, self._called_at)
        return BlockRun.replayed(store, run)

    def _begin_cassette(self, marker_options: MarkerOptions, name: str | bool) -> BlockRun:
        store = MemoryStore()
        reader = read_as_run(store, cassette_path(self.item, name), redacts=False)
        block = self._begin_recording()
        block.run.substitutes = CassetteSubstitutes(block.run, EarlierRecord(reader), marker_options.match_on)
        return block

    def _install(self, marker_options: MarkerOptions) -> None:
        self._installed.enter_context(http_interceptors())
        if marker_options.cassette is None:
            self._installed.enter_context(mcp_interceptors())
        if marker_options.cassette is None and self._refusal is None:
            self._installed.enter_context(draw_interceptors())
        note = None if self.is_replay else functools.partial(_note_unrecorded, self.item)
        allowed = self.item.config.getini("onrecord_allow_hosts")
        self._installed.enter_context(watch_network(self.run, allowed, note))

    # Phases

    @contextmanager
    def set_up_fixture(self, fixture: pytest.FixtureDef[Any]) -> Iterator[None]:
        function = fixture.func
        with self._report_stop(), self._block.here():
            if inspect.isasyncgenfunction(function) or inspect.iscoroutinefunction(function):
                fixture.func = self._enter_run_in(function)  # type: ignore[misc]
            try:
                yield
            finally:
                fixture.func = function  # type: ignore[misc]

    @contextmanager
    def call_test(self) -> Iterator[None]:
        """Call the test function. A test without a usable recording may skip itself, but it cannot pass."""
        with self._report_stop(), self._block.here():
            try:
                yield
            except BaseException as error:
                if self.run.stopped is None and self._refusal is None and _is_intended(self.item, error):
                    self._note_return()
                raise
        if self._refusal is not None:
            raise self._make_failure(self._refusal)
        self._note_return()

    @contextmanager
    def wrap_function(self, item: pytest.Function) -> Iterator[None]:
        function = item.obj
        if not inspect.iscoroutinefunction(function):
            yield
            return
        item.obj = self._enter_run_in(function)
        try:
            yield
        finally:
            item.obj = function

    @contextmanager
    def tear_down(self) -> Iterator[None]:
        with self._block.here():
            yield

    @contextmanager
    def leave_run(self) -> Iterator[None]:
        with self._block.elsewhere():
            yield

    def finish(self) -> None:
        """End the run after the teardown of the last fixture."""
        self._block.leave()
        try:
            if self._has_passed:
                self._end()
        finally:
            self._block.close()
            self._installed.close()

    def _end(self) -> None:
        run = self.run
        try:
            if run.journal is not None and self._called_at is not None and run.next_seq - 1 > self._called_at:
                run.note(ProcessAttached({CALLED: self._called_at}))
            self._block.end()
            if self._must_write() and write_recording(run.reader.store, run.name, self.path):
                summary.note_recorded(self.item.config, self.path)
        except OnrecordError as reason:
            raise self._make_failure(reason) from None

    def _must_write(self) -> bool:
        """Return False if everything was served from the recording: it is complete already."""
        substituted = self.run.substitutes
        return not self.is_replay and (
            not isinstance(substituted, RecordSubstitutes) or bool(substituted.executed or substituted.unserved)
        )

    # Test function

    def _enter_run_in(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the coroutine function so that it enters the run itself, in whatever task it is executed."""
        if inspect.isasyncgenfunction(function):

            @functools.wraps(function)
            async def generated(*args: Any, **kwargs: Any) -> Any:
                inner = function(*args, **kwargs)
                while True:
                    with self._enter_run():
                        try:
                            value = await anext(inner)
                        except StopAsyncIteration:
                            return
                    yield value

            return generated

        @functools.wraps(function)
        async def awaited(*args: Any, **kwargs: Any) -> Any:
            with self._enter_run():
                return await function(*args, **kwargs)

        return awaited

    @contextmanager
    def _enter_run(self) -> Iterator[None]:
        with self._block.in_task(), self._report_stop():
            yield

    def _note_return(self) -> None:
        """Note that the function has returned. Fail if it has not made a recorded request."""
        run, history = self.run, self.run.history
        if run.journal is not None:
            self._called_at = run.next_seq - 1
        elif history is not None:
            last = history.last_seq if self._called_at is None else self._called_at
            left = next(iter(run.kernel.history.unmade_requests()), None)
            if left is not None and seq_of(left[0]) <= last:
                position, request = left
                missing = Diverged(request.lane, request, "ended", "removed", position)
                raise self._make_failure(explain_stop(run, missing))
        self._has_passed = True

    # Failures

    @contextmanager
    def _report_stop(self) -> Iterator[None]:
        """Fail the test if its run has stopped, even if the test swallowed the error."""
        try:
            yield
        except RunStopped as stopped:
            raise self._make_failure(stopped.reason, find_own_line(stopped.__traceback__)) from None
        except (KeyboardInterrupt, pytest.exit.Exception):
            raise
        except BaseException:
            if self.run.stopped is not None:
                raise self._make_failure(self.run.stopped) from None
            raise
        if self.run.stopped is not None:
            raise self._make_failure(self.run.stopped)

    def _make_failure(self, reason: OnrecordError, line: str = "") -> BaseException:
        text = failure_text(reason, line=line, nearest=self._nearest_request(reason), advice=self._find_advice(reason))
        return NotReplayed(text, pytrace=False)

    def _nearest_request(self, reason: OnrecordError) -> Any:
        seq = reason.where.get("nearest") if isinstance(reason, Divergence) else None
        return (
            self.run.reader.event(seq).event.content()
            if isinstance(seq, int) and self.run.history is not None
            else None
        )

    def _find_advice(self, reason: OnrecordError) -> str:
        if self._cassette is not None or isinstance(reason, NetworkBlocked):
            return reason.hint
        if self.path.exists():
            return f"Record it again: {names.record_command(self.item, ALL)}"
        return f"Record it: {names.record_command(self.item, ONCE)}"


def _is_intended(item: pytest.Function, error: BaseException) -> bool:
    """Return True if the test ends as intended: it skips itself, or it is marked to fail. It is recorded until then."""
    if isinstance(error, (pytest.skip.Exception, pytest.xfail.Exception)):
        return True
    return isinstance(error, Exception) and any(
        mark.args[:1] in ((), (True,)) and mark.kwargs.get("condition", True) is True
        and isinstance(error, mark.kwargs.get("raises") or Exception)
        for mark in item.iter_markers("xfail")
    )  # fmt: skip


def _note_unrecorded(item: pytest.Function, what: str) -> None:
    summary.note_unrecorded(item.config, f"{item.nodeid}: {what}")
