"""A synchronous client is wrapped, an asynchronous one cannot be; a function becomes a boundary by a decorator."""

from typing import Any

import agentrr_sdk
import common_kit
from common_kit import *  # noqa: F403

tool = agentrr_sdk.tool


def client(**options: Any) -> Any:
    return agentrr_sdk.wrap_openai_client(common_kit.client(**options))


def claude(**options: Any) -> Any:
    return agentrr_sdk.wrap_anthropic_client(common_kit.claude(**options))
