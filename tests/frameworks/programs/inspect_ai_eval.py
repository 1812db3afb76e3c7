"""Inspect: an evaluation of three samples beside each other, each an agent with a tool."""

import os

import inspect_ai
from inspect_ai.dataset import Sample
from inspect_ai.model import get_model
from inspect_ai.scorer import includes
from inspect_ai.solver import generate, use_tools
from inspect_ai.tool import tool
from task import MOMENTS, URL, prompt

# Inspect asks git for the commit if it finds it, and a process that is not Python is not recorded.
os.environ |= {"OPENAI_BASE_URL": f"{URL}/v1", "OPENAI_API_KEY": "none", "PATH": ""}
model = get_model("openai/gpt-4o-mini", responses_api=False)


@tool
def weather():
    async def execute(city: str) -> str:
        """Return the weather of a city.

        Args:
            city: The city.
        """
        return (await model.generate(prompt(city))).completion

    return execute


samples = [Sample(input=f"The weather of {city}?", target=city) for city in MOMENTS]
task = inspect_ai.Task(dataset=samples, solver=[use_tools(weather()), generate()], scorer=includes(), name="weather")
[log] = inspect_ai.eval(task, model=model, display="none", log_dir="logs")
for sample in log.samples:
    print(sample.id, [message.text for message in sample.messages], sample.scores["includes"].value)
