"""The task of every program: compare three cities, with a tool that asks the model about one city."""

import os

URL = os.environ["FRAMEWORKS_URL"]
QUESTION = "Compare the weather of Paris, Rome and Oslo."
MOMENTS = {"Paris": "in the morning", "Rome": "at noon", "Oslo": "in a busy hour"}


def prompt(city: str) -> str:
    return f"Describe the weather of {city} {MOMENTS[city]}."
