"""Two questions at once; what matters is who got which answer, and who was first."""

import asyncio

from kit import ask_async, async_client, say


async def main() -> None:
    model, order = async_client(), []

    async def one(question: str) -> str:
        answer = await ask_async(model, question)
        order.append(question)
        return answer

    say(await asyncio.gather(one("a slow question"), one("a fast question")))
    say(order)


asyncio.run(main())
