"""A replay that parts from its record says why: six kinds of change, the environment, the command to record again."""

from __future__ import annotations

from pathlib import Path

import pytest

from kit.kept_bytes import places_of
from kit.programs import Server, onrecord
from kit.soak import SOAK

pytestmark = pytest.mark.usefixtures("folder")

PROGRAM = """
import os, sys, httpx
url = sys.argv[1]
def chat(**asked):
    headers = {"authorization": "Bearer sk-canary-canary-canary"}
    answer = httpx.post(url + "/v1/chat/completions", json=asked, headers=headers).json()
    return answer["choices"][0]["message"]
tools = [{"type": "function", "function": {"name": "look_up", "parameters": {"type": "object",
          "properties": {"order": {"type": "string"}}}}}]
messages = [{"role": "system", "content": "You are a clerk."}, {"role": "user", "content": "Where is my order A-17?"}]
messages.append(chat(model=os.environ.get("MODEL", "m"), messages=messages, temperature=0.2, tools=tools))
messages.append({"role": "user", "content": "Thank you."})
print(chat(model="m", messages=messages, temperature=0.2)["content"])
print(httpx.get(url + "/number").json())
print(httpx.post(url + "/echo", content="goodbye").text)
"""


PROMPT = "".join(f"w{number} " for number in range(650_000 if SOAK else 65_000))


def missed(server: Server, *changes: tuple[str, str]) -> str:
    """What a replay of the changed program says."""
    Path("program.py").write_text(PROGRAM)
    recorded = onrecord("run", "--run-id", "one", "program.py", server.url)
    assert recorded.returncode == 0, recorded.stderr
    changed = PROGRAM
    for before, after in changes:
        assert before in changed
        changed = changed.replace(before, after, 1)
    Path("program.py").write_text(changed)
    asked = server.requests
    replayed = onrecord("replay", "one")
    assert replayed.returncode == 1, replayed.stderr
    assert server.requests == asked
    assert f"to record again: onrecord run program.py {server.url}" in replayed.stderr
    assert "canary" not in replayed.stderr
    return replayed.stderr


def test_a_parameter_of_a_model(server: Server) -> None:
    said = missed(server, ("temperature=0.2", "temperature=0.9"))
    assert "/payload/body/json/temperature: recorded 0.2, now 0.9" in said
    assert "chat/completions, at program.py:6" in said
    assert "chat/completions, recorded at seq " in said
    assert "message" not in said.partition("differs")[2].partition("to record again")[0]


def test_the_text_of_a_message(server: Server) -> None:
    said = missed(server, ("order A-17", "order B-4"))
    assert "message  1 (user) changed: Where is my order [-A-]{+B+}-[-17-]{+4+}?" in said
    assert "0 (system)" not in said


def test_a_text_that_goes_on_or_ends_sooner(server: Server) -> None:
    said = missed(server, ("order A-17?", "order A-17? Quick!"), ("You are a clerk.", "You are"))
    assert "message  0 (system) cut short: You are[- a clerk.-]" in said
    assert "message  1 (user) extended: Where is my order A-17?{+ Quick!+}" in said


@pytest.mark.parametrize(
    ("after", "shown"),
    [
        (PROMPT.replace("w30000 ", "w30000 other "), "w30000 {+other +}w30001"),
        (PROMPT.replace("0 ", "o "), " … at least "),
        ("", "0 (user) changed"),
    ],
)
def test_a_prompt_of_megabytes(after: str, shown: str, server: Server) -> None:
    program = """
import sys, httpx
messages = [{"role": "user", "content": open("prompt").read()}]
httpx.post(sys.argv[1] + "/v1/chat/completions", json={"model": "m", "messages": messages})
"""
    Path("program.py").write_text(program)
    Path("prompt").write_text(PROMPT)
    assert onrecord("run", "--run-id", "one", "program.py", server.url).returncode == 0
    Path("prompt").write_text(after)
    replayed = onrecord("replay", "one")
    assert replayed.returncode == 1
    assert shown in replayed.stderr
    assert len(replayed.stderr) < 4096
    assert len(onrecord("replay", "one", "--json").stdout) < 100_000


def test_many_long_differences_are_told_in_a_few_lines(server: Server) -> None:
    program = """
import sys, httpx
body = {f"{'name' * 200}{number}": {"text": f"{sys.argv[2]} {'long ' * 9000}"} for number in range(MANY)}
httpx.post(sys.argv[1] + "/echo", json=body)
messages = [{"role": "user", "content": f"{sys.argv[2]} {'long ' * 9000}{number}"} for number in range(50)]
httpx.post(sys.argv[1] + "/v1/chat/completions", json={"model": "m", "messages": messages})
""".replace("MANY", "500" if SOAK else "100")
    Path("program.py").write_text(program)
    assert onrecord("run", "--run-id", "one", "program.py", server.url, "one").returncode == 0
    for kept, call in (("", "echo"), ('httpx.post(sys.argv[1] + "/echo", json=body)\n', "completions")):
        Path("program.py").write_text(program.replace("{sys.argv[2]}", "two").replace(kept, "", 1))
        replayed = onrecord("replay", "one")
        assert replayed.returncode == 1
        assert call in replayed.stderr
        assert " more " in replayed.stderr
        assert len(replayed.stderr) < 5000
        assert len(onrecord("replay", "one", "--json").stdout) < 200_000


