"""One test as a run: recorded, replayed, or answered by what was recorded before.

| mode | there is a recording | there is none |
|---|---|---|
| none | replayed, strictly | fails |
| once | replayed, strictly | recorded |
| new | what it has is served, the rest is carried out; recorded as a whole | recorded |
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

from reenact.capture.blocks import Block, OwnRecording
from reenact.capture.cassettes.playing import Played, read_as_run
from reenact.capture.seams import chance
from reenact.capture.seams.all_seams import clock_and_chance, http_seams, mcp_seams
from reenact.capture.served import EarlierRecord, Served
from reenact.core.events import ProcessAttached
from reenact.effect.divergences import resting_too_early
from reenact.effect.live_run import LiveRun
from reenact.effect.places import PLACE
from reenact.effect.stopping import Divergence, RunStopped
from reenact.errors import NotFound, ReenactError
from reenact.pytest_plugin import naming, unused
from reenact.pytest_plugin.files import read_recording, write_recording
from reenact.pytest_plugin.findings import Reenacted
from reenact.pytest_plugin.network import NetworkBlocked, watched
from reenact.pytest_plugin.options import ALL, NEW, ONCE, Asked, cassette_path, mode_of
from reenact.pytest_plugin.telling import failure_text, own_line
from reenact.store.memory import MemoryStore

if TYPE_CHECKING:
    from reenact.effect.tickets import Ticket

CALLED = "test_called"
"""Noted in a record that goes on behind the test's own function: up to where that went."""


class _Refused(Served):
    """There is nothing to go by: whatever the test asks for stops it."""

    is_mocked = True

    def __init__(self, run: LiveRun, reason: ReenactError) -> None:
        super().__init__(run, EarlierRecord(run.reader))
        self._reason = reason

    def _missing(self, ticket: Ticket) -> None:
        self._run.stop_here(self._reason)


class NotReenacted(Failed):
    """A test that was not handed what it asked for. No mark makes that the failure that was expected of it."""


