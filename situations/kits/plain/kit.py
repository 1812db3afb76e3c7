"""For recorders that want no line changed."""

from common_kit import *  # noqa: F403
