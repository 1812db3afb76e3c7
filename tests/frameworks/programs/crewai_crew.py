"""CrewAI: tasks on threads beside each other, an agent with a tool, and a task that reads the others' results."""

from crewai import LLM, Agent, Crew, Task
from crewai.tools import tool
from task import MOMENTS, QUESTION, URL, prompt

llm = LLM(model="openai/gpt-4o-mini", base_url=f"{URL}/v1", api_key="none")


@tool
def weather(city: str) -> str:
    """Return the weather of a city."""
    return llm.call(prompt(city))


def task(description, agent, **more):
    return Task(description=description, expected_output="One sentence.", agent=agent, **more)


def writer(name):
    return Agent(role=f"Writer of {name}", goal="Write", backstory="Brief.", llm=llm)


reporter = Agent(role="Reporter", goal="Report", backstory="Precise.", llm=llm, tools=[weather])
cities = [task(prompt(city), writer(city), async_execution=True) for city in MOMENTS]
tasks = [task(QUESTION, reporter), *cities, task("Sum up.", writer("all"), context=cities)]
for one in Crew(agents=[each.agent for each in tasks], tasks=tasks).kickoff().tasks_output:
    print(one.raw)
