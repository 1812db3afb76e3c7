"""OpenAI Agents: parallel tools that run agents of their own, whole and streamed, over the responses API."""

import asyncio

from agents import Agent, OpenAIResponsesModel, Runner, function_tool, set_tracing_disabled
from openai import AsyncOpenAI
from task import QUESTION, URL, prompt

set_tracing_disabled(True)
model = OpenAIResponsesModel("gpt-4o-mini", AsyncOpenAI(base_url=f"{URL}/v1", api_key="none"))
inner = Agent("Inner", model=model)


@function_tool
async def weather(city: str) -> str:
    """Return the weather of a city."""
    return (await Runner.run(inner, prompt(city))).final_output


agent = Agent("Reporter", instructions="Report.", model=model, tools=[weather])


async def main():
    print((await Runner.run(agent, QUESTION)).final_output)
    result = Runner.run_streamed(agent, QUESTION)
    async for event in result.stream_events():
        if event.type == "run_item_stream_event":
            print(event.name, event.item.type, getattr(event.item, "output", ""))
    print(result.final_output)


asyncio.run(main())
