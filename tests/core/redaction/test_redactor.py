"""What is found, what stands for it, and what is left alone."""

from __future__ import annotations

import base64
import json
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kit.chance import examples
from kit.paths import DATA
from onrecord.core.codec import encode
from onrecord.core.redaction import Redactor, Rule, restore_secrets, secrets_of_environment
from onrecord.core.redaction.names import is_credential_member, is_secret_variable

JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U"
PEM = "-----BEGIN RSA PRIVATE KEY-----\nMIIBOgIBAAJBAKj34GkxFhD90vcNLYLInFEX\nf00\n-----END RSA PRIVATE KEY-----"
SHAPED = {
    "provider_key": "sk-ant-api03-A1b2C3d4E5f6G7h8I9j0",
    "google_key": "AIzaSyA1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q",
    "github_token": "ghp_A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8",
    "slack_token": "xoxb-123456789012-abcdefABCDEF",
    "aws_key": "AKIAIOSFODNN7EXAMPLE",
    "jwt": JWT,
    "private_key": PEM,
    "card": "4111 1111 1111 1111",
}


def asked(value: Any, **options: Any) -> Any:
    return Redactor(**options).redact_request(value).value


@pytest.mark.parametrize("kind", SHAPED)
def test_shapes_are_found_in_texts(kind: str) -> None:
    assert asked(f"it is {SHAPED[kind]}, I said") == f"it is <secret:{kind}:1>, I said"


@pytest.mark.parametrize("kind", [kind for kind in SHAPED if kind != "card"])
@pytest.mark.parametrize("how", ["base64", "urlsafe", "unpadded", "hex", "quoted", "escaped"])
def test_shapes_are_found_once_encoded(kind: str, how: str) -> None:
    secret = SHAPED[kind]
    data = f"user:{secret}".encode()
    encoded = {
        "base64": base64.b64encode(data).decode(),
        "urlsafe": base64.urlsafe_b64encode(data).decode(),
        "unpadded": base64.b64encode(data).decode().rstrip("="),
        "hex": data.hex(),
        "quoted": quote(data, safe=""),
        "escaped": "".join(f"\\u{ord(one):04x}" for one in secret),
    }[how]
    clean = asked(f"x {encoded} y")
    assert encoded not in clean
    assert clean.startswith("x <secret:")
    assert clean.endswith("> y")


@pytest.mark.parametrize(
    "value",
    [
        {"headers": {"Authorization": "anything at all"}},
        {"headers": {"X-Api-Key": "anything at all"}},
        {"headers": [["cookie", "anything at all"]]},
        {"headers": [("set-cookie", "anything at all")]},
        {"headers": [(b"authorization", b"anything at all")]},
        {"headers": [{"name": "Authorization", "value": "anything at all"}]},
        {"client_secret": "anything at all"},
        {"db_password": "anything at all"},
        {"apiKey": "anything at all"},
        {"nested": [{"privateKey": ["anything at all"]}]},
        '{"password": "anything at all"}',
        '{"body": "{\\"password\\": \\"anything at all\\"}"}',
        json.dumps({"a": json.dumps({"b": json.dumps({"refresh_token": "anything at all"})})}),
        "https://example.com/?q=1&access_token=anything+at+all&x=2",
        "https://example.com/?key=anything+at+all",
        "client_secret=anything+at+all&grant_type=code",
        "POST / HTTP/1.1\nAuthorization: anything at all\nHost: x",
        "curl -H 'Authorization: anything at all' https://example.com",
        "PATH=/bin\nSERVICE_TOKEN=anything-at-all\nHOME=/root",
        "Client(name='x', api_key='anything at all')",
        "postgres://bob:anything-at-all@db/x",
    ],
    ids=repr,
)
def test_places_are_known_by_their_names(value: Any) -> None:
    clean = repr(asked(value))
    assert "anything" not in clean
    assert "<secret:" in clean


def test_which_credential_it_was_takes_no_part() -> None:
    def request(key: str, password: str) -> dict[str, Any]:
        return {
            "headers": {"authorization": f"Bearer {key}"},
            "url": f"https://example.com/?key={key}&q=1",
            "body": json.dumps({"password": password, "max_tokens": 5}),
        }

    assert asked(request("sk-real-1234567890abcdef", "hunter2")) == asked(request("dummy", "x"))


@pytest.mark.parametrize(
    "name",
    [
        "max_tokens",
        "author",
        "session_id",
        "token_count",
        "tokens",
        "next_page_token",
        "nextPageToken",
        "token",
        "total_tokens",
        "key",
        "keys",
        "authors",
        "secretary",
        "is_secret",
        "passwordless_login",
        "cookies_accepted",
        "tokenizer",
        "public_key",
        "author_id",
    ],
)
def test_ordinary_names_are_left_alone(name: str) -> None:
    assert not is_credential_member(name)
    value = {name: "ordinary"}
    assert asked(value) == value
    assert asked(json.dumps(value)) == json.dumps(value)


