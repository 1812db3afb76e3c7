"""Secrets that are split over the chunks of a stream are in none of them, wherever the chunks end."""

from __future__ import annotations

import random
from base64 import b64encode
from typing import Any

import pytest

from onrecord.core.redaction import Finder, Redactor
from onrecord.core.redaction.streams import LONGEST_HELD, PendingText

KNOWN = "hunter2-hunter2"
ENCODED = b64encode(f"user:{KNOWN}".encode()).decode()
TEXT = (
    "Hello there risk free. key sk-ant-api03-abcdefgh12345678 and hunter2-hunter2 then "
    '{"password": "opensesame"} Bearer abcd1234efgh end '
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.abcdefg. card 4111 1111 1111 1111 done "
    f"https://u:secretpw@h/ ok {ENCODED}\nAuthorization: foo bar quux\nand ordinary words at the end"
)
PARTS = (
    *("ant-api03", "abcdefgh12345678", "hunter2-hu", "ter2-hunter2", "opense", "abcd1234e", "1111 1111"),
    *("secretpw", "eyJhbGci", ENCODED[:20], "quux"),
)


def _name(_: str, kind: str) -> str:
    return f"<secret:{kind}:1>"


def _chunks(seed: int) -> list[str]:
    chance, rest, chunks = random.Random(seed), TEXT, []
    longest = chance.choice((1, 3, 9, 30))
    while rest:
        length = chance.randint(1, longest)
        chunks.append(rest[:length])
        rest = rest[length:]
    return chunks


@pytest.mark.parametrize("seed", range(60))
@pytest.mark.parametrize("form", ["text", "bytes", "object"])
def test_split_secrets_are_not_written(seed: int, form: str) -> None:
    wrap: Any = {"text": str, "bytes": str.encode, "object": lambda text: {"delta": {"content": text}}}[form]
    unwrap: Any = {"text": str, "bytes": bytes.decode, "object": lambda value: value["delta"]["content"]}[form]
    held = PendingText(Finder((), [KNOWN]))
    written = "".join(unwrap(held.feed(wrap(chunk), _name)) for chunk in _chunks(seed))
    assert [part for part in PARTS if part in written] == []
    assert written.endswith("ordinary words at the end")


@pytest.mark.parametrize("seed", range(30))
def test_all_parts_together(seed: int) -> None:
    chunks = _chunks(seed)
    redacted, split = Redactor(known_values=[KNOWN]).redact_stream(chunks, 9)
    assert len(redacted.value) == len(chunks)
    assert [part for part in PARTS if part in "".join(redacted.value)] == []
    assert all(redacted.value[index] == chunk for index, chunk in enumerate(chunks) if index not in split)


def test_ordinary_chunks_are_written_as_they_come() -> None:
    held = PendingText(Finder((), [KNOWN]))
    chunks = ["Hello", " wor", "ld, this", " is an ordin", "ary ans", "wer."]
    assert [held.feed(chunk, _name) for chunk in chunks] == chunks


def test_what_waits_is_bounded() -> None:
    held = PendingText(Finder())
    written = sum(len(held.feed("x" * 100, _name)) for _ in range(1000))
    assert written >= 100_000 - LONGEST_HELD
