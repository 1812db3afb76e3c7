"""A synchronous client is wrapped, an asynchronous one cannot be; a function becomes a boundary by a decorator."""

from typing import Any

import common_kit
from agentrr_sdk import tool as tool
from agentrr_sdk import wrap_anthropic_client, wrap_openai_client
from common_kit import *  # noqa: F403


def client(**options: Any) -> Any:
    return wrap_openai_client(common_kit.client(**options))


def claude(**options: Any) -> Any:
    return wrap_anthropic_client(common_kit.claude(**options))
