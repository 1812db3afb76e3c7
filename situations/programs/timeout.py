"""A question takes too long; the program asks another one instead."""

import asyncio

from kit import ask_async, async_client, say


async def main() -> None:
    model = async_client()
    say(await ask_async(model, "the first question"))  # the connection is there, the clock runs for the answer alone
    try:
        async with asyncio.timeout(0.3):
            say(await ask_async(model, "a slow question"))
    except TimeoutError:
        say("took too long")
        say(await ask_async(model, "a shorter question"))


asyncio.run(main())
