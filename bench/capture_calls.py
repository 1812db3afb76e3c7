"""The measured program: makes as many HTTP calls as its input says, like any unchanged program.

    python -m bench.capture_calls HOW URL [FILE]

It reads no clock, because that would be recorded too. The parent measures.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx

from bench.child_process import Parent

TEXT = "What is to be done about the order that was never delivered? " * 8


def main() -> None:
    how, url, *file = sys.argv[1:]
    parent = Parent()
    with ExitStack() as stack:
        if how.startswith("vcrpy"):
            import vcr

            mode: Any = "none" if how == "vcrpy-replay" else "all"
            stack.enter_context(vcr.use_cassette(file[0], record_mode=mode))
        client = stack.enter_context(httpx.Client())
        if how == "stream":
            _serve_stream(parent, client, url)
            return
        calls = _make_calls(how, client, url, file)
        parent.say("ready")
        while (line := parent.next_line()) is not None:
            for _ in range(int(line)):
                next(calls)
            parent.say("done")


def _make_calls(how: str, client: httpx.Client, url: str, file: list[str]) -> Iterator[None]:
    commit = _open_bare_commit(file[0]) if how.startswith("floor") else None
    number = 0
    while True:
        number += 1
        if "model" in how:
            body = {"model": "gpt-4o-mini", "messages": [{"role": "user", "content": f"{number} {TEXT}"}]}
            answer = client.post(f"{url}/v1/chat/completions", json=body).json()
            assert answer["choices"]
        elif "post" in how:
            assert client.post(f"{url}/act/{number}", json={"text": TEXT}).json()["number"]
        else:
            assert client.get(f"{url}/page/{number}").json()["number"]
        if commit is not None:
            commit(number)
        yield


def _open_bare_commit(file: str) -> Callable[[int], None]:
    from bench.append import make_bare_insert

    return make_bare_insert(Path(file))


def _serve_stream(parent: Parent, client: httpx.Client, url: str) -> None:
    """Answer with the first part of a new stream for each path read, and with the next part for `next`."""
    parts: Iterator[str] = iter(())
    parent.say("ready")
    while (line := parent.next_line()) is not None:
        if line != "next":
            parts = _stream_parts(client, url + line)
        parent.say(next(parts, None))


def _stream_parts(client: httpx.Client, url: str) -> Iterator[str]:
    with client.stream("GET", url) as response:
        yield from response.iter_text()


if __name__ == "__main__":
    main()
