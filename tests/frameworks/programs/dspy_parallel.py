"""DSPy: modules on threads beside each other, awaited modules, a chain of thought."""

import asyncio

import dspy
from task import MOMENTS, QUESTION, URL, prompt

dspy.configure(lm=dspy.LM("openai/gpt-4o-mini", api_base=f"{URL}/v1", api_key="none", cache=False))
describe = dspy.Predict("question -> answer")


async def main():
    for one in await asyncio.gather(*(describe.acall(question=prompt(city)) for city in MOMENTS)):
        print("awaited", one.answer)


parallel = dspy.Parallel(num_threads=3, disable_progress_bar=True)
for one in parallel([(describe, {"question": prompt(city)}) for city in MOMENTS]):
    print("thread", one.answer)
asyncio.run(main())
print(dspy.ChainOfThought("question -> answer")(question=QUESTION).answer)
