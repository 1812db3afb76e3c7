"""The cassette takes care of the clients; a function becomes a boundary by a decorator."""

import agenttape
from common_kit import *  # noqa: F403

tool = agenttape.tool
