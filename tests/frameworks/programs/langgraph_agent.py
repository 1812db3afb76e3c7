"""LangGraph: an agent whose tools run at the same time, blocking and awaited, with streamed steps."""

import asyncio

from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from task import QUESTION, URL, prompt

model = ChatOpenAI(model="gpt-4o-mini", base_url=f"{URL}/v1", api_key="none")


@tool
def weather(city: str) -> str:
    """Return the weather of a city."""
    return model.invoke(prompt(city)).content


def think(state: MessagesState):
    return {"messages": [model.bind_tools([weather]).invoke(state["messages"])]}


graph = StateGraph(MessagesState)
graph.add_node("think", think)
graph.add_node("tools", ToolNode([weather]))
graph.add_edge(START, "think")
graph.add_conditional_edges("think", tools_condition)
graph.add_edge("tools", "think")
agent = graph.compile()


async def awaited():
    async for step in agent.astream({"messages": [("user", QUESTION)]}, stream_mode="updates"):
        for name, update in step.items():
            print("awaited", name, [message.content for message in update["messages"]])


for step in agent.stream({"messages": [("user", QUESTION)]}, stream_mode="updates"):
    for name, update in step.items():
        print(name, [message.content for message in update["messages"]])
asyncio.run(awaited())
