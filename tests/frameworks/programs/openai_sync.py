"""OpenAI's blocking client on threads: parallel tools, a stream, a retry."""

import json
from concurrent.futures import ThreadPoolExecutor, as_completed

from openai import OpenAI
from task import QUESTION, URL, prompt

TOOL = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
client = OpenAI(base_url=f"{URL}/v1", api_key="none")


def ask(messages, **more):
    return client.chat.completions.create(model="gpt-4o-mini", messages=messages, **more)


def weather(call):
    city = json.loads(call.function.arguments)["city"]
    described = ask([{"role": "user", "content": prompt(city)}])
    return {"role": "tool", "tool_call_id": call.id, "content": described.choices[0].message.content}


messages = [{"role": "user", "content": QUESTION}]
tools = [{"type": "function", "function": {"name": "weather", "description": "Weather", "parameters": TOOL}}]
first = ask(messages, tools=tools).choices[0].message
messages += [first.model_dump(exclude_none=True)]
with ThreadPoolExecutor() as pool:
    for done in as_completed([pool.submit(weather, call) for call in first.tool_calls]):
        print(done.result()["content"])
        messages.append(done.result())
for part in ask(messages, tools=tools, stream=True):
    if part.choices and part.choices[0].delta.content:
        print(part.choices[0].delta.content, end="|")
print()
