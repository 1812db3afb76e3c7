"""The placeholders of a record are told from text that a user wrote."""

from __future__ import annotations

from pathlib import Path

import onrecord
from onrecord.core.redaction.placeholders import made_placeholders
from onrecord.journal.reader import JournalReader

SECRET = "sk-proj-" + "a1B2c3D4e5F6g7H8" * 3
OWN = "<secret:credential:7>"


def test_only_placeholders_of_secrets_are_noted(tmp_path: Path) -> None:
    store = onrecord.open_store(f"sqlite:///{tmp_path / 'r.db'}")

    @onrecord.tool(idempotent=True)
    def ask(question: str) -> str:
        return f"{question} and {SECRET}"

    @onrecord.agent(redact=True, store=store)
    def agent() -> int:
        return len(ask(f"the text {OWN}")) + len(ask(f"the key {SECRET}"))

    agent.run(run_id="r1")
    events = [event.event for event in JournalReader(store, "r1").scan()]
    found = {
        (event.kind, event.action_id): (event.meta or {}).get("redacted", [])
        for event in events
        if event.kind in ("ActionRequested", "ActionSucceeded")
    }
    own_request, own_answer, request, answer = found.values()
    assert own_request == []
    assert len(own_answer) == len(request) == len(answer) == 1
    texts = [repr(event.content()) for event in events]
    assert SECRET not in "".join(texts)
    for event in events:
        for placeholder in (event.meta or {}).get("redacted", []):
            assert placeholder in repr({**event.content(), "meta": None})


def test_a_placeholder_of_a_placeholder_is_the_users_text() -> None:
    assert made_placeholders({"<secret:x:1>": OWN, "<secret:x:2>": "real", "<secret:x:3>": 12}) == [
        "<secret:x:2>",
        "<secret:x:3>",
    ]