def test_a_schema_and_a_switch_are_no_credentials() -> None:
    schema = {"properties": {"password": {"type": "string", "minLength": 8}, "api_key": None, "secret": True}}
    assert asked(schema) == schema


ORDINARY = [
    "6f1b7a3c-9e1f-4d0f-8b52-0a7f0f6a1234",
    "commit 2d3c8ed1f0b6a7c9d8e7f6a5b4c3d2e1f0a9b8c7",
    "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "data:image/png;base64," + base64.b64encode(bytes(range(256)) * 8).decode(),
    "2026-11-16T06:28:11.123456Z",
    "order 4000123456789012 of 1731740000000",
    "1731740000000 1731740000123456789",
    "risk-assessment-framework-for-everybody and disk-based-storage-engines-2024",
    "task-based-asynchronous-programming, scikit-learn, sk-learn",
    "the bearer of this letter, basic understanding of authentication",
    "https://example.com:8080/@scope/package?sort=key&page=2",
    "https://example.com/a/b?key=",
    "mail bob@example.com or call +49 30 1234567890",
    "/usr/local/lib/python3.11/site-packages/some_package/with_long_names.py",
    "def f(items): return sorted(items, key=lambda one: one.key)",
    "AKIA is a prefix, eyJ is another, and -----BEGIN CERTIFICATE----- is public",
    "lorem ipsum " * 50,
    "ISBN 978-3-16-148410-0, IBAN DE89 3704 0044 0532 0130 00",
    json.dumps({"model": "gpt", "max_tokens": 5, "usage": {"total_tokens": 7}, "id": "chatcmpl-9abcdef0123456789"}),
]


@pytest.mark.parametrize("text", ORDINARY, ids=lambda text: text[:30])
def test_ordinary_texts_are_left_alone(text: str) -> None:
    assert asked(text) == text
    assert asked({"text": [text]}) == {"text": [text]}
    assert asked(text.encode()) == text.encode()


NAUGHTY = DATA / "naughty-strings" / "blns.json"


@pytest.mark.skipif(not NAUGHTY.exists(), reason=f"the outside data is not there: {NAUGHTY.name}")
def test_naughty_strings_are_left_alone() -> None:
    strings = json.loads(NAUGHTY.read_text("utf-8"))
    changed = [text for text in strings if asked(text) != text]
    assert changed == []
    assert asked(strings) == strings


# Placeholders


def test_two_secrets_have_two_placeholders_and_one_has_one() -> None:
    first, second = SHAPED["provider_key"], SHAPED["google_key"]
    assert asked([first, second, first]) == [
        "<secret:provider_key:1>",
        "<secret:google_key:2>",
        "<secret:provider_key:1>",
    ]


def test_an_answer_is_numbered_by_its_event() -> None:
    assert Redactor().redact_answer({"a": JWT, "b": [JWT]}, 12).value == {
        "a": "<secret:jwt:12.1>",
        "b": ["<secret:jwt:12.1>"],
    }


def test_a_request_with_a_secret_and_one_with_its_placeholder_are_the_same() -> None:
    redactor = Redactor()
    answer = redactor.redact_answer({"access_token": "tok-1234-abcd", "note": JWT}, 7).value
    real = {"text": f"use tok-1234-abcd, not {JWT}", "auth": base64.b64encode(b"u:tok-1234-abcd").decode()}
    placed = {
        "text": f"use {answer['access_token']}, not {answer['note']}",
        "auth": base64.b64encode(f"u:{answer['access_token']}".encode()).decode(),
    }
    elsewhere = Redactor()
    assert redactor.redact_request(real).value == elsewhere.redact_request(placed).value


def test_a_credential_is_secret_everywhere_in_the_value_and_later() -> None:
    redactor = Redactor()
    value = redactor.redact_answer({"note": "it is opensesame-42", "password": "opensesame-42"}, 3).value
    assert value == {"note": "it is <secret:credential:3.1>", "password": "<secret:credential:3.1>"}
    assert redactor.redact_request("opensesame-42!").value == "<secret:credential:1>!"


def test_an_answer_that_imitates_a_placeholder_keeps_it() -> None:
    fake = "<secret:jwt:5.1>"
    redacted = Redactor().redact_answer({"fake": fake, "real": JWT}, 5)
    assert redacted.value["fake"] == fake
    assert redacted.value["real"] != fake
    assert restore_secrets(redacted.value, redacted.originals) == {"fake": fake, "real": JWT}


def test_what_was_redacted_comes_back_as_it_was() -> None:
    value = {
        "password": "hunter2",
        "cvv": 123,
        "json": '{"cvv": 123, "api_key": "x\\"y"}',
        "bytes": b"\xff" + JWT.encode(),
        "list": [("cookie", "a=b"), SHAPED["card"]],
        "error": ValueError(f"bad key {SHAPED['provider_key']}"),
    }
    redacted = Redactor().redact_answer(value, 9)
    assert JWT.encode() not in redacted.value["bytes"]
    assert restore_secrets(encode(redacted.value).tree, redacted.originals) == encode(value).tree


