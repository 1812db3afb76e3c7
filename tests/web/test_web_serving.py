"""`onrecord serve`, as a process: what it says, how it ends, and what it refuses."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

from kit import command_server
from kit.web import PLAIN, events_of_stream, record, states, until
from onrecord.extras import install_command

RUNNING = [sys.executable, "-W", "error", "-m", "onrecord.cli.main", "serve"]


@contextmanager
def server(*arguments: str, ends_with: int = 0) -> Iterator[tuple[subprocess.Popen[str], Any]]:
    process = subprocess.Popen(
        [*RUNNING, "--port", "0", "--json", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        assert line, process.communicate()[1]
        yield process, json.loads(line)
    finally:
        if process.poll() is None:
            process.terminate()
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (ends_with, "", "")


def refused(*arguments: str, **environment: str) -> tuple[int, list[str]]:
    done = command_server.call(["serve", *arguments], env={**os.environ, **environment})
    return done.returncode, done.stderr.splitlines()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_cleanly(path: str, number: int) -> None:
    record(path, "first")
    with server("--store", path) as (process, said):
        headers = {"Authorization": f"Bearer {said['token']}"}
        assert httpx.get(said["url"] + "api/v1/runs/first", headers=headers, **PLAIN).status_code == 200
        process.send_signal(number)
        assert process.wait(60) == 0


def test_it_ends_while_somebody_follows_and_somebody_stalls(path: str) -> None:
    record(path, "going", states(2_000, 4_000))
    with server("--store", path) as (process, said):
        headers = {"Authorization": f"Bearer {said['token']}"}
        url = said["url"] + "api/v1/runs/going/follow"
        read: list[dict[str, str]] = []

        def follow() -> None:
            with httpx.stream("GET", url + "?after=1999", headers=headers, **PLAIN) as answer:
                for event in events_of_stream(answer.iter_lines()):
                    read.append(event)  # noqa: PERF402 - as they come

        follower = threading.Thread(target=follow)
        follower.start()
        with socket.create_connection(("127.0.0.1", int(said["url"].rsplit(":", 1)[1].strip("/")))) as stalled:
            line = "GET /api/v1/runs/going/follow HTTP/1.1\r\nHost: localhost"
            stalled.sendall(f"{line}\r\nAuthorization: {headers['Authorization']}\r\n\r\n".encode())
            assert stalled.recv(10)
            until(lambda: any("id" in one for one in read))
            process.send_signal(signal.SIGTERM)
            assert process.wait(15) == 0
        follower.join(10)
    assert [one["id"] for one in read if "id" in one] == ["2000"]


def test_what_is_printed_for_people(path: str) -> None:
    record(path, "first")
    with subprocess.Popen(
        [*RUNNING, "--port", "0", "--store", path], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        address = process.stdout.readline().strip()
        token = process.stderr.readline()
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/login\?code=[\w-]{43}", address)
        bearer = re.search(r"Authorization: Bearer ([\w-]{43})$", token.strip())
        assert bearer is not None
        with httpx.Client(**PLAIN) as browser:
            assert browser.get(address).status_code == 303
            runs = browser.get(httpx.URL(address).join("/api/v1/runs"))
            assert [one["run"] for one in runs.json()["runs"]] == ["first"]
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
        rest = process.stderr.read()
        assert bearer[1] not in rest
        assert "stopped" in rest


def test_nothing_of_a_request_is_logged(path: str) -> None:
    """The context asserts that stdout and stderr stay empty."""
    record(path, "first")
    with server("--store", path) as (_, said):
        httpx.get(said["login_url"], **PLAIN)
        httpx.get(said["url"] + "api/v1/waits/secret-key", **PLAIN)
        port = int(said["url"].rsplit(":", 1)[1].strip("/"))
        with socket.create_connection(("127.0.0.1", port)) as connection:
            connection.sendall(b"NONSENSE\r\n\r\n")
            connection.recv(1000)


def test_without_auth_it_says_so(path: str) -> None:
    record(path, "first")
    with server("--store", path, "--no-auth") as (_, said):
        assert said["token"] is None
        assert said["login_url"] == said["url"]
        assert httpx.get(said["url"] + "api/v1/runs", **PLAIN).status_code == 200


def test_a_port_that_is_in_use_is_two_lines(path: str) -> None:
    record(path, "first")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        status, lines = refused("--store", path, "--port", str(taken.getsockname()[1]))
    assert status == 5
    assert len(lines) == 2
    assert lines[0].endswith("is in use [port_in_use]")
    assert "--port" in lines[1]


@pytest.mark.parametrize(
    ("arguments", "status", "code"),
    [
        (["--host", "0.0.0.0"], 2, "no_allowed_hosts"),
        (["--host", "0.0.0.0", "--no-auth", "--allow-host", "x.example"], 2, "not_loopback"),
        (["--host", "192.0.2.1", "--allow-host", "x.example"], 5, "address_unavailable"),
        (["--host", "no.such.host.invalid", "--allow-host", "x.example"], 5, "address_unavailable"),
        (["--port", "65536"], 2, "usage"),
        (["--namespace", "../x"], 2, "bad_namespace"),
    ],
)
def test_what_cannot_be_served_is_two_lines(path: str, arguments: list[str], status: int, code: str) -> None:
    record(path, "first")
    found, lines = refused("--store", path, *arguments)
    assert (found, len(lines)) == (status, 2), lines
    assert lines[0].endswith(f"[{code}]")


def test_a_store_that_is_not_there_is_not_made(path: str) -> None:
    status, lines = refused("--store", path)
    assert (status, len(lines)) == (3, 2)
    assert lines[0].endswith("[no_store]")
    assert not os.path.exists(path)


@pytest.mark.parametrize("package", ["starlette", "uvicorn"])
def test_without_the_extra_it_is_said_what_to_install(path: str, package: str) -> None:
    record(path, "first")
    code = (
        f"import sys; sys.modules[{package!r}] = None\n"
        f"sys.argv = ['onrecord', 'serve', '--store', {path!r}]\n"
        "from onrecord.cli.main import run; run()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    lines = done.stderr.splitlines()
    assert (done.returncode, len(lines)) == (5, 2), done.stderr
    assert lines[0].endswith("[missing_extra]")
    assert lines[1] == install_command("web")


def test_no_other_command_loads_the_server() -> None:
    code = (
        "import sys; from onrecord.cli.main import cli\n"
        "import onrecord.cli.commands.ls, onrecord.cli.commands.show\n"
        "import onrecord.cli.commands.diff, onrecord.cli.commands.serve\n"
        "assert not [name for name in sys.modules if name.split('.')[0] in ('starlette', 'uvicorn', 'h11', 'anyio')]"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0


def test_what_other_processes_write_is_seen_at_once(url: str) -> None:
    record(url, "first")
    with server("--store", url) as (_, said):
        headers = {"Authorization": f"Bearer {said['token']}"}
        record(url, "second")
        answer = httpx.get(said["url"] + "api/v1/runs/@last", headers=headers, **PLAIN)
        assert answer.json()["run"] == "second"
