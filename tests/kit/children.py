"""Processes forked from the test itself: what one does is a function of the test, and it reports over a pipe."""

from __future__ import annotations

import os
import select
import signal
import struct
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

HANG_SECONDS = 60
_RECORD = struct.Struct(">cQ32s")
_READY, _ACK, _ERROR = b"R", b"A", b"E"


class Hangs(BaseException):
    """No Exception, so that nothing under test takes it for one of its own."""


@contextmanager
def no_hanging(seconds: float = HANG_SECONDS) -> Iterator[None]:
    """Raise Hangs in a block that takes longer."""

    def ring(*_: object) -> None:
        raise Hangs(f"nothing happened for {seconds} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


class Pipe:
    """The child's end: what is written here was returned by `append` before. One write for each batch, which the
    kernel takes whole."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def ready(self) -> None:
        os.write(self._descriptor, _RECORD.pack(_READY, 0, bytes(32)))

    def ack(self, done: list[tuple[int, str]], synced: bool = True) -> None:
        os.write(self._descriptor, b"".join(_RECORD.pack(_ACK, seq, bytes.fromhex(h[7:])) for seq, h in done))

    def error(self, text: str) -> None:
        data = text.encode()[-30_000:]
        os.write(self._descriptor, _RECORD.pack(_ERROR, len(data), bytes(32)) + data)


class Child:
    """A forked process that runs `work(pipe, stopped)` and never returns into the test runner."""

    def __init__(self, work: Callable[[Pipe, Callable[[], bool]], None]) -> None:
        reading, writing = os.pipe()
        stop_reading, stop_writing = os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # the test runner has threads; none of them is ours
            self.pid = os.fork()
        if self.pid == 0:
            status = 1
            try:
                signal.setitimer(signal.ITIMER_REAL, 0)
                os.close(reading)
                os.close(stop_writing)
                pipe = Pipe(writing)
                try:
                    work(pipe, lambda: bool(select.select([stop_reading], [], [], 0)[0]))
                    status = 0
                except BaseException:
                    pipe.error(traceback.format_exc())
            finally:
                os._exit(status)
        os.close(writing)
        os.close(stop_reading)
        self._reading = reading
        self._stop_writing = stop_writing
        self._data = b""
        self._ended = False

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_: object) -> None:
        """Kill the child, also when it is stopped or endless and the test failed."""
        if not self._ended:
            self.kill()
            self.end()

    def wait_ready(self) -> None:
        self._wait_for(_READY)

    def wait_acknowledged(self) -> None:
        """Wait for the first acknowledgement."""
        self._wait_for(_ACK)

    def _wait_for(self, sort: bytes) -> None:
        """Wait for a record of this sort, or for the end of the process."""
        while not any(self._data[at : at + 1] == sort for at in range(0, len(self._data), _RECORD.size)):
            more = os.read(self._reading, 1 << 16)
            if not more:
                return
            self._data += more

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)

    def stop(self) -> None:
        os.write(self._stop_writing, b"x")

    def end(self) -> tuple[int, list[tuple[int, bytes]], str]:
        """Wait for the end. Return the exit status (negative: the signal), what was acknowledged, and the error."""
        chunks = [self._data]
        while more := os.read(self._reading, 1 << 20):
            chunks.append(more)
        _, status = os.waitpid(self.pid, 0)
        self._ended = True
        os.close(self._reading)
        os.close(self._stop_writing)
        return os.waitstatus_to_exitcode(status), *_parse(b"".join(chunks))


def _parse(data: bytes) -> tuple[list[tuple[int, bytes]], str]:
    acked: list[tuple[int, bytes]] = []
    at = 0
    while at < len(data):
        sort, number, digest = _RECORD.unpack_from(data, at)
        at += _RECORD.size
        if sort == _ACK:
            acked.append((number, digest))
        elif sort == _ERROR:
            return acked, data[at : at + number].decode()
    return acked, ""
