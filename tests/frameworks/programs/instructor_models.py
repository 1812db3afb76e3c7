"""Instructor: typed answers beside each other, awaited."""

import asyncio

import instructor
from openai import AsyncOpenAI
from pydantic import BaseModel
from task import MOMENTS, QUESTION, URL, prompt

client = instructor.from_openai(AsyncOpenAI(base_url=f"{URL}/v1", api_key="none"))


class Report(BaseModel):
    text: str
    stars: int


async def report(text):
    messages = [{"role": "user", "content": text}]
    return await client.chat.completions.create(model="gpt-4o-mini", messages=messages, response_model=Report)


async def main():
    for done in asyncio.as_completed([report(prompt(city)) for city in MOMENTS]):
        print(await done)
    print(await report(QUESTION))


asyncio.run(main())
