"""The tape of tracefork, and clients on it."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
from tracefork import CheckpointWriter, NativeToolSeam, Tape, recover_checkpoint
from tracefork.divergence import diagnose, diagnostic_to_dict
from tracefork.nondet import find_divergence
from tracefork.transport import AsyncTraceforkTransport, TraceforkTransport

TAPE, CHECKPOINT = Path("run.tape.sqlite"), Path("checkpoint.sqlite")
MODES = {"record": "record", "replay": "replay", "resume": "new_episodes"}
mode = ""
tape: Any = None
transports: list[Any] = []
sent: list[Any] = []


def begin(wanted: str) -> None:
    global mode, tape
    mode = MODES[wanted]
    if wanted == "record":
        tape = Tape(agent_name="situations")
    elif wanted == "replay":
        tape = Tape.load(str(TAPE))
    else:
        tape, _ = recover_checkpoint(str(CHECKPOINT))


def end() -> str | None:
    """What is left of a tape that was not used up."""
    if mode != "replay":
        tape.save(str(TAPE))
        return None
    unused = [one for one in transports if not one.fully_consumed()]
    return "the tape was not used up" if unused else None


def explain(error: Exception) -> None:
    """What its verifier shows of a divergence: the fields that differ, by their paths."""
    if mode != "replay" or find_divergence(error) is None:
        return
    for transport in transports:
        found = diagnose(tape, transport._i, sent[-1]) if sent else None
        if found is not None:
            print(json.dumps(diagnostic_to_dict(found), default=str), file=sys.stderr)


def _options() -> dict[str, Any]:
    if mode != "record" or "SITUATIONS_DIES" not in os.environ:
        return {}
    writer = CheckpointWriter(str(CHECKPOINT), agent_name="situations")
    return {"on_exchange": writer.append_exchange}


def http_client() -> httpx2.Client:
    if not transports:  # one for all clients: the tape is read in order
        inner = None if mode == "replay" else httpx2.HTTPTransport()
        transports.append(TraceforkTransport(mode, tape, inner, **_options()))
    return httpx2.Client(transport=transports[-1], event_hooks={"request": [sent.append]})


def async_http_client() -> httpx2.AsyncClient:
    inner = None if mode == "replay" else httpx2.AsyncHTTPTransport()
    transports.append(AsyncTraceforkTransport(mode, tape, inner, **_options()))
    return httpx2.AsyncClient(transport=transports[-1])


def tool(function: Callable[..., Any]) -> Callable[..., Any]:
    seam = NativeToolSeam(tape, "replay" if mode == "replay" else "record")
    return seam.tool(function.__name__)(function)  # type: ignore[no-any-return]
