"""A client needs nothing; a function that acts on the world says so."""

from common_kit import *  # noqa: F403

from onrecord import tool as tool
