"""Agents whose runs hold secrets, for the tests here."""

from __future__ import annotations

import os
from typing import Any

import onrecord

PASSWORD = "hunter2-in-the-input"
TOKEN = "tok-9999-SECRET-value"
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N"
VARIABLE = "MODEL_API_KEY"

calls: list[Any] = []
"""What the tools were really called with, in this process."""
crash_in: list[str] = []
"""Where the process is to die: the tool of that name is interrupted."""


def _called(name: str, *given: Any) -> None:
    if name in crash_in:
        crash_in.remove(name)
        raise KeyboardInterrupt
    calls.append((name, *given))


@onrecord.tool(idempotent=True)
def login(user: str, password: str) -> dict[str, Any]:
    _called("login", user, password)
    return {"access_token": TOKEN, "note": f"use {TOKEN} with {JWT}", "max_tokens": 5, "session_id": "s-1"}


@onrecord.tool(idempotent=True)
def ask(url: str, headers: dict[str, str], body: Any) -> str:
    _called("ask", url, headers, body)
    return f"answered {headers['authorization']}"


@onrecord.tool(idempotent=True)
def save(text: str) -> str:
    _called("save", text)
    return "saved"


@onrecord.agent(name="redacted agent", redact=True)
def client(user: str, password: str) -> dict[str, Any]:
    given = login(user, password)
    key = os.environ.get(VARIABLE, "")
    answer = ask(
        f"https://example.com/?key={key}&q=1",
        {"authorization": f"Bearer {given['access_token']}"},
        {"text": f"{given['note']} and {key}", "max_tokens": given["max_tokens"]},
    )
    onrecord.set_state({"token": given["access_token"], "answer": answer})
    saved = save(f"{answer} {given['session_id']}")
    return {"saved": saved, "token": given["access_token"]}


RESULT = {"saved": "saved", "token": TOKEN}
