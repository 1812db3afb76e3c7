"""Google ADK: an agent with parallel tools, and agents beside each other."""

import asyncio
import os

from google.adk.agents import LlmAgent, ParallelAgent, SequentialAgent
from google.adk.runners import InMemoryRunner
from google.genai import Client, types
from task import MOMENTS, QUESTION, URL, prompt

os.environ |= {"GOOGLE_API_KEY": "none", "GOOGLE_GEMINI_BASE_URL": URL}
MODEL = "gemini-2.0-flash"
retries = types.HttpRetryOptions(attempts=3, initial_delay=0.05, http_status_codes=[503])
options = types.HttpOptions(retry_options=retries)
client = Client(api_key="none", http_options=types.HttpOptions(base_url=URL, retry_options=retries))


async def weather(city: str) -> str:
    """Return the weather of a city."""
    return (await client.aio.models.generate_content(model=MODEL, contents=prompt(city))).text


def writer(city):
    config = types.GenerateContentConfig(http_options=options)
    return LlmAgent(name=city, model=MODEL, instruction=prompt(city), generate_content_config=config)


async def main():
    reporter = LlmAgent(name="reporter", model=MODEL, instruction="Report.", tools=[weather])
    writers = ParallelAgent(name="writers", sub_agents=[writer(city) for city in MOMENTS])
    runner = InMemoryRunner(SequentialAgent(name="all", sub_agents=[reporter, writers]), app_name="app")
    session = await runner.session_service.create_session(app_name="app", user_id="user")
    message = types.Content(role="user", parts=[types.Part(text=QUESTION)])
    async for event in runner.run_async(user_id="user", session_id=session.id, new_message=message):
        for part in event.content.parts if event.content else ():
            print(event.author, part.text, part.function_response and part.function_response.response)


asyncio.run(main())
