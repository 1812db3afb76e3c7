"""Places that are known by their names, and hold something else often enough: what is found there, and what is not."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest

from onrecord.core.codec import encode
from onrecord.core.redaction import Finder, Redactor, restore_secrets
from onrecord.core.redaction.scan import scan_tree
from onrecord.core.redaction.streams import PendingText

SECRET = "hunter2-CANARY77"
TEXTS = {
    "a form with one member": "password=SECRET",
    "a form of a client": "client_secret=SECRET",
    "a form with a key": "api_key=SECRET",
    "a form with a token": "access_token=SECRET",
    "a form that revokes a token": "token=SECRET",
    "a form that ends a line": "password=SECRET\n",
    "a form with a short name": "pwd=SECRET&u=1",
    "an address": "https://example.com/?auth=SECRET&a=1",
    "a line of YAML": "user: bob\npassword: SECRET\nport: 5432",
    "an entry of YAML": "users:\n    - password: SECRET  # of bob\n",
    "a quoted line of YAML": "user: bob\npassword: 'SECRET'\n",
    "a line of a configuration": "[db]\npassword = SECRET\n",
    "an assignment": 'api_key = "SECRET"',
    "XML": "<login><password>SECRET</password></login>",
    "XML with a prefix": '<wsse:Password Type="PasswordText">SECRET</wsse:Password>',
    "XML with a section": "<password> <![CDATA[SECRET]]></password>",
    "GraphQL": 'mutation { login(user: "bob", password: "SECRET") { id } }',
    "pairs": '[["user", "bob"], ["password", "SECRET"]]',
    "pairs of Python": "[('password', 'SECRET')]",
    "an error": "login failed: password=SECRET for bob",
    "a connection": "host=db user=bob password=SECRET dbname=x",
    "the end of a sentence": "it said password=SECRET.",
    "a header line": "GET / HTTP/1.1\nX-Session-Token: SECRET\nHost: x",
    "a command": "tool --password SECRET --verbose",
    "a command in one word": "tool --api-key=SECRET --verbose",
    "a short name": '{"pwd": "SECRET"}',
    "a shorter name": '{"pass": "SECRET"}',
    "a bearer": '{"bearer": "SECRET"}',
    "a one-time password": '{"otp": "SECRET"}',
    "a password again": '{"password_confirmation": "SECRET"}',
}
VALUES: dict[str, Any] = {
    "pairs": [["user", "bob"], ["password", SECRET]],
    "pairs of a program": [("password", SECRET), ("user", "bob")],
    "a header": {"headers": {"X-Session-Token": SECRET}},
    "a header by its name": {"headers": [["X-Custom-Token", SECRET]]},
    "a header of bytes": {"headers": [(b"x-custom-token", SECRET.encode())]},
    "members": [{name: SECRET} for name in ("pwd", "pass", "passwd", "password_confirmation", "bearer", "otp")],
    "packed": {"bytes": gzip.compress(json.dumps({"password": SECRET}).encode(), mtime=0)},
    "a packed form": gzip.compress(f"password={SECRET}".encode(), mtime=0),
}


def _written(text: str) -> str:
    return text.replace("SECRET", SECRET)


def _all_values() -> dict[str, Any]:
    return {**VALUES, **{f"text: {name}": _written(text) for name, text in TEXTS.items()}}


@pytest.mark.parametrize("value", _all_values().values(), ids=_all_values())
def test_what_stands_there_is_kept_out_and_comes_back(value: Any) -> None:
    for given in (value, {"a": [value]}, {"body": {"text": value}}):
        asked = Redactor().redact_request(given).value
        assert "CANARY" not in repr(asked)
        assert Redactor().redact_request(asked).value == asked
        redacted = Redactor().redact_answer(given, 5)
        assert "CANARY" not in repr(redacted.value)
        assert Redactor().redact_answer(redacted.value, 5).value == redacted.value
        assert restore_secrets(encode(redacted.value).tree, redacted.originals) == encode(given).tree
        # Who is given the placeholder asks for the same as who was given the secret.
        assert Redactor().redact_request(redacted.value).value == asked or "gzip" in repr(redacted.value)


@pytest.mark.parametrize("value", _all_values().values(), ids=_all_values())
def test_a_scan_finds_it(value: Any) -> None:
    for tree in (encode(value).tree, encode({"a": [value]}).tree):
        assert list(scan_tree(tree, Finder()))
    for clean in (Redactor().redact_request({"a": [value]}).value, Redactor().redact_answer({"a": [value]}, 5).value):
        assert list(scan_tree(encode(clean).tree, Finder())) == []


@pytest.mark.parametrize("name", [name for name in TEXTS if "form" not in name and "pairs" not in name])
def test_it_is_found_in_texts_within_texts(name: str) -> None:
    text = _written(TEXTS[name])
    for _ in range(3):
        text = json.dumps({"body": text})
        assert "CANARY" not in Redactor().redact_request({"a": text}).value["a"]


@pytest.mark.parametrize("text", [text for text in TEXTS.values() if text != "token=SECRET"])  # one only as a whole
@pytest.mark.parametrize("longest", [1, 2, 5, 11])
def test_it_is_kept_out_of_every_chunk_of_a_stream(text: str, longest: int) -> None:
    whole = _written(text) + "\nand on\n"
    held = PendingText(Finder())
    chunks = [whole[at : at + longest] for at in range(0, len(whole), longest)]
    written = "".join(held.feed(chunk, lambda _, kind: f"<secret:{kind}:1>") for chunk in chunks)
    for part in ("hunter", "unter2", "CANARY", "ANARY77"):
        assert part not in written
    assert "and on" in written


ORDINARY = [
    "The password: see below. Your password is stored elsewhere.",
    "password: required\nusername: required",
    "password: string;\napiKey: string;\n",
    'interface Login { password: string; apiKey?: string }\nconst schema = { password: "string" }',
    "client = Client(api_key=api_key, password=settings.database.password, secret=os.environ['X'])",
    "apiKey: process.env.OPENAI_API_KEY_2,\n",
    "login(password=get_password(1))",
    "password=$DB_PASSWORD1 password={password1} password=<password-1> password=********",
    "use --password to set one, or --api-key with a file",
    "it is in private_key=/etc/keys/id_1.pem",
    "<secret>two words 1</secret> <p>password 1</p>",
    "the compass=north12345 passage=12345678 bypass=12345678",
    "max_tokens=12345678 author=somebody12 session_id=abcdef123456",
    "key=value",
    "next-page-token: abcdef123456",
    '{"required": ["password", "email12345"], "pass": 12, "fail": 3}',
    '{"pass": "passed", "pwd": "/home/me/work1", "bearer": "jwt"}',
]
ORDINARY_VALUES = [
    {"pass": 12, "fail": 1},
    {"pass": "failed", "pwd": "/home/somebody/work2", "PWD": "C:\\work1"},
    {"required": ["password", "username1"]},
    {"next-page-token": "abcdef123456", "eos-token": "</s>12345", "x-max-token": "abcdef123"},
    {"compass": "north-12345", "passage": "abc-12345", "footprint": "abc-12345"},
    gzip.compress(b"ordinary words", mtime=0),
    b"\x1f\x8b\x08 no archive at all",
]


@pytest.mark.parametrize("value", [*ORDINARY, *ORDINARY_VALUES], ids=repr)
def test_prose_and_code_are_left_alone(value: Any) -> None:
    for given in (value, {"a": [value]}):
        assert Redactor().redact_request(given).value == given
        assert list(scan_tree(encode(given).tree, Finder())) == []


def test_a_number_that_was_a_text_stays_one() -> None:
    for text in ('{"otp": "123456"}', '{"otp": 123456}', '{"cvv": 007}', '{"password": "4111111111111111"}'):
        redacted = Redactor().redact_answer({"a": text}, 5)
        assert text not in repr(redacted.value)
        assert restore_secrets(redacted.value, redacted.originals) == {"a": text}


def test_a_number_that_is_known_stays_a_number() -> None:
    redactor = Redactor()
    redactor.redact_answer({"card_number": "4111111111111111"}, 1)
    redacted = redactor.redact_answer('{"card_number": 4111111111111111}', 2)
    assert json.loads(redacted.value)
    assert restore_secrets(redacted.value, redacted.originals) == '{"card_number": 4111111111111111}'


def test_an_archive_is_unpacked_as_far_as_a_limit_allows() -> None:
    bomb = gzip.compress(f'{{"password": "{SECRET}"}}'.encode() + bytes(50_000_000))
    assert "CANARY" not in repr(Redactor().redact_request(bomb).value)
    assert len(Redactor().redact_request(bomb).value) < 5_000_000
