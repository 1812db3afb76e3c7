"""Clients on tracefork's transports, without tries of their own, as its recorder makes them; tools by its seam."""

from collections.abc import Callable
from typing import Any

import common_kit
import tracefork_taping as taping
from common_kit import *  # noqa: F403


def client(**options: Any) -> Any:
    if taping.tape is None:  # in a child process
        return common_kit.client(**options)
    return common_kit.client(http_client=taping.http_client(), **{"max_retries": 0, **options})


def async_client(**options: Any) -> Any:
    return common_kit.async_client(http_client=taping.async_http_client(), **{"max_retries": 0, **options})


def claude(**options: Any) -> Any:
    return common_kit.claude(http_client=taping.http_client(), **{"max_retries": 0, **options})


def gemini(**http_options: Any) -> Any:
    return common_kit.gemini(httpx_client=taping.http_client(), **http_options)


def tool(function: Callable[..., Any]) -> Callable[..., Any]:
    return taping.tool(function)
