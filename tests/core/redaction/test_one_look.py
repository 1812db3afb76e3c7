"""Nearly every value is told to be clean by one look at all of it. That look must miss nothing, and forget in time."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kit.chance import examples
from onrecord.core.redaction import Redacted, Redactor, Rule
from onrecord.core.redaction.harmless import MOST_LETTERS

KEY = "sk-ant-api03-A1b2C3d4E5f6G7h8I9j0"
TEXTS = {
    "a key": KEY,
    "a form that begins with a credential": "client_secret=hunter2hunter2&grant_type=password",
    "a form with dots in its name": "my.api_key=hunter2hunter2&a=b",
    "an option": "--password",
    "a form with one member": "password=hunter2hunter2",
    "an element": "<password>hunter2hunter2</password>",
    "an entry": "user: me\n\tpassword: hunter2hunter2\r\nport: 1",
    "pairs": '[["password", "hunter2hunter2"]]',
    "an argument": 'login(password: "hunter2hunter2")',
    "a word": "failed with password=hunter2hunter2",
    "a header line": "Authorization: abcdefg12345",
    "a variable": "DB_PASSWORD=hunter2hunter2",
    "a bearer": "Bearer abcdefg12345",
    "an address": "postgres://me:hunter2hunter2@db/x",
    "a card": "4111 1111 1111 1111",
    "bare letters": "AKIAIOSFODNN7EXAMPLE",
    "an address with a key": "https://example.com/?key=hunter2hunter2&a=b",
}


FRAGMENTS = [
    *(KEY, "AKIAIOSFODNN7EXAMPLE", "Bearer abcdefg12345", "hunter2hunter2", "4111111111111111", "KEYVALUE99887766"),
    *("password", "client_secret", "Authorization", "token", "--token", "cookie", "key", "DB_PASSWORD", "EMP-123456"),
    *(
        "=",
        "&",
        ":",
        " ",
        "\n",
        "\t",
        "\b",
        "\f",
        "\r",
        "\x01",
        '"',
        "'",
        "\\",
        "$",
        "{",
        "}",
        "?",
        "@",
        "/",
        ";",
        "%20",
    ),
    *("<password>", "</", "[[", "]]", ",", "pwd", "otp", "auth=", "- password: ", " = ", "X-My-Token", "api_key='"),
    *("é", "😀", "://me:", "form-data; name=", "\r\n\r\n", "export ", "x" * 20),
    base64.b64encode(f"me:{KEY}".encode()).decode(),
    "".join(f"\\u{ord(one):04x}" for one in KEY),
]
_TEXTS = st.lists(st.sampled_from(FRAGMENTS), min_size=1, max_size=6).map("".join)
_NAMES = st.sampled_from(["a", "name", "value", "headers", "password", "x-api-key"]) | _TEXTS
_VALUES = st.recursive(
    _TEXTS | st.sampled_from([None, True, 1, 4111111111111111, 2.5]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_NAMES, inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=examples(500))
@given(value=_VALUES)
@example(value={"password": "\\"})
@example(value=[["password", "\\"]])
@example(value=[["password", "hunter2hunter2"]])
@example(value="password=hunter2hunter2")
@example(value=["password: hunter2hunter2\r\n"])
@example(value={"password": 1})
@example(value={"password": [["hunter2hunter2"]]})
@example(value={"password$client_secret": "hunter2hunter2"})
@example(value=["\x01Bearer abcdefg12345"])
def test_what_one_look_takes_for_clean_is_clean_part_by_part(value: Any) -> None:
    for rules in ([], [Rule("employee", r"EMP-[0-9]{6}")]):
        redactor = Redactor(rules, ["KEYVALUE99887766"])
        if redactor.is_clean([value]):
            assert Redacted(redactor.finder, [value], None).value == [value]


@settings(max_examples=examples(300))
@given(values=st.lists(_VALUES, min_size=2, max_size=6))
@example(values=["password", "hunter2hunter2", {"password": "hunter2hunter2"}])
@example(values=[["x-api-key"], ["hunter2hunter2"], {"name": "x-api-key", "value": "hunter2hunter2"}])
@example(values=["--token", "hunter2hunter2", ["--token", "hunter2hunter2"]])
def test_texts_that_were_clean_by_themselves_are_clean_together_or_looked_at_again(values: list[Any]) -> None:
    redactor = Redactor([], ["KEYVALUE99887766"])
    for value in [*([value] for value in values), values]:
        if redactor.is_clean(value):
            assert Redacted(redactor.finder, value, None).value == value


@pytest.mark.parametrize("text", ['EMP"12345', "EMP\n12345", "EMP\\12345", "EMP\x0112345"])
def test_a_rule_finds_in_a_value_what_it_finds_in_a_text(text: str) -> None:
    """Whatever signs it has, which are written otherwise where a value is stored."""
    redactor = Redactor([Rule("employee", r"EMP[^a-z][0-9]{4}")])
    for value in ({"a": text}, [text], {"a": {"b": [1, f"it is {text}"]}}):
        assert "1234" not in repr(redactor.redact_request(value).value)


def test_what_was_said_before_is_not_looked_at_again_as_long_as_there_is_room_to_remember_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    redactor, looked = Redactor(), []
    monkeypatch.setattr(redactor.finder, "may_hold_secret", lambda text: looked.append(len(text)))
    messages: list[dict[str, str]] = []
    for turn in range(1000):
        messages.append({"role": "user", "content": f"{turn} " + "words " * 200})
        assert redactor.is_clean({"messages": messages})
    assert max(looked) < 2000
    assert redactor.finder.harmless.letters <= MOST_LETTERS
    assert redactor.is_clean({"file": "words " * 500_000})
    assert redactor.is_clean({"messages": messages})
    assert looked[-1] > 2_000_000  # the file was looked at last, and the messages are still remembered


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_what_is_found_in_a_text_is_found_in_a_value_that_has_it(text: str) -> None:
    alone = Redactor().redact_request(text).value
    for value in ({"a": {"b": text}}, [1, text], {"name": text, "other": "text"}):
        clean = Redactor().redact_request(value).value
        assert (clean == value) == (alone == text)
        assert "hunter2" not in repr(clean)


@pytest.mark.parametrize("before", [chr(one) for one in range(128) if not chr(one).isalnum()])
def test_whatever_stands_before_a_key(before: str) -> None:
    """As it is stored some of them are written with a letter."""
    for secret in (KEY, "AKIAIOSFODNN7EXAMPLE", "Bearer abcdefg12345"):
        clean = Redactor().redact_request({"said": f"it is{before}{secret} there"}).value
        assert (secret in clean["said"]) == (secret in Redactor().redact_request(f"it is{before}{secret} there").value)


def test_a_text_that_was_clean_is_looked_at_again_once_it_is_known_to_be_secret() -> None:
    redactor = Redactor()
    encoded = base64.b64encode(b"me and hunter2hunter2 too").decode()
    values: list[Any] = ["hunter2hunter2", encoded, {"a": "hunter2hunter2"}, {"a": encoded}]
    assert [redactor.redact_request(value).value for value in values] == values
    redactor.redact_answer({"password": "hunter2hunter2"}, 1)
    for value in values:
        assert redactor.redact_request(value).value != value


def test_what_is_clean_by_one_way_of_encoding_is_looked_at_by_the_others() -> None:
    """A word that has both a `%` and an escape, and is nothing once its quotes are undone."""
    escaped = "".join(f"\\u{ord(one):04x}" for one in KEY)
    for text in (f"a%20{escaped}", escaped):
        for _ in range(2):
            redactor = Redactor()
            redactor.redact_request(text)
            assert redactor.redact_request(f"x {text} y").value != f"x {text} y"


def test_what_is_learned_takes_no_place_of_the_environments_values() -> None:
    """A server may set a cookie with every answer: the oldest of those are forgotten, and cost nothing any more."""
    mine = "hunter2-" * 12
    redactor = Redactor(known_values=[mine])
    for number in range(1000):
        redactor.redact_answer({"headers": [["set-cookie", f"session={number:032d}"]]}, number)
    assert mine not in redactor.redact_request(f"it is {mine}").value
    assert f"{999:032d}" not in redactor.redact_request(f"it was session={999:032d} at last").value
    finder = redactor.finder
    assert len(finder.known) < 3000
    assert finder.forms.keys() <= finder.known.keys()
