"""LangGraph: nodes that fan out with `Send` and meet again, awaited."""

import asyncio
import operator
from typing import Annotated, TypedDict

from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, StateGraph
from langgraph.types import Send
from task import MOMENTS, URL, prompt

model = ChatOpenAI(model="gpt-4o-mini", base_url=f"{URL}/v1", api_key="none")


class State(TypedDict):
    found: Annotated[list[str], operator.add]
    answer: str


async def describe(given):
    described = await model.ainvoke(prompt(given["city"]))
    print(given["city"], described.content)
    return {"found": [described.content]}


async def meet(state: State):
    return {"answer": (await model.ainvoke("Sum up: " + "; ".join(state["found"]))).content}


graph = StateGraph(State)
graph.add_node("describe", describe)
graph.add_node("meet", meet)
graph.add_conditional_edges(START, lambda state: [Send("describe", {"city": city}) for city in MOMENTS], ["describe"])
graph.add_edge("describe", "meet")
graph.add_edge("meet", END)
print(asyncio.run(graph.compile().ainvoke({"found": []})))
