"""LlamaIndex: a workflow of an agent, with parallel tools and streamed events."""

import asyncio

from llama_index.core.agent.workflow import AgentStream, FunctionAgent, ToolCallResult
from llama_index.llms.openai_like import OpenAILike
from task import QUESTION, URL, prompt

llm = OpenAILike(
    "gpt-4o-mini", api_base=f"{URL}/v1", api_key="none", is_chat_model=True, is_function_calling_model=True
)


async def weather(city: str) -> str:
    """Return the weather of a city."""
    return str(await llm.acomplete(prompt(city)))


async def main():
    handler = FunctionAgent(tools=[weather], llm=llm, system_prompt="Report.").run(QUESTION)
    async for event in handler.stream_events():
        if isinstance(event, AgentStream):
            print(event.delta, end="|")
        elif isinstance(event, ToolCallResult):
            print(event.tool_kwargs, event.tool_output.content)
    print(await handler)


asyncio.run(main())