def test_errors_are_looked_through() -> None:
    error = ConnectionError(f"401 for {SHAPED['provider_key']}")
    error.add_note(f"key {SHAPED['google_key']}")
    error.__cause__ = KeyError(JWT)
    error.request = {"headers": {"authorization": "abc"}}  # type: ignore[attr-defined]
    clean = json.dumps(encode(Redactor().redact_answer(error, 3).value).tree)
    assert all(secret not in clean for secret in (SHAPED["provider_key"], SHAPED["google_key"], JWT, "abc"))
    assert type(Redactor().redact_answer(error, 3).value) is ConnectionError


_TEXTS = st.one_of(
    st.text(max_size=30),
    st.sampled_from([*SHAPED.values(), *ORDINARY[:6], "<secret:jwt:3>", "<secret:env:7.2>", "<secret:credential>"]),
    st.sampled_from(
        ['{"password": "abc"}', "?key=abc&x=1", "Authorization: Bearer abc12345", "a://b:c@d", "hunter2-xyz"]
    ),
    st.lists(
        st.sampled_from([*SHAPED.values(), " ", ",", '"', "x", "\\n", "<secret:jwt:9>", "=", ":"]), max_size=6
    ).map("".join),
)
_VALUES = st.recursive(
    st.one_of(_TEXTS, st.integers(), st.none(), st.binary(max_size=20)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(st.one_of(_TEXTS, st.sampled_from(["password", "authorization", "x"])), inner, max_size=4),
    ),
    max_leaves=12,
)


@settings(max_examples=examples(300))
@given(value=_VALUES)
def test_redacting_twice_changes_nothing(value: Any) -> None:
    for how in ("redact_request", "redact_reversibly", "redact_answer"):
        redactor = Redactor(known_values=["hunter2-xyz"])
        more = (5,) if how == "redact_answer" else ()
        once = getattr(redactor, how)(value, *more).value
        assert getattr(redactor, how)(once, *more).value == once
        assert getattr(Redactor(known_values=["hunter2-xyz"]), how)(once, *more).value == once


@settings(max_examples=examples(200))
@given(value=_VALUES)
@example(value={"PASSWORD": 2**53})
def test_whatever_was_redacted_can_be_restored(value: Any) -> None:
    redacted = Redactor(known_values=["hunter2-xyz"]).redact_answer(value, 5)
    assert restore_secrets(encode(redacted.value).tree, redacted.originals) == encode(value).tree


# Known values


def test_values_of_the_environment() -> None:
    found = secrets_of_environment(
        {
            "OPENAI_API_KEY": "sk-1234567890abcd",
            "DATABASE_PASSWORD": "postgres",
            "PWD": "/home/somebody/things",
            "SSH_KEY_FILE": "/home/x/.ssh/id",
            "MY_TOKEN": "t0ken-value",
            "EDITOR": "vim-with-things-1",
        }
    )
    assert set(found) == {"OPENAI_API_KEY", "MY_TOKEN"}
    assert not is_secret_variable("MAX_TOKENS")


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_fields_of_a_form_in_parts(end: str) -> None:
    lines = [
        *("--b", 'Content-Disposition: form-data; name="password"', "", "open sesame"),
        *("--b", 'Content-Disposition: form-data; name="api_key"', "Content-Type: text/plain", "", "k1"),
        *("--b", 'Content-Disposition: form-data; name="user"', "", "ann"),
        *("--b", 'Content-Disposition: form-data; name="file"; filename="token"', "", "a text", "--b--"),
    ]
    clean = [{"open sesame": "<secret:credential>", "k1": "<secret:credential>"}.get(line, line) for line in lines]
    assert asked(end.join(lines)) == end.join(clean)
    assert asked(end.join(lines).encode()) == end.join(clean).encode()
    page = f'<input name="password">{end}{end}ordinary text'
    assert asked(page) == page


def test_known_values_in_every_form() -> None:
    secret = "p/a+ss wörd-1234567"
    data = secret.encode()
    forms = [secret, json.dumps(secret), quote(secret), data.hex(), data.hex().upper()]
    forms += [base64.b64encode(prefix + data + b"tail").decode() for prefix in (b"", b"x", b"xy", b"xyz")]
    forms += [base64.urlsafe_b64encode(b"\xfb\xff" + data).decode()]
    for form in forms:
        clean = asked(f"a {form} z", known_values=[secret])
        assert clean.startswith("a "), form
        assert "<secret:env" in clean, form


def test_rules_of_the_user() -> None:
    rule = Rule("employee", r"\bEMP-[0-9]{6}\b")
    assert asked("ask EMP-123456", rules=[rule]) == "ask <secret:employee:1>"
    part = Rule("badge", r"badge (?P<secret>[0-9]{4,8})")
    assert asked("badge 12345 is lost", rules=[part]) == "badge <secret:badge:1> is lost"
