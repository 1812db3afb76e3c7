"""A client needs nothing; a function becomes a boundary by a decorator."""

from common_kit import *  # noqa: F403
from reeltime import tool as tool
