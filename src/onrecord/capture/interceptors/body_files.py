"""Recorded body as a file object, for libraries that read responses from a file."""

from __future__ import annotations

from collections.abc import Callable, Iterator


class BodyFile:
    """File over the parts of a body. It takes a part only when a read needs it."""

    def __init__(self, parts: Iterator[bytes], close: Callable[[], None]) -> None:
        self._parts = parts
        self._close = close
        self._buffer = b""
        self._at_end = False
        self.closed = False

    def read(self, amount: int | None = None) -> bytes:
        if amount is None or amount < 0:
            pieces: list[bytes] = []
            try:
                while self._buffer or self._pull():
                    pieces.append(self._take(len(self._buffer)))
            except Exception:
                self._buffer = b"".join(pieces)
                raise
            return b"".join(pieces)
        while len(self._buffer) < amount and self._pull():
            pass
        return self._take(amount)

    def read1(self, amount: int | None = -1) -> bytes:
        if not self._buffer:
            self._pull()
        return self._take(len(self._buffer) if amount is None or amount < 0 else amount)

    def peek(self, amount: int = -1) -> bytes:
        if not self._buffer:
            self._pull()
        return self._buffer

    def readline(self, limit: int = -1) -> bytes:
        while b"\n" not in self._buffer and (limit < 0 or len(self._buffer) < limit) and self._pull():
            pass
        end = self._buffer.find(b"\n") + 1 or len(self._buffer)
        return self._take(end if limit < 0 else min(end, limit))

    def readinto(self, into: bytearray | memoryview) -> int:
        data = self.read(len(into))
        into[: len(data)] = data
        return len(data)

    def next_part(self) -> bytes:
        """Return the next part of the body as it was received, or b"" at the end."""
        return self.read1()

    def flush(self) -> None:
        """Do nothing: the file is read-only."""

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self._buffer = b""
            if not self._at_end:
                self._close()

    def _take(self, amount: int) -> bytes:
        taken, self._buffer = self._buffer[:amount], self._buffer[amount:]
        return taken

    def _pull(self) -> bool:
        if self.closed or self._at_end:
            return False
        part = next(self._parts, None)
        if part is None:
            self._at_end = True
            return False
        self._buffer += part
        return True
