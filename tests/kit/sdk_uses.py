"""What the official clients of OpenAI, Anthropic and Google are used for here: blocking, awaited and streaming.

As a program, `python sdk_uses.py openai_async URL` says what it has seen.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import anthropic
    import openai
    from google import genai
    from google.genai import types

MESSAGES: Any = [{"role": "user", "content": "hi"}]


def load_sdks(*namespaces: dict[str, Any], only: str = "") -> None:
    """Import the clients, or those of one use, into this module and others. Collecting tests need not wait for it."""
    found: dict[str, Any] = {}
    for name in ("openai", "anthropic"):
        if only.startswith(name) or not only:
            found[name] = import_module(name)
    if only.startswith("google") or not only:
        found |= {"genai": import_module("google.genai"), "types": import_module("google.genai.types")}
    for namespace in (globals(), *namespaces):
        namespace.update(found)


def _openai(url: str) -> list[Any]:
    with openai.OpenAI(base_url=f"{url}/v1", api_key="sk-canary") as client:
        chat = client.chat.completions
        seen: list[Any] = [chat.create(model="m", messages=MESSAGES).choices[0].message.content for _ in range(2)]
        stream = chat.create(model="m", messages=MESSAGES, stream=True, stream_options={"include_usage": True})
        seen.append([part.model_dump() for part in stream])
        seen.append(client.responses.create(model="m", input="hi").output_text)
        seen.append([event.type for event in client.responses.create(model="m", input="hi", stream=True)])
    return seen


async def _openai_async(url: str) -> list[Any]:
    async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="sk-canary") as client:
        chat = client.chat.completions
        answers = await asyncio.gather(*(chat.create(model="m", messages=MESSAGES) for _ in range(5)))
        seen: list[Any] = [one.choices[0].message.content for one in answers]
        stream = await chat.create(model="m", messages=MESSAGES, stream=True, stream_options={"include_usage": True})
        seen.append([part.model_dump() async for part in stream])
        events = await client.responses.create(model="m", input="hi", stream=True)
        seen.append([event.type async for event in events])
    return seen


def _anthropic(url: str) -> list[Any]:
    with anthropic.Anthropic(base_url=url, api_key="sk-canary") as client:
        asked: Any = {"model": "claude-haiku-4-5", "max_tokens": 9, "messages": MESSAGES}
        seen: list[Any] = [client.messages.create(**asked).model_dump() for _ in range(2)]
        with client.messages.stream(**asked) as stream:
            seen.append(list(stream.text_stream))
            seen.append(stream.get_final_message().model_dump())
        seen.append([event.type for event in client.messages.create(**asked, stream=True)])
    return seen


async def _anthropic_async(url: str) -> list[Any]:
    async with anthropic.AsyncAnthropic(base_url=url, api_key="sk-canary") as client:
        asked: Any = {"model": "claude-haiku-4-5", "max_tokens": 9, "messages": MESSAGES}
        answers = await asyncio.gather(*(client.messages.create(**asked) for _ in range(5)))
        seen: list[Any] = [one.model_dump() for one in answers]
        async with client.messages.stream(**asked) as stream:
            seen.append([text async for text in stream.text_stream])
        seen.append([event.type async for event in await client.messages.create(**asked, stream=True)])
    return seen


def _google_client(url: str) -> genai.Client:
    return genai.Client(api_key="canary", http_options=types.HttpOptions(base_url=url))


def _google(url: str) -> list[Any]:
    client = _google_client(url)
    seen: list[Any] = [client.models.generate_content(model="gemini-2.0-flash", contents="hi").text for _ in range(2)]
    stream = client.models.generate_content_stream(model="gemini-2.0-flash", contents="hi")
    seen.append([part.text for part in stream])
    client.close()
    return seen


async def _google_async(url: str) -> list[Any]:
    client = _google_client(url)
    models = client.aio.models
    answers = await asyncio.gather(
        *(models.generate_content(model="gemini-2.0-flash", contents="hi") for _ in range(5))
    )
    seen: list[Any] = [one.text for one in answers]
    stream = await models.generate_content_stream(model="gemini-2.0-flash", contents="hi")
    seen.append([part.text async for part in stream])
    await client.aio.aclose()
    client.close()
    return seen


USES: dict[str, Callable[[str], Any]] = {
    "openai": _openai,
    "openai_async": _openai_async,
    "anthropic": _anthropic,
    "anthropic_async": _anthropic_async,
    "google": _google,
    "google_async": _google_async,
}


def carried(made: Any) -> Any:
    return asyncio.run(made) if asyncio.iscoroutine(made) else made


if __name__ == "__main__":
    load_sdks(only=sys.argv[1])
    for seen in carried(USES[sys.argv[1]](sys.argv[2])):
        print(seen)
