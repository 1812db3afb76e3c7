"""Several questions at once; what matters is who got which answer, and who was first."""

import asyncio

from kit import ask_async, async_client, say


async def main() -> None:
    model, order = async_client(), []

    async def one(rank: int) -> str:
        answer = await ask_async(model, f"a question of rank {rank}")
        order.append(rank)
        return answer

    say(await asyncio.gather(*(one(rank) for rank in range(5))))
    say(order)


asyncio.run(main())
