"""The cassette takes care of the clients; a function becomes a boundary by a decorator."""

from agenttape import tool as tool
from common_kit import *  # noqa: F403
