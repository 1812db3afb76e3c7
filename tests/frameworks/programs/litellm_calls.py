"""LiteLLM: blocking threads, awaited calls, a stream, a retry, two providers."""

import asyncio
from concurrent.futures import ThreadPoolExecutor, as_completed

import litellm
from task import MOMENTS, QUESTION, URL, prompt


def given(text, model="openai/gpt-4o-mini"):
    base = f"{URL}/v1" if model.startswith("openai") else URL
    messages = [{"role": "user", "content": text}]
    return {"model": model, "messages": messages, "api_base": base, "api_key": "none", "num_retries": 2}


def describe(city):
    return litellm.completion(**given(prompt(city))).choices[0].message.content


async def awaited():
    calls = [litellm.acompletion(**given(prompt(city))) for city in MOMENTS]
    calls.append(litellm.acompletion(**given(QUESTION, "anthropic/claude-haiku-4-5")))
    for answer in await asyncio.gather(*calls):
        print("awaited", answer.choices[0].message.content)
    async for part in await litellm.acompletion(**given(QUESTION), stream=True):
        print(part.choices[0].delta.content, end="|")
    print()


with ThreadPoolExecutor(3) as pool:
    for done in as_completed([pool.submit(describe, city) for city in MOMENTS]):
        print("thread", done.result())
asyncio.run(awaited())
