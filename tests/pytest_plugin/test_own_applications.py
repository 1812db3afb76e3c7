"""Applications that a test calls in its own process are its own code: they run in a replay, and what they ask for is
served."""

from __future__ import annotations

import pytest

from kit.plugin import Project

pytest_plugins = ["pytester"]

APPLICATION = """
import asyncio
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route

RUN = []


async def both(request):
    RUN.append(1)
    async with httpx.AsyncClient() as client:
        answers = await asyncio.gather(client.get(f"{URL}/a"), client.get(f"{URL}/b"))
    return JSONResponse([answer.json()["number"] for answer in answers])


app = Starlette(routes=[Route("/both", both)])
"""
CALLS = {
    "asgi": """
    async def ask():
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app)) as client:
            return (await client.get("http://app/both")).json()

    assert sorted(asyncio.run(ask())) == [1, 2]
    assert RUN == [1]
""",
    "mock transport": """
    client = httpx.Client(transport=httpx.MockTransport(lambda request: RUN.append(1) or httpx.Response(204)))
    assert client.get("http://nowhere/").status_code == 204
    assert httpx.get(f"{URL}/a").json()["number"] == 1
    assert RUN == [1]
""",
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())
def test_an_application_in_the_same_process_runs_in_a_replay(project: Project, call: str) -> None:
    project.pytester.makeini("[pytest]\n")
    project.write(f"{APPLICATION}\n\n@pytest.mark.onrecord\ndef test_app():\n{call}")
    project.run("--onrecord=once").assert_outcomes(passed=1)
    project.server.stop()
    project.run().assert_outcomes(passed=1)
