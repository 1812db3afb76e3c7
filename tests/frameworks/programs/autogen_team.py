"""AutoGen: an assistant with parallel tools, and a team that streams its messages."""

import asyncio

from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.conditions import MaxMessageTermination
from autogen_agentchat.teams import RoundRobinGroupChat
from autogen_core.models import UserMessage
from autogen_ext.models.openai import OpenAIChatCompletionClient
from task import QUESTION, URL, prompt

model = OpenAIChatCompletionClient(model="gpt-4o-mini", base_url=f"{URL}/v1", api_key="none")


async def weather(city: str) -> str:
    """Return the weather of a city."""
    return (await model.create([UserMessage(content=prompt(city), source="user")])).content


async def main():
    reporter = AssistantAgent("reporter", model, tools=[weather], reflect_on_tool_use=True)
    writer = AssistantAgent("writer", model, model_client_stream=True)
    team = RoundRobinGroupChat([reporter, writer], termination_condition=MaxMessageTermination(5))
    async for message in team.run_stream(task=QUESTION):
        print(type(message).__name__, getattr(message, "content", ""))
    await model.close()


asyncio.run(main())
