"""Measure a conversation of a thousand turns, in which each call sends all earlier messages.

Measured are the bytes on disk, and the cost of a late append against an early one.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.measurement import Row, Workplace
from onrecord import ActionRequested, ActionSucceeded, Completed, Journal, open_store
from onrecord.core.canonical import canonical_bytes
from onrecord.core.hashing import value_digest

TURNS = 1000
MESSAGE_BYTES = 1024
WORDS = (Path(__file__).parents[1] / "LICENSE").read_text().lower().split()


def make_message(role: str, random_source: random.Random) -> dict[str, str]:
    """Return a message of 1 KB of words, different each time."""
    text = ""
    while len(text) < MESSAGE_BYTES:
        text += random_source.choice(WORDS) + " "
    return {"role": role, "content": text[:MESSAGE_BYTES]}


def make_random_message(role: str, random_source: random.Random) -> dict[str, str]:
    """Return a message of 1 KB that cannot be compressed."""
    return {
        "role": role,
        "content": "".join(random_source.choices("abcdefghijklmnopqrstuvwxyz0123456789+/", k=MESSAGE_BYTES)),
    }


def disk_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def measure_conversation(workplace: Workplace) -> Iterator[Row]:
    turns = workplace.count(TURNS, least=50)
    for name, make in (("words", make_message), ("incompressible text", make_random_message)):
        folder = workplace.path(f"conversation-{name[:5]}")
        folder.mkdir()
        unique, early, late = _record_conversation(folder, turns, make)
        taken = disk_bytes(folder)
        yield Row(
            f"{turns}-turn conversation, 1 KB a message ({name})",
            f"{taken / unique:.2f} × its unique bytes on disk ({taken / 1e6:.1f} MB of {unique / 1e6:.1f} MB)",
            "≤ 3 ×",
            taken <= 3 * unique,
        )
        yield Row(
            "an append at its end against one at its beginning, hashing apart",
            f"{late[0]:.2f} ms against {early[0]:.2f} ms (hashing {late[1]:.2f} and {early[1]:.2f} ms)",
            "shown",
            None,
        )
    yield from _measure_peers(workplace, turns)


def _record_conversation(folder: Path, turns: int, make: Any) -> tuple[int, tuple[float, float], tuple[float, float]]:
    store = open_store(f"sqlite:///{folder / 'run.db'}")
    journal = Journal.create(store)
    source = random.Random(1)
    messages: list[dict[str, str]] = []
    costs: list[tuple[float, float]] = []
    for turn in range(turns):
        messages.append(make("user", source))
        request = {"model": "gpt-5", "temperature": 0.7, "messages": list(messages)}
        start = time.thread_time()
        journal.append(ActionRequested(action_id=f"t{turn}", name="chat", payload=request), sync=False)
        spent = time.thread_time() - start
        start = time.thread_time()
        value_digest(canonical_bytes(request))
        costs.append((spent * 1000, (time.thread_time() - start) * 1000))
        messages.append(make("assistant", source))
        journal.append(ActionSucceeded(action_id=f"t{turn}", output=messages[-1]), sync=turn % 50 == 0)
    journal.append(Completed())
    store.close()
    unique = sum(len(item["content"]) for item in messages)
    tenth = max(1, turns // 10)

    def median(part: list[tuple[float, float]]) -> tuple[float, float]:
        return statistics.median(c for c, _ in part), statistics.median(h for _, h in part)

    return unique, median(costs[:tenth]), median(costs[-tenth:])


def _measure_peers(workplace: Workplace, turns: int) -> Iterator[Row]:
    unique = turns * 2 * MESSAGE_BYTES
    for name, act in (("vcrpy", _record_with_vcrpy), ("LangGraph SqliteSaver", _record_with_langgraph)):
        folder = workplace.path(f"peer-{name[:4]}")
        folder.mkdir()
        peer_turns = min(turns, 200)
        try:
            act(folder, peer_turns)
        except ImportError as error:
            yield Row(f"the same recorded by {name}", f"not installed: {error.name}", "shown", None)
            continue
        taken = disk_bytes(folder)
        peer_unique = unique * peer_turns / turns
        yield Row(
            f"the first {peer_turns} turns recorded by {name}",
            f"{taken / peer_unique:.1f} × their unique bytes ({taken / 1e6:.1f} MB of {peer_unique / 1e6:.2f} MB)",
            "shown",
            None,
        )


def _record_with_vcrpy(folder: Path, turns: int) -> None:
    """Record real httpx requests to a server on loopback in a cassette."""
    import json
    import threading
    from http.server import BaseHTTPRequestHandler, HTTPServer

    import httpx
    import vcr

    answers = random.Random(2)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            body = json.dumps(make_message("assistant", answers)).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    source = random.Random(1)
    messages: list[dict[str, str]] = []
    try:
        with vcr.use_cassette(str(folder / "cassette.yaml"), record_mode="all"), httpx.Client() as client:
            for _ in range(turns):
                messages.append(make_message("user", source))
                url = f"http://127.0.0.1:{server.server_port}/"
                messages.append(client.post(url, json={"model": "gpt-5", "messages": messages}).json())
    finally:
        server.shutdown()


def _record_with_langgraph(folder: Path, turns: int) -> None:
    """Write a checkpoint for each turn, as a graph with a messages channel does."""
    from langgraph.checkpoint.base import empty_checkpoint
    from langgraph.checkpoint.sqlite import SqliteSaver

    source = random.Random(1)
    messages: list[dict[str, str]] = []
    with SqliteSaver.from_conn_string(str(folder / "checkpoints.db")) as saver:
        config: Any = {"configurable": {"thread_id": "1", "checkpoint_ns": ""}}
        for turn in range(turns):
            messages.append(make_message("user", source))
            messages.append(make_message("assistant", source))
            checkpoint = empty_checkpoint()
            checkpoint["channel_values"] = {"messages": list(messages)}
            checkpoint["channel_versions"] = {"messages": turn + 1}
            config = saver.put(config, checkpoint, {"source": "loop", "step": turn}, {"messages": turn + 1})
