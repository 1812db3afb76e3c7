"""Google's client: functions that it calls itself, awaited calls beside each other, a stream, a retry."""

import asyncio

from google import genai
from google.genai import types
from task import MOMENTS, QUESTION, URL, prompt

retries = types.HttpRetryOptions(attempts=3, initial_delay=0.05, http_status_codes=[503])
client = genai.Client(api_key="none", http_options=types.HttpOptions(base_url=URL, retry_options=retries))
MODEL = "gemini-2.0-flash"


def weather(city: str) -> str:
    """Return the weather of a city."""
    return client.models.generate_content(model=MODEL, contents=prompt(city)).text


async def main():
    asked = [client.aio.models.generate_content(model=MODEL, contents=prompt(city)) for city in MOMENTS]
    for done in asyncio.as_completed(asked):
        print((await done).text)
    async for part in await client.aio.models.generate_content_stream(model=MODEL, contents=QUESTION):
        print(part.text, end="|")
    print()


config = types.GenerateContentConfig(tools=[weather])
print(client.models.generate_content(model=MODEL, contents=QUESTION, config=config).text)
asyncio.run(main())
