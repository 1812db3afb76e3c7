"""The first answer wins, the other question is dropped."""

import asyncio

from kit import ask_async, async_client, say


async def main() -> None:
    model = async_client()
    tasks = {name: asyncio.create_task(ask_async(model, f"a {name} question")) for name in ("slow", "fast")}
    done, pending = await asyncio.wait(tasks.values(), return_when=asyncio.FIRST_COMPLETED)
    for task in pending:
        task.cancel()
    await asyncio.gather(*pending, return_exceptions=True)
    say([(name, task.result()) for name, task in tasks.items() if task in done])


asyncio.run(main())
