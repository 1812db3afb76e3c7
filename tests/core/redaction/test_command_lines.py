"""The words of a command line: an option names what stands behind it."""

from __future__ import annotations

import pytest

from reenact.core.redaction import Redactor


@pytest.mark.parametrize("option", ["--password", "--secret-key", "--token", "--api-key", "--client-secret"])
@pytest.mark.parametrize("kind", [list, tuple])
def test_what_an_option_names_is_kept_out(option: str, kind: type) -> None:
    words = kind(["agent.py", option, "swordfish 77", "--verbose"])
    kept = Redactor().kept({"args": words})
    assert "swordfish" not in str(kept.value)
    assert kept.value["args"][0] == "agent.py"
    assert kept.value["args"][3] == "--verbose"
    assert type(kept.value["args"]) is kind


@pytest.mark.parametrize("option", ["--max-tokens", "--author", "--session-id", "--tokenizer", "--verbose"])
def test_what_is_no_credential_is_left_alone(option: str) -> None:
    words = {"args": ["agent.py", option, "swordfish"]}
    assert Redactor().kept(words).value is words