def test_an_added_message(server: Server) -> None:
    said = missed(
        server,
        (
            '{"role": "user", "content": "Where',
            '{"role": "user", "content": "Hello!"}, {"role": "user", "content": "Where',
        ),
    )
    assert "message  1 (user) was added: 'Hello!'" in said
    assert "Where is my order" not in said


def test_a_schema_of_a_tool(server: Server) -> None:
    said = missed(server, ('{"order": {"type": "string"}}', '{"order": {"type": "integer"}}'))
    place = "/payload/body/json/tools/0/function/parameters/properties/order/type"
    assert f"{place}: recorded 'string', now 'integer'" in said


@pytest.mark.parametrize(
    ("before", "after", "now"),
    [
        ('httpx.get(url + "/number")', 'httpx.get(url + "/numbers")', "GET 127.0.0.1:{port}/numbers"),
        ('httpx.get(url + "/number")', 'httpx.delete(url + "/number")', "DELETE 127.0.0.1:{port}/number"),
    ],
)
def test_another_address_or_method(before: str, after: str, now: str, server: Server) -> None:
    said = missed(server, (before, after))
    assert f"asked    {now.format(port=server.port)}, at program.py:14" in said
    assert f"nearest  GET 127.0.0.1:{server.port}/number, recorded at seq" in said
    assert "/payload/method" in said or "/payload/url" in said
    assert "a call was added, or goes to another place" in said


def test_a_removed_call(server: Server) -> None:
    said = missed(server, ('print(httpx.get(url + "/number").json())\n', ""))
    assert f"nearest  GET 127.0.0.1:{server.port}/number, recorded at seq" in said
    assert "a call was removed (seq " in said
    assert "If it only comes later now, a replay tolerates that: --loose=moved." in said


def test_a_removed_call_among_its_like(server: Server) -> None:
    again = 'httpx.get(url + "/number?page=2")\n'
    program = PROGRAM + 'httpx.get(url + "/number?page=1")\n' + again + 'httpx.get(url + "/number?page=3")\n'
    Path("program.py").write_text(program)
    assert onrecord("run", "--run-id", "one", "program.py", server.url).returncode == 0
    Path("program.py").write_text(program.replace(again, ""))
    said = onrecord("replay", "one").stderr
    assert "recorded 'http" in said
    assert "a call was removed: the same was recorded at seq" in said


def test_an_added_call(server: Server) -> None:
    extra = 'httpx.get(url + "/second")\n'
    said = missed(server, ('print(httpx.post(url + "/echo"', f'{extra}print(httpx.post(url + "/echo"'))
    assert f"asked    GET 127.0.0.1:{server.port}/second, at program.py:15" in said
    assert "a call was added, or goes to another place" in said


def test_a_repeated_call(server: Server) -> None:
    said = missed(
        server, ('print(httpx.get(url + "/number").json())', 'print([httpx.get(url + "/number").json() for _ in "12"])')
    )
    assert "nothing: it is asked for another time, or in another place" in said
    assert "a call was added" in said


def test_a_changed_variable_is_named_and_no_value_is_kept(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("program.py").write_text(PROGRAM)
    monkeypatch.setenv("MODEL", "small-4711")
    monkeypatch.setenv("ONCE", "a-value-that-was-there")
    assert onrecord("run", "--run-id", "one", "program.py", server.url).returncode == 0
    monkeypatch.setenv("MODEL", "large-4713")
    monkeypatch.delenv("ONCE")
    monkeypatch.setenv("FRESH", "anything")
    said = onrecord("replay", "one").stderr
    assert "/payload/body/json/model: recorded 'small-4711', now 'large-4713'" in said  # asked for, so on record
    assert "environment: changed since the recording: MODEL\n" in said
    assert "environment: new since the recording: FRESH\n" in said
    assert "environment: gone since the recording: ONCE\n" in said
    assert places_of("a-value-that-was-there", Path(".onrecord")) == []


def test_what_a_program_says_does_not_act_on_a_terminal(server: Server) -> None:
    said = missed(server, ("Where is my order A-17?", "Where\\x1b[31m is my \\u202e order?"))
    assert "\x1b" not in said
    assert "\u202e" not in said
    assert "\\x1b[31m" in said
