"""`onrecord import --from vcr`: cassettes become runs like any other."""

from __future__ import annotations

import json
from pathlib import Path

from kit.cli import STORE, assert_two_lines, onrecord, onrecord_json

CASSETTE = """
version: 1
recorded_with: VCR 6.1.0
interactions:
- request:
    method: POST
    uri: https://api.example.com/v1/chat/completions?key=AIzaSyA-secret-secret-secret-secret-123
    headers: {authorization: [Bearer sk-proj-abcdefghijklmnopqrstuvwxyz0123456789], content-type: [application/json]}
    body: '{"model": "gpt-4o", "messages": [{"role": "user", "content": "hi"}]}'
  response:
    status: {code: 200, message: OK}
    headers: {content-type: [application/json]}
    body:
      string: '{"model": "gpt-4o", "choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 1},
        "access_token": "tok-abcdef-1234567890-abcdef"}'
"""


def test_a_cassette_becomes_a_run_that_verifies_and_leaves_again() -> None:
    Path("login.yaml").write_text(CASSETTE)
    imported = onrecord_json("import", "--from", "vcr", "login.yaml")
    assert imported["events"] == 3
    assert onrecord("verify", "@last", "--deep").exit_code == 0
    shown = onrecord_json("show", "@last")
    assert [event["kind"] for event in shown["timeline"]] == ["ActionRequested", "ActionSucceeded", "Completed"]
    assert onrecord("export", "@last", "-o", "run.jsonl").exit_code == 0
    text = Path("run.jsonl").read_text()
    assert "VCR 6.1.0" in text
    for secret in ("AIzaSy", "sk-proj", "tok-abcdef"):
        assert secret not in text


def test_the_same_cassette_again_changes_nothing() -> None:
    Path("a.yaml").write_text(CASSETTE)
    first = onrecord_json("import", "--from", "vcr", "a.yaml")
    again = onrecord_json("import", "--from", "vcr", "a.yaml")
    assert again == {**first, "already_there": True}


def test_several_at_once() -> None:
    Path("a.yaml").write_text(CASSETTE)
    Path("b.json").write_text(json.dumps({"version": 1, "interactions": []}))
    found = onrecord_json("import", "--from", "vcr", "a.yaml", "b.json")
    assert [one["events"] for one in found] == [3, 1]
    assert len(onrecord_json("ls")["runs"]) == 2


def test_a_hostile_cassette_leaves_nothing_behind() -> None:
    Path("evil.yaml").write_text("interactions: !!python/object/apply:os.system ['touch pwned']")
    result = onrecord("import", "--from", "vcr", "evil.yaml")
    assert result.exit_code == 4
    assert_two_lines(result.stderr, "cassette_tag")
    assert not Path("pwned").exists()
    assert not Path(STORE).exists()


def test_a_cassette_is_no_recording_and_a_missing_one_is_named() -> None:
    Path("a.yaml").write_text(CASSETTE)
    assert_two_lines(onrecord("import", "a.yaml").stderr, "bad_recording")
    missing = onrecord("import", "--from", "vcr", "none.yaml")
    assert missing.exit_code == 3
    assert_two_lines(missing.stderr, "no_file")
