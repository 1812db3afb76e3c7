"""none, once, new, all: what each records, replays and refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kit import command_server
from kit.plugin import Project

pytest_plugins = ["pytester"]

TWO_REQUESTS = """
@pytest.mark.onrecord
def test_two():
    first = httpx.get(f"{URL}/first").json()["number"]
    second = httpx.post(f"{URL}/second", json={"after": first, "word": "hello"}).json()["number"]
    print("numbers", first, second)
    assert second == first + 1
"""
RECORDING = "recordings/test_agent/test_two.jsonl"


def test_by_default_nothing_is_recorded_and_it_is_said_how(project: Project) -> None:
    project.write(TWO_REQUESTS)
    result = project.run()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["*test_agent.py::test_two has no recording*", "Record it: pytest --onrecord=once test_agent.py::test_two"]
    )
    assert project.server.asked == []
    assert project.recordings() == []


def test_without_a_recording_a_test_may_skip_itself_but_not_pass(project: Project) -> None:
    project.write(
        """
pytestmark = pytest.mark.onrecord


def test_skip():
    pytest.skip("not here")


def test_nothing():
    pass


def test_swallow():
    try:
        httpx.get(URL)
    except BaseException:
        pass
"""
    )
    project.run().assert_outcomes(skipped=1, failed=2)
    assert project.server.asked == []


def test_a_recorded_test_is_replayed_without_the_server(project: Project) -> None:
    project.write(TWO_REQUESTS)
    project.run("--onrecord=once").assert_outcomes(passed=1)
    assert project.recordings() == [RECORDING]
    assert len(project.server.asked) == 2
    project.server.stop()
    result = project.run("-s")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*numbers 1 2*"])


def test_once_replays_what_is_there(project: Project) -> None:
    project.write(TWO_REQUESTS)
    project.run("--onrecord=once").assert_outcomes(passed=1)
    written = project.bytes_of(RECORDING)
    project.run("--onrecord=once").assert_outcomes(passed=1)
    assert len(project.server.asked) == 2
    assert project.bytes_of(RECORDING) == written


def test_all_records_anew(project: Project) -> None:
    project.write(TWO_REQUESTS)
    project.run("--onrecord=once").assert_outcomes(passed=1)
    written = project.bytes_of(RECORDING)
    project.run("--onrecord=all").assert_outcomes(passed=1)
    assert len(project.server.asked) == 4
    assert project.bytes_of(RECORDING) != written
    project.run("-s").stdout.fnmatch_lines(["*numbers 3 4*"])


def test_new_serves_what_is_recorded_and_records_the_rest(project: Project) -> None:
    project.write(TWO_REQUESTS)
    project.run("--onrecord=once").assert_outcomes(passed=1)
    changed = TWO_REQUESTS.replace("    assert", "    httpx.get(f'{URL}/third')\n    assert")
    project.write(changed)
    project.run().assert_outcomes(failed=1)
    project.run("--onrecord=new").assert_outcomes(passed=1)
    assert [path for _, path, _ in project.server.asked] == ["/first", "/second", "/third"]
    project.server.stop()
    result = project.run("-s")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*numbers 1 2*"])


def test_new_leaves_a_recording_alone_that_has_everything(project: Project) -> None:
    project.write(TWO_REQUESTS)
    project.run("--onrecord=new").assert_outcomes(passed=1)
    written = project.bytes_of(RECORDING)
    project.run("--onrecord=new").assert_outcomes(passed=1)
    assert len(project.server.asked) == 2
    assert project.bytes_of(RECORDING) == written


def test_new_drops_what_is_not_asked_for_any_more(project: Project) -> None:
    project.write(TWO_REQUESTS)
    project.run("--onrecord=once").assert_outcomes(passed=1)
    project.write('@pytest.mark.onrecord\ndef test_two():\n    httpx.get(f"{URL}/first")\n')
    project.run("--onrecord=new").assert_outcomes(passed=1)
    assert len(project.server.asked) == 2
    project.run().assert_outcomes(passed=1)
    assert "/second" not in (project.folder / RECORDING).read_text()


def test_a_test_that_fails_replaces_no_recording_and_makes_none(project: Project) -> None:
    project.write(TWO_REQUESTS)
    project.run("--onrecord=once").assert_outcomes(passed=1)
    written = project.bytes_of(RECORDING)
    project.write(TWO_REQUESTS.replace("first + 1", "0"))
    project.run("--onrecord=all").assert_outcomes(failed=1)
    assert project.bytes_of(RECORDING) == written
    (project.folder / RECORDING).unlink()
    project.run("--onrecord=once").assert_outcomes(failed=1)
    assert project.recordings() == []


def test_the_marker_and_the_settings_have_a_say(project: Project) -> None:
    project.write(TWO_REQUESTS.replace("mark.onrecord", 'mark.onrecord(mode="once")'))
    project.run().assert_outcomes(passed=1)
    project.run("--onrecord=all").assert_outcomes(passed=1)
    assert len(project.server.asked) == 4
    project.pytester.makeini("[pytest]\nonrecord_mode = all\n")
    project.run().assert_outcomes(passed=1)
    assert len(project.server.asked) == 4  # the marker goes before the settings
    project.write(TWO_REQUESTS)
    project.run().assert_outcomes(passed=1)
    assert len(project.server.asked) == 6
    project.run("--onrecord=none").assert_outcomes(passed=1)
    assert len(project.server.asked) == 6


@pytest.mark.parametrize(
    "marker", ["mode='never'", "mod='once'", "'once', 2", "match_on=['headers'], cassette='a'", "match_on=[]"]
)
def test_what_a_marker_cannot_say_is_refused(project: Project, marker: str) -> None:
    project.write(TWO_REQUESTS.replace("mark.onrecord", f"mark.onrecord({marker})"))
    result = project.run()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*test_agent.py::test_two*"])


def test_a_setting_that_cannot_be_is_refused(project: Project) -> None:
    project.pytester.makeini("[pytest]\nonrecord_mode = sometimes\n")
    project.write(TWO_REQUESTS)
    assert project.run().ret == pytest.ExitCode.USAGE_ERROR


def test_ci_records_nothing_unasked(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    project.write(TWO_REQUESTS)
    monkeypatch.setenv("CI", "true")
    result = project.run("--onrecord=once")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*this is CI*", "*--onrecord-in-ci*"])
    project.pytester.makeini("[pytest]\nonrecord_mode = all\n")
    project.run().assert_outcomes(failed=1)
    assert project.server.asked == []
    project.run("--onrecord=once", "--onrecord-in-ci").assert_outcomes(passed=1)
    assert len(project.server.asked) == 2
    project.run("--onrecord=none").assert_outcomes(passed=1)
    monkeypatch.setenv("CI", "false")
    project.run().assert_outcomes(passed=1)
    assert len(project.server.asked) == 4


def test_a_recording_is_a_run_that_anybody_can_verify(project: Project) -> None:
    project.write(TWO_REQUESTS)
    project.run("--onrecord=once").assert_outcomes(passed=1)
    for command in (("verify", "--deep"), ("import",)):
        done = command_server.call([*command, str(project.folder / RECORDING)], cwd=project.folder)
        assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in (project.folder / RECORDING).read_text().splitlines()]
    assert lines[0]["stored"]["recording"] == "test_agent.py::test_two"


def test_a_recording_that_was_altered_is_refused(project: Project) -> None:
    project.write(TWO_REQUESTS)
    project.run("--onrecord=once").assert_outcomes(passed=1)
    path = project.folder / RECORDING
    path.write_text(path.read_text().replace('"number":1', '"number":7'))
    result = project.run()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*test_two.jsonl*event*", "Record it again: pytest --onrecord=all *"])
    path.write_text("")
    project.run().assert_outcomes(failed=1)
    project.run("--onrecord=all").assert_outcomes(passed=1)
    project.run().assert_outcomes(passed=1)


def test_a_recording_again_of_the_same_leaves_the_file_alone(project: Project) -> None:
    """Times, drawn values and the numbers of answers differ; nothing that was said does."""
    project.write(
        """
