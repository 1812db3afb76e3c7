"""OpenAI's client, awaited: parallel tools, a stream, a retry."""

import asyncio
import json

from openai import AsyncOpenAI
from task import QUESTION, URL, prompt

TOOL = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
client = AsyncOpenAI(base_url=f"{URL}/v1", api_key="none")


async def ask(messages, **more):
    return await client.chat.completions.create(model="gpt-4o-mini", messages=messages, **more)


async def weather(call):
    city = json.loads(call.function.arguments)["city"]
    described = await ask([{"role": "user", "content": prompt(city)}])
    print(city, described.choices[0].message.content)
    return {"role": "tool", "tool_call_id": call.id, "content": described.choices[0].message.content}


async def main():
    messages = [{"role": "user", "content": QUESTION}]
    tools = [{"type": "function", "function": {"name": "weather", "description": "Weather", "parameters": TOOL}}]
    first = (await ask(messages, tools=tools)).choices[0].message
    messages += [first.model_dump(exclude_none=True)]
    messages += await asyncio.gather(*(weather(call) for call in first.tool_calls))
    async for part in await ask(messages, tools=tools, stream=True):
        if part.choices and part.choices[0].delta.content:
            print(part.choices[0].delta.content, end="|")
    print()


asyncio.run(main())
