"""`reenact resolve`, `waits` and `keys`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cli_support import assert_two_lines, opened, record, reenact, reenact_json, reenact_process

from reenact.core.events import StateUpdated
from reenact.core.wait_keys import Resolution, WaitIdentity, WaitKey
from reenact.effect.waits import WaitDesk

APPROVAL = WaitIdentity.named("approval")


@pytest.fixture(autouse=True)
def key_file(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = workspace / "secrets" / "keys.json"
    monkeypatch.setenv("REENACT_KEY_FILE", str(path))
    return path


def made(run: str = "run-1", identity: WaitIdentity = APPROVAL, **more: str) -> WaitKey:
    with opened() as store:
        return WaitDesk(store).key(run, identity, **more)


def ended(key: WaitKey) -> Resolution | None:
    with opened() as store:
        return WaitDesk(store).peek(key)


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
    result = reenact("resolve", key.text, *arguments)
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "resolved\n")
    assert ended(key) == resolution
    again = reenact("resolve", key.text, *arguments)
    assert (again.exit_code, again.stderr) == (0, "resolved before, in the same way\n")


def test_resolve_as_json() -> None:
    key = made()
    assert reenact_json("resolve", key.text, "--value", "1") == {"status": "resolved", "first": True}
    assert reenact_json("resolve", key.text, "--value", "1") == {"status": "resolved", "first": False}
    refused = reenact_json("resolve", key.text, "--value", "2", status=6)
    assert refused["error"]["code"] == "already_resolved"


def test_another_resolution_shows_the_first() -> None:
    key = made()
    reenact("resolve", key.text, "--value", '"yes\x1b[31m"'.replace("\x1b", "\\u001b"))
    result = reenact("resolve", key.text, "--value", '"no"')
    assert result.exit_code == 6
    assert json.loads(result.stdout) == {"status": "ok", "value": "yes\x1b[31m"}
    assert "\x1b" not in result.output
    assert_two_lines(result.stderr, "already_resolved")


def test_without_a_key_where_the_secret_is() -> None:
    record("run-1", [StateUpdated(payload=1)])
    key = made()
    assert reenact_json("resolve", "--run", "run-1", "--value", "1") == {"status": "resolved", "first": True}
    assert ended(key) == Resolution.ok(1)
    again = reenact("resolve", "--run", "run-1", "--value", "1")
    assert again.exit_code == 3
    assert_two_lines(again.stderr, "unknown_wait")


def test_which_of_several_waits() -> None:
    record("run-1", [StateUpdated(payload=1)])
    keys = {name: made(identity=WaitIdentity.named(name)) for name in ("approval", "address")}
    several = reenact("resolve", "--run", "run-1", "--cancel")
    assert several.exit_code == 2
    assert_two_lines(several.stderr, "which_wait")
    assert "approval, address" in several.stderr
    assert "It waits for approval" in reenact("resolve", "--run", "run-1", "--wait", "approvl", "--cancel").stderr
    assert reenact("resolve", "--run", "run-1", "--wait", "approval", "--cancel").exit_code == 0
    assert [ended(key) for key in keys.values()] == [Resolution.cancelled(), None]


def test_without_the_secret_nothing_is_resolved(key_file: Path) -> None:
    record("run-1", [StateUpdated(payload=1)])
    made()
    key_file.unlink()
    result = reenact("resolve", "--run", "run-1", "--value", "1")
    assert result.exit_code == 6
    assert_two_lines(result.stderr, "no_key")
    assert not key_file.exists(), "no secret is made for it"


def test_the_key_from_stdin() -> None:
    key = made()
    assert reenact("resolve", "-", "--value", "1", stdin=key.text + "\n").exit_code == 0
    assert ended(key) == Resolution.ok(1)


@pytest.mark.parametrize("text", ["nonsense", "rwk1.AAAA." + "A" * 43, ""])
def test_an_unknown_key(text: str) -> None:
    made()
    result = reenact("resolve", text, "--value", "1")
    assert result.exit_code == 3
    assert_two_lines(result.stderr, "await_event_unknown_or_revoked")
    assert not text or text not in result.output


def test_a_key_of_another_namespace() -> None:
    key = made()
    assert reenact("resolve", key.text, "--value", "1", "--namespace", "other").exit_code == 3
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
    result = reenact("resolve", key.text, *arguments)
    assert result.exit_code == 2
    assert len(result.stderr.splitlines()) == 2
    assert key.text not in result.output
    assert ended(key) is None


def test_resolving_makes_no_store() -> None:
    result = reenact("resolve", "rwk1.x.y", "--value", "1")
    assert result.exit_code == 3
    assert not Path(".reenact").exists()


def test_a_real_process_resolves(key_file: Path) -> None:
    key = made()
    done = reenact_process("resolve", key.text, "--value", "1")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "resolved\n")
    assert ended(key) == Resolution.ok(1)


def test_a_wait_is_resolved_by_its_name() -> None:
    first = made()
    result = reenact("resolve", "--run", "run-1", "--wait", "approval", "--value", "1")
    assert (result.exit_code, result.stderr) == (0, "resolved\n")
    assert ended(first) == Resolution.ok(1)
    assert reenact("resolve", "--run", "run-1", "--wait", "approval", "--value", "1").exit_code == 0
    assert reenact("resolve", "--run", "run-1", "--wait", "approval", "--value", "2").exit_code == 6


def test_of_several_waits_of_one_name_one_is_named_by_its_number() -> None:
    keys = [made(identity=WaitIdentity.named("interrupt@0", number)) for number in (1, 2)]
    result = reenact("resolve", "--run", "run-1", "--wait", "interrupt@0", "--value", "1")
    assert result.exit_code == 2
    assert_two_lines(result.stderr, "which_wait")
    assert reenact("resolve", "--run", "run-1", "--wait", "interrupt@0", "--number", "2", "--value", "1").exit_code == 0
    assert [ended(key) for key in keys] == [None, Resolution.ok(1)]
    assert (
        reenact("resolve", "--run", "run-1", "--wait", "interrupt@0", "--value", "3").exit_code == 0
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
    result = reenact("resolve", *arguments, "--value", "1")
    assert result.exit_code == status
    assert_two_lines(result.stderr, code)


def test_waits_of_a_run() -> None:
    open_wait = made(session="session-1")
    closed = made(identity=WaitIdentity.process_signal("tick", 2))
    reenact("resolve", closed.text, "--cancel")
    result = reenact("waits", "run-1")
    assert result.exit_code == 0
    assert [line.split() for line in result.stdout.splitlines()[1:]] == [
        ["named", "approval", "1", "open", "session-1"]
    ]
    listed = reenact_json("waits", "run-1", "--all")["waits"]
    assert [(one["name"], one["ordinal"], one["state"]) for one in listed] == [
        ("approval", 1, "open"),
        ("tick", 2, "cancelled"),
    ]
    assert open_wait.signature not in result.output + json.dumps(listed)
    record("other")
    assert reenact("waits", "other").stderr == "nothing is open\n"
    assert reenact("waits", "unknown").exit_code == 3


def test_keys_where(key_file: Path) -> None:
    assert reenact_json("keys", "where") == {"path": str(key_file), "exists": False}
    assert reenact("keys", "list").stderr == "no secrets yet; the first wait makes one\n"
    assert not key_file.exists(), "looking makes none"
    made()
    assert reenact_json("keys", "where")["exists"] is True


def test_keys_rotate_and_retire(key_file: Path) -> None:
    old = made()
    rotated = reenact("keys", "rotate", "--overlap", "1h")
    assert rotated.exit_code == 0
    new = rotated.stdout.strip()
    listed = reenact_json("keys", "list")["keys"]
    assert [(entry["id"], entry["state"]) for entry in listed] == [(old.key_id, "replaced"), (new, "current")]
    early = reenact("keys", "retire", old.key_id)
    assert early.exit_code == 6
    assert_two_lines(early.stderr, "key_in_overlap")
    assert reenact("resolve", old.text, "--value", "1").exit_code == 0
    assert reenact("keys", "retire", old.key_id, "--now").exit_code == 0
    assert reenact("resolve", old.text, "--value", "1").exit_code == 3
    operations = reenact_json("show", "operations")["timeline"]
    assert [event["content"]["operation"] for event in operations] == ["keys_rotated", "key_retired"]
    shown = reenact("keys", "list").output + rotated.output + json.dumps(listed) + json.dumps(operations)
    for entry in json.loads(key_file.read_text())["keys"]:
        assert entry.get("secret", "gone") not in shown


def test_rotating_without_a_store_makes_none(key_file: Path) -> None:
    assert reenact("keys", "rotate").exit_code == 0
    assert not Path(".reenact").exists()
    assert key_file.exists()


def test_keys_that_others_can_read(key_file: Path) -> None:
    made()
    key_file.chmod(0o644)
    result = reenact("keys", "list")
    assert result.exit_code == 5
    assert_two_lines(result.stderr, "keys_exposed")


def test_keys_usage() -> None:
    assert reenact("keys", "rotate", "--overlap", "soon").exit_code == 2
    assert reenact("keys", "retire", "unknown").exit_code == 2
    assert "rotate" in reenact("keys", "--help").stdout
