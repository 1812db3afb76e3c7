"""Anthropic's client, awaited: parallel tools that stream, and ask again if a stream is cut off."""

import asyncio

from anthropic import Anthropic, AsyncAnthropic
from httpx2 import TransportError
from task import QUESTION, URL, prompt

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
given = {"model": "claude-haiku-4-5", "max_tokens": 100}
tools = [{"name": "weather", "description": "Weather", "input_schema": SCHEMA}]
client = AsyncAnthropic(base_url=URL, api_key="none")


async def describe(city):
    text = ""
    async with client.messages.stream(**given, messages=[{"role": "user", "content": prompt(city)}]) as stream:
        async for part in stream.text_stream:
            print(city, part)
            text += part
    return text


async def weather(call):
    try:
        text = await describe(call.input["city"])
    except TransportError:  # the stream was cut off
        text = await describe(call.input["city"])
    return {"type": "tool_result", "tool_use_id": call.id, "content": text}


async def main():
    messages = [{"role": "user", "content": QUESTION}]
    first = await client.messages.create(**given, messages=messages, tools=tools)
    messages.append({"role": "assistant", "content": [one.model_dump(exclude_none=True) for one in first.content]})
    messages.append({"role": "user", "content": await asyncio.gather(*(weather(call) for call in first.content))})
    return messages


messages = asyncio.run(main())
print(Anthropic(base_url=URL, api_key="none").messages.create(**given, messages=messages, tools=tools).content[0].text)
