"""LangChain: a batch on threads, an awaited batch, a stream."""

import asyncio

from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_openai import ChatOpenAI
from task import MOMENTS, QUESTION, URL, prompt

model = ChatOpenAI(model="gpt-4o-mini", base_url=f"{URL}/v1", api_key="none")
chain = ChatPromptTemplate.from_messages([("user", "{question}")]) | model | StrOutputParser()
questions = [{"question": prompt(city)} for city in MOMENTS]

for at, answer in chain.batch_as_completed(questions):
    print("completed", at, answer)
for answer in chain.batch(questions, {"max_concurrency": 2}):
    print("batch", answer)
for answer in asyncio.run(chain.abatch(questions)):
    print("awaited", answer)
for part in chain.stream({"question": QUESTION}):
    print(part, end="|")
print()
