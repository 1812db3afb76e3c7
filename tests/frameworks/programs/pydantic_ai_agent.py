"""Pydantic AI: parallel tools, blocking and awaited, a typed answer, and a streamed run."""

import asyncio

from openai import OpenAI
from pydantic import BaseModel
from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from task import QUESTION, URL, prompt

model = OpenAIChatModel("gpt-4o-mini", provider=OpenAIProvider(base_url=f"{URL}/v1", api_key="none"))
inner = Agent(model)
blocking = OpenAI(base_url=f"{URL}/v1", api_key="none")


class Report(BaseModel):
    text: str
    stars: int


async def weather(city: str) -> str:
    """Return the weather of a city."""
    return (await inner.run(prompt(city))).output


def weather_in_a_thread(city: str) -> str:
    """Return the weather of a city."""
    answer = blocking.chat.completions.create(model="gpt-4o-mini", messages=[{"role": "user", "content": prompt(city)}])
    return answer.choices[0].message.content


async def streamed():
    async with Agent(model, tools=[weather]).run_stream(QUESTION) as result:
        async for text in result.stream_text(delta=True, debounce_by=None):
            print(text, end="|")
    print()


print(Agent(model, tools=[weather], output_type=Report).run_sync(QUESTION).output)
print(Agent(model, tools=[weather_in_a_thread]).run_sync(QUESTION).output)
asyncio.run(streamed())
