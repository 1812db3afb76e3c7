"""Clients are built with kinescope's HTTP clients; a function becomes a boundary by a decorator."""

from typing import Any

import common_kit
import kinescope
from common_kit import *  # noqa: F403
from kinescope import tool as tool


def client(**options: Any) -> Any:
    if kinescope.active_session() is None:  # in a child process
        return common_kit.client(**options)
    return common_kit.client(http_client=kinescope.http_client(), **options)


def async_client(**options: Any) -> Any:
    return common_kit.async_client(http_client=kinescope.async_http_client(), **options)


def claude(**options: Any) -> Any:
    return common_kit.claude(http_client=kinescope.http_client(), **options)


def gemini(**http_options: Any) -> Any:
    return common_kit.gemini(httpx_client=kinescope.http_client(), **http_options)
