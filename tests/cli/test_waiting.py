"""`onrecord resolve`, `waits` and `keys`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kit.cli import assert_two_lines, onrecord, onrecord_json, onrecord_process, opened, record
from onrecord.core.events import StateUpdated
from onrecord.core.wait_keys import Resolution, WaitIdentity, WaitKey
from onrecord.runtime.waits import WaitRegistry

APPROVAL = WaitIdentity.named("approval")


@pytest.fixture(autouse=True)
def key_file(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = workspace / "secrets" / "keys.json"
    monkeypatch.setenv("ONRECORD_KEY_FILE", str(path))
    return path


def made(run: str = "run-1", identity: WaitIdentity = APPROVAL, **more: str) -> WaitKey:
    with opened() as store:
        return WaitRegistry(store).key(run, identity, **more)


def ended(key: WaitKey) -> Resolution | None:
    with opened() as store:
        return WaitRegistry(store).peek(key)


@pytest.mark.parametrize(
    ("arguments", "resolution"),
    [
        (["--value", '{"approved": true}'], Resolution.ok({"approved": True})),
        (["--value", "null"], Resolution.ok(None)),
        (["--error", "too expensive"], Resolution.error("too expensive")),
        (["--cancel"], Resolution.cancelled()),
    ],
)
def test_resolve(arguments: list[str], resolution: Resolution) -> None:
    key = made()
    result = onrecord("resolve", key.text, *arguments)
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "resolved\n")
    assert ended(key) == resolution
    again = onrecord("resolve", key.text, *arguments)
    assert (again.exit_code, again.stderr) == (0, "already resolved, with the same resolution\n")


def test_resolve_as_json() -> None:
    key = made()
    assert onrecord_json("resolve", key.text, "--value", "1") == {"status": "resolved", "first": True}
    assert onrecord_json("resolve", key.text, "--value", "1") == {"status": "resolved", "first": False}
    refused = onrecord_json("resolve", key.text, "--value", "2", status=6)
    assert refused["error"]["code"] == "already_resolved"


def test_another_resolution_shows_the_first() -> None:
    key = made()
    onrecord("resolve", key.text, "--value", '"yes\x1b[31m"'.replace("\x1b", "\\u001b"))
    result = onrecord("resolve", key.text, "--value", '"no"')
    assert result.exit_code == 6
    assert json.loads(result.stdout) == {"status": "ok", "value": "yes\x1b[31m"}
    assert "\x1b" not in result.output
    assert_two_lines(result.stderr, "already_resolved")


def test_without_a_key_where_the_secret_is() -> None:
    record("run-1", [StateUpdated(payload=1)])
    key = made()
    assert onrecord_json("resolve", "--run", "run-1", "--value", "1") == {"status": "resolved", "first": True}
    assert ended(key) == Resolution.ok(1)
    again = onrecord("resolve", "--run", "run-1", "--value", "1")
    assert again.exit_code == 3
    assert_two_lines(again.stderr, "unknown_wait")


def test_which_of_several_waits() -> None:
    record("run-1", [StateUpdated(payload=1)])
    keys = {name: made(identity=WaitIdentity.named(name)) for name in ("approval", "address")}
    several = onrecord("resolve", "--run", "run-1", "--cancel")
    assert several.exit_code == 2
    assert_two_lines(several.stderr, "which_wait")
    assert "approval, address" in several.stderr
    assert "It waits for approval" in onrecord("resolve", "--run", "run-1", "--wait", "approvl", "--cancel").stderr
    assert onrecord("resolve", "--run", "run-1", "--wait", "approval", "--cancel").exit_code == 0
    assert [ended(key) for key in keys.values()] == [Resolution.cancelled(), None]


def test_without_the_secret_nothing_is_resolved(key_file: Path) -> None:
    record("run-1", [StateUpdated(payload=1)])
    made()
    key_file.unlink()
    result = onrecord("resolve", "--run", "run-1", "--value", "1")
    assert result.exit_code == 6
    assert_two_lines(result.stderr, "no_key")
    assert not key_file.exists(), "no secret is made for it"


def test_the_key_from_stdin() -> None:
    key = made()
    assert onrecord("resolve", "-", "--value", "1", stdin=key.text + "\n").exit_code == 0
    assert ended(key) == Resolution.ok(1)


@pytest.mark.parametrize("text", ["nonsense", "rwk1.AAAA." + "A" * 43, ""])
def test_an_unknown_key(text: str) -> None:
    made()
    result = onrecord("resolve", text, "--value", "1")
    assert result.exit_code == 3
    assert_two_lines(result.stderr, "await_event_unknown_or_revoked")
    assert not text or text not in result.output


def test_a_key_of_another_namespace() -> None:
    key = made()
    assert onrecord("resolve", key.text, "--value", "1", "--namespace", "other").exit_code == 3
    assert ended(key) is None


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--value", "1", "--cancel"],
        ["--value", "1", "--error", "x"],
        ["--value", "yes"],
        ["--value", '{"a":1,"a":2}'],
    ],
)
def test_usage(arguments: list[str]) -> None:
    key = made()
    result = onrecord("resolve", key.text, *arguments)
    assert result.exit_code == 2
    assert len(result.stderr.splitlines()) == 2
    assert key.text not in result.output
    assert ended(key) is None


def test_resolving_makes_no_store() -> None:
    result = onrecord("resolve", "rwk1.x.y", "--value", "1")
    assert result.exit_code == 3
    assert not Path(".onrecord").exists()


def test_a_real_process_resolves(key_file: Path) -> None:
    key = made()
    done = onrecord_process("resolve", key.text, "--value", "1")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "resolved\n")
    assert ended(key) == Resolution.ok(1)


def test_a_wait_is_resolved_by_its_name() -> None:
    first = made()
    result = onrecord("resolve", "--run", "run-1", "--wait", "approval", "--value", "1")
    assert (result.exit_code, result.stderr) == (0, "resolved\n")
    assert ended(first) == Resolution.ok(1)
    assert onrecord("resolve", "--run", "run-1", "--wait", "approval", "--value", "1").exit_code == 0
    assert onrecord("resolve", "--run", "run-1", "--wait", "approval", "--value", "2").exit_code == 6


def test_of_several_waits_of_one_name_one_is_named_by_its_number() -> None:
    keys = [made(identity=WaitIdentity.named("interrupt@0", number)) for number in (1, 2)]
    result = onrecord("resolve", "--run", "run-1", "--wait", "interrupt@0", "--value", "1")
    assert result.exit_code == 2
    assert_two_lines(result.stderr, "which_wait")
    assert (
        onrecord("resolve", "--run", "run-1", "--wait", "interrupt@0", "--number", "2", "--value", "1").exit_code == 0
    )
    assert [ended(key) for key in keys] == [None, Resolution.ok(1)]
    assert (
        onrecord("resolve", "--run", "run-1", "--wait", "interrupt@0", "--value", "3").exit_code == 0
    )  # the one that is left
    assert ended(keys[0]) == Resolution.ok(3)


@pytest.mark.parametrize(
    ("arguments", "status", "code"),
    [
        (["--run", "run-1", "--wait", "rejection"], 3, "unknown_wait"),
        (["--run", "run-1", "--wait", "approval", "--number", "7"], 3, "unknown_wait"),
        (["--run", "run-9", "--wait", "approval"], 3, "unknown_run"),
        (["--wait", "approval", "--number", "1"], 2, "usage"),
    ],
)
def test_a_name_that_is_no_waits(arguments: list[str], status: int, code: str) -> None:
    made()
    result = onrecord("resolve", *arguments, "--value", "1")
    assert result.exit_code == status
    assert_two_lines(result.stderr, code)


def test_waits_of_a_run() -> None:
    open_wait = made(session="session-1")
    closed = made(identity=WaitIdentity.process_signal("tick", 2))
    onrecord("resolve", closed.text, "--cancel")
    result = onrecord("waits", "run-1")
    assert result.exit_code == 0
    assert [line.split() for line in result.stdout.splitlines()[1:]] == [
        ["named", "approval", "1", "open", "session-1"]
    ]
    listed = onrecord_json("waits", "run-1", "--all")["waits"]
    assert [(one["name"], one["ordinal"], one["state"]) for one in listed] == [
        ("approval", 1, "open"),
        ("tick", 2, "cancelled"),
    ]
    assert open_wait.signature not in result.output + json.dumps(listed)
    record("other")
    assert onrecord("waits", "other").stderr == "no open waits\n"
    assert onrecord("waits", "unknown").exit_code == 3


def test_keys_where(key_file: Path) -> None:
    assert onrecord_json("keys", "where") == {"path": str(key_file), "exists": False}
    assert onrecord("keys", "list").stderr == "no secrets yet; the first wait creates one\n"
    assert not key_file.exists(), "looking makes none"
    made()
    assert onrecord_json("keys", "where")["exists"] is True


def test_keys_rotate_and_retire(key_file: Path) -> None:
    old = made()
    rotated = onrecord("keys", "rotate", "--overlap", "1h")
    assert rotated.exit_code == 0
    new = rotated.stdout.strip()
    listed = onrecord_json("keys", "list")["keys"]
    assert [(entry["id"], entry["state"]) for entry in listed] == [(old.key_id, "replaced"), (new, "current")]
    early = onrecord("keys", "retire", old.key_id)
    assert early.exit_code == 6
    assert_two_lines(early.stderr, "key_in_overlap")
    assert onrecord("resolve", old.text, "--value", "1").exit_code == 0
    assert onrecord("keys", "retire", old.key_id, "--now").exit_code == 0
    assert onrecord("resolve", old.text, "--value", "1").exit_code == 3
    operations = onrecord_json("show", "operations")["timeline"]
    assert [event["content"]["operation"] for event in operations] == ["keys_rotated", "key_retired"]
    shown = onrecord("keys", "list").output + rotated.output + json.dumps(listed) + json.dumps(operations)
    for entry in json.loads(key_file.read_text())["keys"]:
        assert entry.get("secret", "gone") not in shown


def test_rotating_without_a_store_makes_none(key_file: Path) -> None:
    assert onrecord("keys", "rotate").exit_code == 0
    assert not Path(".onrecord").exists()
    assert key_file.exists()


def test_keys_that_others_can_read(key_file: Path) -> None:
    made()
    key_file.chmod(0o644)
    result = onrecord("keys", "list")
    assert result.exit_code == 5
    assert_two_lines(result.stderr, "keys_exposed")


def test_keys_usage() -> None:
    assert onrecord("keys", "rotate", "--overlap", "soon").exit_code == 2
    assert onrecord("keys", "retire", "unknown").exit_code == 2
    assert "rotate" in onrecord("keys", "--help").stdout
