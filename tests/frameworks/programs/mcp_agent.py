"""An agent whose tools are calls of an MCP server, beside each other. Used by the programs for each transport."""

import asyncio
import json

from openai import AsyncOpenAI
from task import QUESTION, URL, prompt

client = AsyncOpenAI(base_url=f"{URL}/v1", api_key="none")


async def ask(messages, **more):
    return (await client.chat.completions.create(model="gpt-4o-mini", messages=messages, **more)).choices[0].message


async def report(session):
    await session.initialize()
    tools = [
        {"type": "function", "function": {"name": one.name, "description": "Weather", "parameters": one.input_schema}}
        for one in (await session.list_tools()).tools
    ]

    async def call(asked):
        arguments = json.loads(asked.function.arguments)
        found = (await session.call_tool(asked.function.name, arguments)).content[0].text
        checked = await ask([{"role": "user", "content": f"Check: {found} {prompt(arguments['city'])}"}])
        print(arguments["city"], found, checked.content)
        return {"role": "tool", "tool_call_id": asked.id, "content": checked.content}

    messages = [{"role": "user", "content": QUESTION}]
    first = await ask(messages, tools=tools)
    messages.append(first.model_dump(exclude_none=True))
    messages += await asyncio.gather(*map(call, first.tool_calls))
    print((await ask(messages, tools=tools)).content)
