"""Connections: bounded in time, checked when opened, few, and never shared with a child process.

Every wait ends: connecting (connect_timeout), a statement (statement_timeout), a lock (lock_timeout), a dead peer
(keepalives, tcp_user_timeout), a silent peer (a deadline on our side, because none of the others detects a proxy that
drops data), and the queue of the pool. The pool is small and our own: it has no threads that a fork() would lose, and
each connection knows its server process, which is needed to decide a lost append (`appends.py`).
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
import select
import threading
import time
import weakref
from collections.abc import Iterator
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

import psycopg
from psycopg import conninfo, errors
from psycopg.abc import PQGen

from onrecord.errors import Damaged, InvalidInput, OnrecordError, Refused, SchemaMismatch, StoreError, StoreUnavailable
from onrecord.store.postgres import arrays

Row = tuple[Any, ...]


@dataclasses.dataclass(frozen=True)
class Timeouts:
    """Time limits in seconds. `answer`, the client's limit, must exceed `statement`: a slow server can then answer."""

    connect: float = 5.0
    statement: float = 15.0
    lock: float = 8.0
    answer: float = 20.0
    pool: float = 15.0
    resolve: float = 20.0
    """How long to determine the outcome of an append whose connection broke, before it is OutcomeUnknown."""


class Backend(NamedTuple):
    """The server process of a connection. A pid can be reused; together with its start time it is unique."""

    pid: int
    start: Any


class Lost(Exception):
    """The connection broke or stayed silent during a call: its outcome is unknown."""

    def __init__(self, backend: Backend, cause: Exception) -> None:
        super().__init__(str(cause))
        self.backend = backend


class Connection(psycopg.Connection[Row]):
    """A connection on which every wait is bounded."""

    patience = 20.0
    backend = Backend(0, None)
    standby = False

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.prepared: set[bytes] = set()
        """Names of the statements that `prepared_calls.py` has prepared in this server process."""
        self._poll = select.poll()
        self._poll.register(self.pgconn.socket, select.POLLIN)

    def wait(self, gen: PQGen[Any], interval: float = 0.1, timeout: float | None = None) -> Any:
        return super().wait(gen, interval, self.patience if timeout is None else timeout)

    def is_idle(self) -> bool:
        return self.pgconn.transaction_status == psycopg.pq.TransactionStatus.IDLE

    def roll_back(self) -> bool:
        with contextlib.suppress(psycopg.Error):
            self.execute("rollback")
        return self.is_idle()

    def is_usable(self) -> bool:
        """Return False if the server closed the idle connection. Needs no round trip."""
        if self.closed:
            return False
        if not self._poll.poll(0):
            return True
        try:
            self.pgconn.consume_input()
        except psycopg.Error:
            return False
        return not self._poll.poll(0)  # a notice has been read by now; an end of file is still readable


def mask_password(url: str) -> str:
    """Return the URL for messages, without its password."""
    url = re.sub(r"(?i)([?&\s]?\b(?:ssl)?password\s*=\s*)('(?:[^'\\]|\\.)*'|[^&\s]*)", r"\1***", url)
    return re.sub(r"(://[^/?#@:]*):[^/?#]*@", r"\1:***@", url)


def list_passwords(url: str) -> set[str]:
    """Return the passwords that must not appear in the text of a driver's error."""
    found: set[str] = set()
    with contextlib.suppress(Exception):
        found.add(str(conninfo.conninfo_to_dict(url).get("password") or ""))
    with contextlib.suppress(ValueError):
        password = urlsplit(url).password or ""
        found |= {password, unquote(password)}
    found.add(os.environ.get("PGPASSWORD", ""))
    return {password for password in found if password}


# Plans are kept, and a plan made while a table was small must be right when it has grown: every query here has an
# index, so sequential scans are not considered.
SETUP = """
select set_config('statement_timeout', %s, false), set_config('lock_timeout', %s, false),
    set_config('idle_in_transaction_session_timeout', %s, false),
    set_config('search_path', 'pg_catalog, pg_temp', false),
    set_config('default_transaction_isolation', 'read committed', false),
    set_config('client_min_messages', 'error', false), set_config('jit', 'off', false),
    set_config('enable_seqscan', 'off', false), set_config('enable_bitmapscan', 'off', false),
    set_config('synchronous_commit',
        case when %s then 'off' else current_setting('synchronous_commit') end, false)
"""
FACTS = """
select pg_backend_pid(), (select a.backend_start from pg_stat_activity a where a.pid = pg_backend_pid()),
    pg_is_in_recovery(),
    current_setting('synchronous_commit'), current_setting('fsync'), current_setting('full_page_writes'),
    current_setting('server_version_num')::int, current_setting('server_encoding')
"""


