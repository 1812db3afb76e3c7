"""OpenAI's responses: parallel tools that stream, and ask again if a stream is cut off."""

import asyncio
import json

from openai import APIConnectionError, AsyncOpenAI
from task import QUESTION, URL, prompt

TOOL = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
tools = [{"type": "function", "name": "weather", "description": "Weather", "parameters": TOOL, "strict": False}]
client = AsyncOpenAI(base_url=f"{URL}/v1", api_key="none")


async def describe(city):
    text = ""
    async with client.responses.stream(model="gpt-4o-mini", input=prompt(city)) as stream:
        async for event in stream:
            if event.type == "response.output_text.delta":
                print(city, event.delta)
                text += event.delta
    return text


async def weather(call):
    city = json.loads(call.arguments)["city"]
    try:
        text = await describe(city)
    except APIConnectionError:  # the stream was cut off
        text = await describe(city)
    return {"type": "function_call_output", "call_id": call.call_id, "output": text}


async def main():
    items = [{"role": "user", "content": QUESTION}]
    first = await client.responses.create(model="gpt-4o-mini", input=items, tools=tools)
    items += [item.model_dump(exclude_none=True) for item in first.output]
    items += await asyncio.gather(*(weather(call) for call in first.output))
    print((await client.responses.create(model="gpt-4o-mini", input=items, tools=tools)).output_text)


asyncio.run(main())
