"""The same question fifty times at once: each caller has an answer of its own."""

import asyncio

from kit import ask_async, async_client, say


async def main() -> None:
    model, order = async_client(), []

    async def one(caller: int) -> str:
        answer = await ask_async(model, "a shuffled question")
        order.append(caller)
        return answer

    say(await asyncio.gather(*(one(caller) for caller in range(50))))
    say(order)


asyncio.run(main())
