"""What the programs have in common: a client of the model, and lines that are compared.

Programs say `from kit import …`. The kit of a recorder changes what its documentation tells its users to change, and
nothing else.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

URL = os.environ["SITUATIONS_URL"]
NOTES = Path(os.environ["SITUATIONS_NOTES"])
"""Where a program leaves what it has done in the world, and finds when to die; no part of its recording."""
MODEL = "gpt-4o-mini"


def client(**options: Any) -> Any:
    import openai

    return openai.OpenAI(base_url=f"{URL}/v1", **options)


def async_client(**options: Any) -> Any:
    import openai

    return openai.AsyncOpenAI(base_url=f"{URL}/v1", **options)


def claude(**options: Any) -> Any:
    import anthropic

    return anthropic.Anthropic(base_url=URL, api_key=os.environ["OPENAI_API_KEY"], **options)


def gemini(**http_options: Any) -> Any:
    from google import genai

    return genai.Client(api_key=os.environ["OPENAI_API_KEY"], http_options={"base_url": URL, **http_options})


def tool(function: Callable[..., Any]) -> Callable[..., Any]:
    return function


def say(*what: object) -> None:
    print("says:", *what, flush=True)


def messages(text: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text}]


def ask(model: Any, text: str, **more: Any) -> str:
    answer = model.chat.completions.create(model=MODEL, messages=messages(text), **more)
    return str(answer.choices[0].message.content)


async def ask_async(model: Any, text: str, **more: Any) -> str:
    answer = await model.chat.completions.create(model=MODEL, messages=messages(text), **more)
    return str(answer.choices[0].message.content)


def pieces(model: Any, text: str) -> Any:
    """The stream of an answer, piece by piece."""
    for chunk in model.chat.completions.create(model=MODEL, messages=messages(text), stream=True):
        if chunk.choices and chunk.choices[0].delta.content:
            yield chunk.choices[0].delta.content


def note(name: str, line: str = "") -> None:
    with (NOTES / name).open("a") as notes:
        notes.write(line + "\n")


def dies_here() -> bool:
    """Once: whoever goes on passes."""
    flag = NOTES / "die"
    if flag.exists():
        flag.unlink()
        return True
    return False
