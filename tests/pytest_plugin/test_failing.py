"""What a test that does not do what was recorded says, what is kept from the network, and what is kept out of files."""

from __future__ import annotations

import base64

import pytest

from kit.plugin import Project

pytest_plugins = ["pytester"]

CHAT = """
def ask(text, **more):
    body = {"model": "gpt-4o", "messages": [{"role": "user", "content": text}], **more}
    return httpx.post(f"{URL}/v1/chat/completions", json=body)


@pytest.mark.onrecord
def test_chat():
    ask("Where is my order?")
    assert ask("And now?").status_code == 200
"""


def test_the_first_divergence_is_shown_with_both_sides(project: Project) -> None:
    path = project.write(CHAT)
    project.run("--onrecord=once").assert_outcomes(passed=1)
    path.write_text(path.read_text().replace("Where is my order?", "Where are my orders?"))
    result = project.run()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "*asked for something else*[[]conflicting_request[]]",
            "  at test_agent.py:*",
            "  /payload/body/json/messages/0/content",
            "      recorded: 'Where is my order?'",
            "      now:      'Where are my orders?'",
            "Record it again: pytest --onrecord=all test_agent.py::test_chat",
        ]
    )
    assert "Traceback" not in result.stdout.str()
    assert len(project.server.asked) == 2


def test_a_request_that_was_never_recorded_is_shown_beside_the_nearest(project: Project) -> None:
    path = project.write(CHAT)
    project.run("--onrecord=once").assert_outcomes(passed=1)
    path.write_text(path.read_text().replace('ask("And now?")', 'httpx.get(f"{URL}/other")'))
    result = project.run()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*never recorded*/other*", "  at test_agent.py:*", "*recorded: *", "*now: *"])


def test_a_request_that_is_not_made_any_more_fails_the_test(project: Project) -> None:
    path = project.write(CHAT)
    project.run("--onrecord=once").assert_outcomes(passed=1)
    path.write_text(path.read_text().replace('    assert ask("And now?").status_code == 200\n', ""))
    result = project.run()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["*did not make the request recorded at*[[]missing_request[]]", "*recorded: *And now?*"]
    )


def test_a_program_that_catches_everything_fails_all_the_same(project: Project) -> None:
    path = project.write(CHAT)
    project.run("--onrecord=once").assert_outcomes(passed=1)
    text = path.read_text().replace('    ask("Where is my order?")', "    try:\n        ask('other')\n    except: pass")
    path.write_text(text.replace("    assert ask", "    if False: ask"))
    result = project.run()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*conflicting_request*"])


def test_a_replay_touches_no_network(project: Project) -> None:
    project.pytester.makeini("[pytest]\n")  # a thread that fails is a warning of pytest's own
    project.write(
        """
import socket, threading


def connect():
    socket.create_connection(("127.0.0.1", int(URL.rpartition(":")[2]))).close()


@pytest.mark.onrecord
def test_raw():
    connect()


@pytest.mark.onrecord
def test_in_a_thread():
    threading.Thread(target=connect).start()
    httpx.get(URL)


def test_unmarked():
    connect()
"""
    )
    result = project.run("--onrecord=once")
    result.assert_outcomes(passed=3)
    result.stdout.fnmatch_lines(["not recorded, so that*", "*test_raw: a connection to 127.0.0.1 at test_agent.py:*"])
    result = project.run()
    result.assert_outcomes(passed=1, failed=2)
    result.stdout.fnmatch_lines(["*connects to '127.0.0.1' at test_agent.py:*network_blocked*"])
    project.pytester.makeini("[pytest]\nonrecord_allow_hosts = localhost\n")
    project.run().assert_outcomes(passed=3)


def test_every_test_is_kept_from_the_network_on_request(project: Project) -> None:
    project.pytester.makeini("[pytest]\nonrecord_block_network = true\n")
    project.write(
        """
import socket


@pytest.fixture
def login():
    return httpx.get(URL)


def test_http():
    httpx.get(URL)


def test_fixture(login):
    pass


def test_name():
    with pytest.raises(ConnectionError, match="kept from the network"):
        socket.getaddrinfo("example.com", 80)


def test_no_network(tmp_path):
    left, right = socket.socketpair()
    left.close(), right.close()
"""
    )
    project.run().assert_outcomes(passed=2, failed=1, errors=1)
    assert project.server.asked == []


def test_secrets_are_in_no_recording_and_no_key_is_needed_to_replay(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = "sk-proj-Q7fLr2Xv9ZbN4tKcW8mHyD5sPaJ3eGuTqRzV6iBnOxMk1wCl"
    project.write(
        """
import os


@pytest.mark.onrecord
def test_login(onrecord):
    key = os.environ["SHOP_API_KEY"]
    httpx.post(f"{URL}/login?api_key={key}", json={"password": key, "note": f"use {key}"},
               headers={"authorization": f"Bearer {key}", "x-api-key": key, "cookie": f"a={key}"})
    print(onrecord.calls)
"""
    )
    monkeypatch.setenv("SHOP_API_KEY", key)
    project.run("--onrecord=once").assert_outcomes(passed=1)
    assert key.encode() in project.server.asked[0][2]
    for path in project.folder.rglob("*"):
        if path.is_file() and path.suffix != ".py":
            for form in (key.encode(), base64.b64encode(key.encode())):
                assert form not in path.read_bytes(), path
    project.server.stop()
    for dummy in ("sk-proj-dummydummydummydummydummydummydummydummydummy12", "dummy-key-for-ci-1"):
        monkeypatch.setenv("SHOP_API_KEY", dummy)
        result = project.run("-s")
        result.assert_outcomes(passed=1)
        assert key not in result.stdout.str()


def test_unused_recordings_are_told(project: Project) -> None:
    path = project.write(CHAT + "\n\n@pytest.mark.onrecord\ndef test_gone():\n    ask('x')\n")
    project.run("--onrecord=once").assert_outcomes(passed=2)
    project.write("def test_nothing(): pass", "test_other.py")
    path.write_text(path.read_text().replace("def test_gone", "def no_test"))
    (project.folder / "recordings" / "test_removed").mkdir()
    (project.folder / "recordings" / "test_removed" / "test_x.jsonl").touch()
    result = project.run()
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(
        [
            "recordings without a test:",
            "  recordings/test_agent/test_gone.jsonl",
            "  recordings/test_removed/test_x.jsonl",
        ]
    )
    project.run("-k", "nothing").stdout.no_fnmatch_line("*test_chat.jsonl")
    project.run("test_agent.py::test_chat").stdout.no_fnmatch_line("*no test has any more*")