class CarriedTest:
    def __init__(self, item: pytest.Function, asked: Asked) -> None:
        self.item = item
        self.mode = mode_of(item, asked)
        self.path = naming.recording_path(item)
        self._cassette = asked.cassette
        self._refused: ReenactError | None = None
        self._has_passed = False
        self._called_at: int | None = None
        self._block = self._begun(asked)
        self.findings = Reenacted(self)
        self._around = ExitStack()
        try:
            self._put_around(asked)
        except BaseException:
            self._around.close()
            raise

    @property
    def run(self) -> LiveRun:
        return self._block.run

    @property
    def is_replay(self) -> bool:
        """Nothing is live."""
        return self._block.is_replay or (self.run.stand_ins is not None and self.run.stand_ins.touches_nothing)

    # Beginning

    def _begun(self, asked: Asked) -> Block:
        try:
            if asked.cassette is not None:
                return self._played(asked, asked.cassette)
            if self.mode == ALL or (self.mode in (ONCE, NEW) and not self.path.exists()):
                return self._recorded()
            if not self.path.exists():
                raise NotFound(f"{self.item.nodeid} has no recording", code="no_recording")
            store, run = read_recording(self.path)
            return self._completed(store, run) if self.mode == NEW else self._replayed(store, run)
        except ReenactError as reason:
            self._refused = reason
            block = self._recorded()
            block.run.stand_ins = _Refused(block.run, reason)
            return block

    def _recorded(self) -> Block:
        return Block.recorded(MemoryStore(), naming.run_id(self.item), {"recording": self.item.nodeid})

    def _replayed(self, store: MemoryStore, run: str) -> Block:
        for entry in OwnRecording(store, run).scan():
            if isinstance(entry.event, ProcessAttached) and isinstance(entry.event.process, dict):
                self._called_at = entry.event.process.get(CALLED, self._called_at)
        return Block.replayed(store, run)

    def _completed(self, store: MemoryStore, run: str) -> Block:
        """What is recorded is served; its record is another one, which is whole again."""
        block = self._recorded()
        block.run.stand_ins = Served(block.run, EarlierRecord(OwnRecording(store, run)))
        return block

    def _played(self, asked: Asked, name: str | bool) -> Block:
        store = MemoryStore()
        reader = read_as_run(store, cassette_path(self.item, name), redacts=False)
        block = self._recorded()
        block.run.stand_ins = Played(block.run, EarlierRecord(reader), asked.match_on)
        return block

    def _put_around(self, asked: Asked) -> None:
        self._around.enter_context(http_seams())
        if asked.cassette is None:
            self._around.enter_context(mcp_seams())
        if asked.cassette is None and self._refused is None:
            self._around.enter_context(clock_and_chance())
            with self._block.here():
                chance.begin()
        note = None if self.is_replay else functools.partial(_note_unseen, self.item)
        allowed = self.item.config.getini("reenact_allow_hosts")
        self._around.enter_context(watched(self.run, allowed, note))

    # Its phases

    @contextmanager
    def setting_up(self, fixture: pytest.FixtureDef[Any]) -> Iterator[None]:
        function = fixture.func
        with self._failing(), self._block.here():
            if inspect.isasyncgenfunction(function) or inspect.iscoroutinefunction(function):
                fixture.func = self._in_place(function)  # type: ignore[misc]
            try:
                yield
            finally:
                fixture.func = function  # type: ignore[misc]

    @contextmanager
    def calling(self) -> Iterator[None]:
        """A test that has nothing to go by may still skip itself; it cannot pass."""
        with self._failing(), self._block.here():
            self._go_along_with_unittest()
            try:
                yield
            except BaseException as error:
                if self.run.stopped is None and self._refused is None and _is_meant(self.item, error):
                    self._was_called()
                raise
        if self._refused is not None:
            raise self._failure(self._refused)
        self._was_called()

    @contextmanager
    def function_in_place(self, item: pytest.Function) -> Iterator[None]:
        function = item.obj
        if not inspect.iscoroutinefunction(function):
            yield
            return
        item.obj = self._in_place(function)
        try:
            yield
        finally:
            item.obj = function

    @contextmanager
    def tearing_down(self) -> Iterator[None]:
        with self._block.here():
            yield

    @contextmanager
    def elsewhere(self) -> Iterator[None]:
        with self._block.elsewhere():
            yield

    def torn_down(self) -> None:
        """The last of its fixtures has gone: it is over."""
        self._block.leave()
        try:
            if self._has_passed:
                self._end()
        finally:
            self._block.close()
            self._around.close()

    def _end(self) -> None:
        run = self.run
        try:
            if run.journal is not None and self._called_at is not None and run.next_seq - 1 > self._called_at:
                run.note(ProcessAttached({CALLED: self._called_at}))
            self._block.end()
            if self._is_to_be_written() and write_recording(run.reader.store, run.name, self.path):
                unused.recorded(self.item.config, self.path)
        except ReenactError as reason:
            raise self._failure(reason) from None

    def _is_to_be_written(self) -> bool:
        """What was served from the recording as a whole is the recording."""
        served = self.run.stand_ins
        return not self.is_replay and (not isinstance(served, Served) or bool(served.carried_out or served.left))

    # Its function

    def _in_place(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """A coroutine function whose context may be anybody's: it knows by itself whose it is."""
        if inspect.isasyncgenfunction(function):

            @functools.wraps(function)
            async def generated(*args: Any, **kwargs: Any) -> Any:
                inner = function(*args, **kwargs)
                while True:
                    with self._placed():
                        try:
                            value = await anext(inner)
                        except StopAsyncIteration:
                            return
                    yield value

            return generated

        @functools.wraps(function)
        async def awaited(*args: Any, **kwargs: Any) -> Any:
            with self._placed():
                return await function(*args, **kwargs)

        return awaited

    @contextmanager
    def _placed(self) -> Iterator[None]:
        before = PLACE.get()
        PLACE.set(self.run.main)
        try:
            with self._failing():
                yield
        finally:
            PLACE.set(before)

    def _go_along_with_unittest(self) -> None:
        """An `IsolatedAsyncioTestCase` has made its context when it was made itself."""
        context = getattr(self.item.instance, "_asyncioTestContext", None)
        if context is not None:
            context.run(PLACE.set, self.run.main)

    def _was_called(self) -> None:
        """The function has returned. What it should have asked for, and has not, is told now."""
        run, past = self.run, self.run.past
        if run.journal is not None:
            self._called_at = run.next_seq - 1
        elif past is not None:
            last = past.last_seq if self._called_at is None else self._called_at
            if any(request.seq <= last and not request.made for request in past.by_key.values()):
                raise self._failure(resting_too_early(run))
        self._has_passed = True

    # Failing

    @contextmanager
    def _failing(self) -> Iterator[None]:
        """Whatever the test made of it: that the run has stopped is the reason."""
        try:
            yield
        except RunStopped as stopped:
            raise self._failure(stopped.reason, own_line(stopped.__traceback__)) from None
        except (KeyboardInterrupt, pytest.exit.Exception):
            raise
        except BaseException:
            if self.run.stopped is not None:
                raise self._failure(self.run.stopped) from None
            raise
        if self.run.stopped is not None:
            raise self._failure(self.run.stopped)

    def _failure(self, reason: ReenactError, line: str = "") -> BaseException:
        text = failure_text(reason, line=line, nearest=self._nearest(reason), advice=self._advice(reason))
        return NotReenacted(text, pytrace=False)

    def _nearest(self, reason: ReenactError) -> Any:
        seq = reason.where.get("nearest") if isinstance(reason, Divergence) else None
        return (
            self.run.reader.event(seq).event.content() if isinstance(seq, int) and self.run.past is not None else None
        )

    def _advice(self, reason: ReenactError) -> str:
        if self._cassette is not None or isinstance(reason, NetworkBlocked):
            return reason.hint
        if self.path.exists():
            return f"Record it again: {naming.command(self.item, ALL)}"
        return f"Record it: {naming.command(self.item, ONCE)}"


def _is_meant(item: pytest.Function, error: BaseException) -> bool:
    """The test was to end so: it skips itself, or it was marked to fail. What it asked for until then is on record."""
    if isinstance(error, (pytest.skip.Exception, pytest.xfail.Exception)):
        return True
    return isinstance(error, Exception) and any(
        mark.args[:1] in ((), (True,)) and mark.kwargs.get("condition", True) is True
        and isinstance(error, mark.kwargs.get("raises") or Exception)
        for mark in item.iter_markers("xfail")
    )  # fmt: skip


def _note_unseen(item: pytest.Function, what: str) -> None:
    unused.unseen(item.config, f"{item.nodeid}: {what}")
