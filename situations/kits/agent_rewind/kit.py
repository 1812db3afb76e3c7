"""`auto_patch()` takes care of the clients; a function becomes a boundary by a decorator."""

from common_kit import *  # noqa: F403
from rewind import tool as tool
