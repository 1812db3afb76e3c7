"""A program as a test, for pytest-recording."""

import os
import runpy
import sys

import pytest


@pytest.fixture(scope="module")
def vcr_config() -> dict[str, list[str]]:
    return {"match_on": ["method", "scheme", "host", "port", "path", "query", "body"]}


@pytest.mark.vcr
def test_program() -> None:
    program = os.environ["SITUATIONS_PROGRAM"]
    sys.path.insert(0, os.path.dirname(program))
    runpy.run_path(program, run_name="__main__")
