"""The words of a command line: an option names what stands behind it."""

from __future__ import annotations

import pytest

from onrecord.core.redaction import Redactor, restore_secrets


@pytest.mark.parametrize("option", ["--password", "--secret-key", "--token", "--api-key", "--client-secret"])
@pytest.mark.parametrize("kind", [list, tuple])
def test_what_an_option_names_is_kept_out(option: str, kind: type) -> None:
    words = kind(["agent.py", option, "swordfish 77", "--verbose"])
    kept = Redactor().redact_reversibly({"args": words})
    assert "swordfish" not in str(kept.value)
    assert kept.value["args"][0] == "agent.py"
    assert kept.value["args"][3] == "--verbose"
    assert type(kept.value["args"]) is kind


@pytest.mark.parametrize("option", ["--password", "--secret", "--token", "--api-key"])
def test_what_stands_in_one_word_with_its_option_is_kept_out(option: str) -> None:
    redacted = Redactor().redact_reversibly({"args": ["agent.py", f"{option}=swordfish 77=", "--verbose"]})
    assert "swordfish" not in str(redacted.value)
    assert redacted.value["args"][1].startswith(f"{option}=")
    assert restore_secrets(redacted.value["args"][1], redacted.originals) == f"{option}=swordfish 77="


@pytest.mark.parametrize("option", ["--max-tokens", "--author", "--session-id", "--tokenizer", "--verbose"])
def test_what_is_no_credential_is_left_alone(option: str) -> None:
    words = {"args": ["agent.py", option, "swordfish"]}
    assert Redactor().redact_reversibly(words).value is words
    in_one = {"args": ["agent.py", f"{option}=swordfish"]}
    assert Redactor().redact_reversibly(in_one).value is in_one
