"""What the official clients asked and were answered, whole and in streams, as one conversation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import onrecord
from kit.numbered_server import Server
from kit.sdk_uses import USES, carried, load_sdks
from onrecord.capture.usage import usage_of
from onrecord.reports.chats import chat_page
from onrecord.reports.spans import spans_page, usage_page
from onrecord.store.memory import MemoryStore


@pytest.fixture(autouse=True, scope="module")
def _sdks() -> None:
    load_sdks()


@pytest.mark.parametrize("use", USES.values(), ids=USES)
@pytest.mark.filterwarnings("ignore:Inheritance class AiohttpClientSession:DeprecationWarning")  # google-genai's own
def test_every_answer_is_read(use: Callable[[str], Any], server: Server, store: MemoryStore) -> None:
    carried(onrecord.agent(use, store=store).run(server.url, run_id="r"))
    reader = onrecord.JournalReader(store, "r")
    calls = chat_page(reader, usage_of, 1, 100)["calls"]
    assert len(calls) == server.requests
    assert [one["text"] for one in calls[0]["messages"]] == ["hi"]
    for call in calls:
        assert call["message"]["role"] == "assistant"
        assert call["message"]["text"].startswith("answer ")
        assert (call["outcome"], call["used"]["tokens"]) == ("succeeded", 12)
        assert call["model"] in ("gpt-4o-mini", "claude-haiku-4-5", "gemini-2.0-flash")
    assert usage_page(reader, usage_of, 0, 10_000)["tokens"] == 12 * len(calls)
    rows = spans_page(reader, usage_of, 1, 1_000)["rows"]
    asked = [row for row in rows if row["kind"] == "ActionRequested"]
    assert [row["tokens"] for row in asked] == [12] * len(calls)
