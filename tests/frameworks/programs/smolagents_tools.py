"""smolagents: an agent that calls its tools on threads, and streams its steps."""

from smolagents import OpenAIModel, ToolCallingAgent, tool
from task import QUESTION, URL, prompt

model = OpenAIModel("gpt-4o-mini", api_base=f"{URL}/v1", api_key="none")


@tool
def weather(city: str) -> str:
    """Return the weather of a city.

    Args:
        city: The city.
    """
    return model([{"role": "user", "content": [{"type": "text", "text": prompt(city)}]}]).content


agent = ToolCallingAgent([weather], model, max_tool_threads=3, stream_outputs=True)
print("answer", agent.run(QUESTION))