class ConnectionPool:
    """Keeps at most `size` connections, opened when needed, the last used first."""

    def __init__(self, url: str, *, durability: str, size: int, timeouts: Timeouts) -> None:
        self.url = url
        self.shown = mask_password(url)
        self.durability = durability
        self.size = size
        self.timeouts = timeouts
        self._secrets = list_passwords(url)
        self._closed = False
        self._reset()
        _pools.add(self)

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._condition = threading.Condition(self._lock)
        self._idle: list[Connection] = []
        self._made = 0

    def abandon(self) -> None:
        """Drop the parent's connections in the child of a fork. Closing them would end the parent's sessions."""
        _inherited.extend(self._idle)
        self._reset()

    # All errors are translated here

    def unavailable(self, what: str, error: BaseException | None = None) -> StoreUnavailable:
        detail = f": {self.clean(error)}" if error is not None else ""
        return StoreUnavailable(f"{what} ({self.shown}){detail}")

    def clean(self, error: BaseException) -> str:
        # Only the primary message: its details quote the row.
        primary = error.diag.message_primary if isinstance(error, psycopg.Error) else None
        text = " ".join((primary or str(error)).split())
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return mask_password(text)

    def translate(self, error: Exception) -> OnrecordError:
        """Translate a database error after which the connection is usable. The statement was rolled back."""
        if isinstance(error, errors.LockNotAvailable):
            return self.unavailable("another writer held the lock for too long; nothing was written")
        if isinstance(error, errors.QueryCanceled):
            return self.unavailable("the database took too long; nothing was written")
        if isinstance(error, errors.ReadOnlySqlTransaction):
            return self.unavailable("the database is read-only; nothing was written")
        if isinstance(
            error, (errors.UndefinedTable, errors.UndefinedFunction, errors.UndefinedColumn, errors.InvalidSchemaName)
        ):
            return SchemaMismatch(f"the schema `onrecord` is not what this version made ({self.shown})")
        if isinstance(error, errors.InsufficientPrivilege):
            return self.unavailable("the database role lacks a permission", error)
        if isinstance(error, (errors.DataCorrupted, errors.IndexCorrupted)):
            return Damaged(f"the database reports damage ({self.shown}): {self.clean(error)}")
        if isinstance(error, (psycopg.DataError, UnicodeError, OverflowError)):
            # The error's own text may quote the value.
            return InvalidInput(f"Postgres cannot keep a text or number of this call ({type(error).__name__})")
        if isinstance(error, psycopg.IntegrityError):
            return Refused(
                f"the rows break a rule of their table ({error.diag.constraint_name or error.sqlstate});"
                " nothing was written"
            )
        if isinstance(error, psycopg.Error) and error.sqlstate == "RE001":
            return StoreError(self.clean(error))
        return self.unavailable(
            f"the database refused ({getattr(error, 'sqlstate', None) or type(error).__name__})", error
        )

    # Connections

    def connect(self) -> Connection:
        timeouts = self.timeouts
        milliseconds = {
            name: str(max(1, int(getattr(timeouts, name) * 1000))) for name in ("statement", "lock", "answer")
        }
        try:
            connection = Connection.connect(
                self.url,
                autocommit=True,
                prepare_threshold=0,
                connect_timeout=max(2, round(timeouts.connect)),
                keepalives=1,
                keepalives_idle=5,
                keepalives_interval=2,
                keepalives_count=3,
                tcp_user_timeout=int(milliseconds["answer"]),
                application_name="onrecord",
            )
        except (psycopg.Error, UnicodeError) as error:
            raise self.unavailable("cannot reach the database", error) from None
        try:
            connection.patience = timeouts.connect
            arrays.register(connection)
            connection.execute(
                SETUP,
                (milliseconds["statement"], milliseconds["lock"], milliseconds["answer"], self.durability == "relaxed"),
            )
            facts = connection.execute(FACTS).fetchone()
            assert facts is not None
            connection.backend = Backend(facts[0], facts[1])
            connection.standby = facts[2]
            connection.patience = timeouts.answer
            self._check_settings(*facts[3:])
        except psycopg.Error as error:
            discard(connection)
            raise self.unavailable("the database did not accept the session", error) from None
        except OnrecordError:
            discard(connection)
            raise
        return connection

    def _check_settings(
        self, synchronous_commit: str, fsync: str, full_page_writes: str, version: int, encoding: str
    ) -> None:
        if version < 140000:
            raise self.unavailable(f"Postgres 14 or later is needed, this is {version // 10000}")
        if encoding != "UTF8":
            raise self.unavailable(f"the database's encoding must be UTF8, it is {encoding}")
        if self.durability == "relaxed":
            return
        settings = {"synchronous_commit": synchronous_commit, "fsync": fsync, "full_page_writes": full_page_writes}
        weak = [f"{name}={value}" for name, value in settings.items() if value == "off"]
        if weak:
            raise StoreUnavailable(
                f"the database acknowledges commits that a power loss can undo: {', '.join(weak)} ({self.shown})",
                hint="Turn the setting on, or open the store with durability='relaxed' to accept that.",
            )

    @contextlib.contextmanager
    def connection(self, *, writing: bool = False, seconds: float | None = None) -> Iterator[Connection]:
        """Lend a connection for one piece of work. A broken one raises `Lost`; other database errors are translated."""
        connection = self._take(self.timeouts.pool if seconds is None else seconds)
        keep = False
        try:
            if writing and connection.standby:
                discard(connection)  # it may be promoted by now: the next attempt asks again
                raise self.unavailable("this is a standby server: it can only be read")
            yield connection
            keep = True
        except (psycopg.Error, UnicodeError, OverflowError) as error:
            # After a time-out on our side the answer is still on its way: as lost as with a broken socket.
            lost = connection.broken or connection.closed or isinstance(error, errors._WaitTimeout)
            lost = lost or (isinstance(error, psycopg.OperationalError) and error.sqlstate is None)
            # The server announces its end (57P01 to 57P05: shutdown, crash, terminated); the call may have been
            # committed before that.
            lost = lost or str(getattr(error, "sqlstate", None)).startswith("57P")
            if lost:
                raise Lost(connection.backend, RuntimeError(self.clean(error))) from None
            keep = True
            if isinstance(error, (errors.SerializationFailure, errors.DeadlockDetected, errors.UniqueViolation)):
                raise
            raise self.translate(error) from None
        except OnrecordError:
            keep = True
            raise
        finally:
            # Interrupted (Ctrl-C) or lost: the state of the protocol is unknown, so the connection is discarded.
            self._give_back(connection, keep)

    def _take(self, seconds: float) -> Connection:
        deadline = time.monotonic() + seconds
        with self._lock:
            while True:
                if self._closed:
                    raise self.unavailable("the store was closed")
                while self._idle:
                    connection = self._idle.pop()
                    if connection.is_usable():
                        return connection
                    discard(connection)
                    self._made -= 1
                if self._made < self.size:
                    self._made += 1
                    break
                remaining = deadline - time.monotonic()
                if remaining <= 0 or not self._condition.wait(remaining):
                    raise self.unavailable(f"all {self.size} connections were in use for {seconds:g} seconds")
        try:
            return self.connect()
        except BaseException:
            with self._lock:
                self._made -= 1
                self._condition.notify()
            raise

    def _give_back(self, connection: Connection, keep: bool) -> None:
        if keep and not self._closed and (connection.is_idle() or connection.roll_back()):
            with self._lock:
                self._idle.append(connection)
                self._condition.notify()
            return
        discard(connection)
        with self._lock:
            self._made -= 1
            self._condition.notify()

    def grow(self) -> None:
        """Allow one connection more, until `shrink`."""
        with self._lock:
            self.size += 1
            self._condition.notify()

    def shrink(self) -> None:
        with self._lock:
            self.size -= 1
            surplus = self._idle.pop(0) if self._idle and self._made > self.size else None
            self._made -= surplus is not None
        if surplus is not None:
            discard(surplus)

    def close(self) -> None:
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
            self._condition.notify_all()
        for connection in idle:
            discard(connection)


def discard(connection: Connection) -> None:
    with contextlib.suppress(Exception):
        connection.close()


_pools: weakref.WeakSet[ConnectionPool] = weakref.WeakSet()
_inherited: list[Connection] = []


def _after_fork() -> None:
    for pool in list(_pools):
        pool.abandon()


os.register_at_fork(after_in_child=_after_fork)
