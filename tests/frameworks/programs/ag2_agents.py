"""AG2: an agent with parallel tools that ask agents of their own, and agents beside each other."""

import asyncio

from ag2 import Agent, tool
from ag2.config import OpenAIConfig
from task import MOMENTS, QUESTION, URL, prompt

config = OpenAIConfig(model="gpt-4o-mini", base_url=f"{URL}/v1", api_key="none")


@tool
async def weather(city: str) -> str:
    """Return the weather of a city."""
    return (await Agent("inner", prompt="Describe.", config=config).ask(prompt(city))).body


async def main():
    agent = Agent("reporter", prompt="Report.", config=config, tools=[weather])
    reply = await agent.ask(QUESTION)
    print(reply.body)
    print((await reply.ask("Which is best: Lima?")).body)
    writers = [Agent(city, prompt="Write.", config=config) for city in MOMENTS]
    for written in await asyncio.gather(*(writer.ask(prompt(writer.name)) for writer in writers)):
        print(written.body)


asyncio.run(main())