import time, uuid


@pytest.mark.onrecord
def test_same():
    uuid.uuid4(), time.time()
    assert httpx.post(f"{URL}/v1/chat/completions", json={"messages": [], "model": "m", "stream": True}).text
"""
    )
    name = "recordings/test_agent/test_same.jsonl"
    project.run("--onrecord=once").assert_outcomes(passed=1)
    text = (project.folder / name).read_text().replace("answer 1", "answer 2")
    project.server.asked.clear()
    written = project.bytes_of(name)
    result = project.run("--onrecord=all")
    result.assert_outcomes(passed=1)
    assert len(project.server.asked) == 1
    assert project.bytes_of(name) == written
    result.stdout.no_fnmatch_line("*recorded:*")
    assert text.count("answer 2") > 0

    path = project.folder / "test_agent.py"
    path.write_text(path.read_text().replace("time.time()", "time.time(), time.time()"))
    project.run().assert_outcomes(passed=1)  # one more reading of the clock is no divergence


def test_only_lines_that_say_something_else_differ(project: Project) -> None:
    project.write(TWO_REQUESTS)
    project.run("--onrecord=once").assert_outcomes(passed=1)
    before = contents(project.folder / RECORDING)
    project.write(TWO_REQUESTS.replace("hello", "good day"))
    project.server.asked.clear()
    project.run("--onrecord=all").assert_outcomes(passed=1)
    after = contents(project.folder / RECORDING)
    kinds = [json.loads(new)["kind"] for old, new in zip(before, after, strict=True) if old != new]
    assert [kind for kind in kinds if kind != "ValuesDrawn"] == [
        "ActionSucceeded",
        "ActionRequested",
        "ActionSucceeded",
    ]


def contents(path: Path) -> list[str]:
    return [line for line in path.read_text().splitlines() if line.startswith('{"seq"')]


EXPECTED_ENDS = """
pytestmark = pytest.mark.onrecord


def test_skips_behind_its_request():
    httpx.get(f"{URL}/first")
    pytest.skip("not today")


@pytest.mark.xfail(raises=LookupError)
def test_is_marked_to_fail():
    httpx.get(f"{URL}/second")
    raise LookupError


def test_says_that_it_fails():
    httpx.get(f"{URL}/third")
    pytest.xfail("known")
"""


def test_what_is_expected_to_fail_or_skips_itself_is_recorded(project: Project) -> None:
    project.write(EXPECTED_ENDS)
    project.run("--onrecord=once").assert_outcomes(skipped=1, xfailed=2)
    assert len(project.recordings()) == 3
    asked = len(project.server.asked)
    project.run().assert_outcomes(skipped=1, xfailed=2)
    assert len(project.server.asked) == asked


def test_a_missing_recording_is_not_the_failure_that_was_expected(project: Project) -> None:
    project.write('@pytest.mark.onrecord\n@pytest.mark.xfail\ndef test_it():\n    httpx.get(f"{URL}/first")\n')
    result = project.run()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*has no recording*"])
