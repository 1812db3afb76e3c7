"""Haystack: an agent whose tools run on threads, and awaited calls beside each other."""

import asyncio

from haystack.components.agents import Agent
from haystack.components.generators.chat import OpenAIChatGenerator
from haystack.dataclasses import ChatMessage
from haystack.tools import tool
from haystack.utils import Secret
from task import MOMENTS, QUESTION, URL, prompt


def generator():
    return OpenAIChatGenerator(api_key=Secret.from_token("none"), model="gpt-4o-mini", api_base_url=f"{URL}/v1")


def ask(text):
    return generator().run([ChatMessage.from_user(text)])["replies"][0].text


@tool
def weather(city: str) -> str:
    """Return the weather of a city."""
    return ask(prompt(city))


async def main():
    asked = [generator().run_async([ChatMessage.from_user(prompt(city))]) for city in MOMENTS]
    for done in await asyncio.gather(*asked):
        print(done["replies"][0].text)


agent = Agent(chat_generator=generator(), tools=[weather])
print(agent.run(messages=[ChatMessage.from_user(QUESTION)])["messages"][-1].text)
asyncio.run(main())
