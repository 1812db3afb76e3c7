"""Runs that are shared in tests: plain ones, two that part, and one that is full of what must not act."""

from __future__ import annotations

from typing import Any

import apsw

import onrecord
from onrecord.store.contract import Store

HOSTILE = (
    "</script><script>document.title='owned'</script>",
    "<!--<script>",
    "<img src=x onerror=\"document.title='owned'\">",
    "<svg onload=alert(1)>",
    "]]></style><style>body{display:none}",
    "javascript:alert(1)",
    "\\u003c \\\\u003cscript> \\",
    "\x1b[31mred\x1b[0m \u202egnp.exe\u2066 \u2028 \u2029 \ufeff \x00 \x7f",
    "{{7*7}} ${7*7} {% raw %}",
    "[x](javascript:alert(1))",
    "\U0001f600 e\u0301 \ud55c\uad6d\uc5b4",
)


class World:
    """What tools answer, so that two runs of one agent can part."""

    words = "quick brown fox"
    detour = False


@onrecord.tool(kind="model_call", idempotent=True)
def ask(messages: list[dict[str, str]]) -> dict[str, Any]:
    usage = {"prompt_tokens": 10 * len(messages), "completion_tokens": 7, "total_tokens": 10 * len(messages) + 7}
    return {"role": "assistant", "content": f"answer {len(messages)}: the {World.words} jumps", "usage": usage}


@onrecord.step
def look_up(order: str) -> Any:
    return {"order": order, "cents": 4200, "weights": [1, 1.0, -0.0, 1e21, 2**60]}


@onrecord.agent
def support(order: str, turns: int) -> str:
    messages = [{"role": "system", "content": "You answer questions about orders. " * 60}]
    for turn in range(turns):
        look_up(f"{order}-{turn}")
        messages.append({"role": "user", "content": f"question {turn}"})
        messages.append({"role": "assistant", "content": ask(list(messages))["content"]})
        if World.detour and turn == 1:
            look_up("a detour")
    onrecord.set_state({"turns": turns})
    return messages[-1]["content"]


@onrecord.step
def say(value: Any) -> Any:
    return value


@onrecord.agent
def hostile_agent(name: str) -> str:
    for text in HOSTILE:
        say({text: text, "__proto__": {"polluted": text}, "constructor": text, "": [text]})
    say("x" * 1_000_000)
    say(bytes(range(256)) * 300)
    ask([{"role": HOSTILE[0], "content": text} for text in HOSTILE])
    onrecord.set_state({"texts": list(HOSTILE)})
    return HOSTILE[0]


def record_two(store: Store, turns: int = 4) -> None:
    """`first` and `second`: the models of the second say something else, and it takes a detour."""
    World.words, World.detour = "quick brown fox", False
    support.run("A-17", turns, run_id="first", store=store)
    World.words, World.detour = "slow green fox", True
    support.run("A-17", turns, run_id="second", store=store)
    World.words, World.detour = "quick brown fox", False


def record_hostile(store: Store) -> None:
    hostile_agent.run("x", run_id="hostile", store=store)


def damage(path: str, run: str, seq: int) -> None:
    """Alters one content behind the store's back."""
    connection = apsw.Connection(path)
    triggers = list(connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'"))
    for name, _ in triggers:
        connection.execute(f"DROP TRIGGER {name}")
    connection.execute(
        "UPDATE events SET content = x'007b7d' WHERE seq = ? AND run_no = (SELECT run_no FROM runs WHERE run = ?)",
        (seq, run),
    )
    for _, written in triggers:
        connection.execute(written)
    connection.close()
