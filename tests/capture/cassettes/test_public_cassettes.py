"""Cassettes of public projects: each is kept as a run that verifies, and answers its own requests in any order."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
import urllib3

from kit.paths import DATA
from kit.soak import SOAK
from onrecord.capture.cassettes.file import read_cassette
from onrecord.capture.cassettes.interactions import Exchange, Interaction, read_interactions
from onrecord.capture.cassettes.player import MATCH_ALL, play_cassette, read_as_run
from onrecord.journal.export import export_run
from onrecord.journal.import_file import import_file
from onrecord.journal.verify import verify_run
from onrecord.store.memory import MemoryStore

FOLDER = DATA / "cassettes"
ALL_FILES = sorted(path for path in FOLDER.glob("*/*") if path.is_file())
FILES = ALL_FILES[:: 1 if SOAK else 3]
SEED = 20261116
needs_data = pytest.mark.skipif(not FILES, reason=f"the cassettes of public projects are not in {FOLDER}")


def interactions(path: Path) -> list[Interaction]:
    return read_interactions(read_cassette(path), path.name)


def exchanges(path: Path) -> list[Exchange]:
    return [one for one in interactions(path) if isinstance(one, Exchange)]


def asked(one: Exchange) -> tuple[Any, ...]:
    """Blanks between the same values are the same request."""
    try:
        body: Any = json.dumps(json.loads(one.request.body), sort_keys=True)
    except ValueError:
        body = one.request.body
    return one.request.method, one.request.url, body


def answered(status: int, body: bytes) -> tuple[int, bytes]:
    return status, body


def expected(found: list[Exchange]) -> dict[tuple[Any, ...], Counter[tuple[int, bytes]]]:
    """What each request was answered with, however often it was made."""
    answers: dict[tuple[Any, ...], Counter[tuple[int, bytes]]] = {}
    for one in found:
        answers.setdefault(asked(one), Counter())[answered(one.head.status, one.body)] += 1
    return answers


def url_of(one: Exchange) -> str:
    """Some projects take the whole URL out of their cassettes, and go by the rest."""
    return one.request.url if "://" in one.request.url else "https://example.com/"


def match_on(found: list[Exchange]) -> tuple[str, ...]:
    return MATCH_ALL if all("://" in one.request.url for one in found) else ("method", "body")


def sendable(one: Exchange) -> dict[str, str]:
    """Headers as a client of today might send them: they take no part."""
    kept = ("content-type", "accept")
    return {name: value for name, value in one.request.headers if name.lower() in kept}


@needs_data
def test_there_are_many_of_them() -> None:
    assert len(ALL_FILES) >= 155
    assert {path.parent.name for path in FILES} >= {"crewai", "langchain", "openllmetry", "pydantic-ai"}


@needs_data
@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}-{FILES.index(path)}")
def test_a_cassette_is_kept_as_a_run(path: Path, tmp_path: Path) -> None:
    store = MemoryStore()
    reader = read_as_run(store, path)
    report = verify_run(store, reader.run)
    assert report.valid
    requests = [entry for entry in reader.scan() if entry.kind == "ActionRequested"]
    assert len(requests) == len(interactions(path))

    file = tmp_path / "run.jsonl"
    export_run(reader, file)
    assert import_file(MemoryStore(), file).events == report.events


@needs_data
@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}-{FILES.index(path)}")
def test_tasks_get_their_own_answers_in_any_order(path: Path) -> None:
    found = exchanges(path)
    shuffled = random.Random(SEED).sample(found, len(found))

    async def ask(client: httpx.AsyncClient, one: Exchange) -> tuple[tuple[Any, ...], tuple[int, bytes]]:
        request = client.build_request(one.request.method, url_of(one), content=one.request.body)
        request.headers.update(sendable(one))
        if random.Random(f"{SEED}{one.request.body!r}").random() < 0.5:
            response = await client.send(request, stream=True)
            body = b"".join([part async for part in response.aiter_raw()])
            await response.aclose()
        else:
            response = await client.send(request)
            body = response.content
        return asked(one), answered(response.status_code, body)

    async def ask_all() -> list[tuple[tuple[Any, ...], tuple[int, bytes]]]:
        async with httpx.AsyncClient() as client:
            return await asyncio.gather(*(ask(client, one) for one in shuffled))

    with play_cassette(path, match_on(found)) as served:
        came = asyncio.run(ask_all())
    check(found, came)
    assert len(served.served) == len(found)
    assert served.executed == 0


@needs_data
@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}-{FILES.index(path)}")
def test_threads_get_their_own_answers_in_any_order(path: Path) -> None:
    found = exchanges(path)
    shuffled = random.Random(SEED + 1).sample(found, len(found))

    def ask(one: Exchange) -> tuple[tuple[Any, ...], tuple[int, bytes]]:
        with urllib3.PoolManager() as pool:
            response = pool.request(
                one.request.method, url_of(one), body=one.request.body, headers=sendable(one), redirect=False
            )
            return asked(one), answered(response.status, response.data)

    with play_cassette(path, match_on(found)), ThreadPoolExecutor(4) as threads:
        came = list(threads.map(ask, shuffled))
    check(found, came)


def check(found: list[Exchange], came: list[tuple[tuple[Any, ...], tuple[int, bytes]]]) -> None:
    answers: dict[tuple[Any, ...], Counter[tuple[int, bytes]]] = {}
    for request, answer in came:
        answers.setdefault(request, Counter())[answer] += 1
    assert answers == expected(found)
