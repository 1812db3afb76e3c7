"""The environment of a program, as far as its record has to know it: which variables there were, and whether one of
them is another now. Their values are in no record: what is kept of each is a digest under a secret of this machine,
so that nobody else can guess at it.

A variable is written as one text, its name and its digest: what stands behind the name of a key looks like a key. And
a digest is written in letters, since some numbers look like those of cards."""

from __future__ import annotations

import hmac
import os
from collections.abc import Mapping
from typing import Any

from reenact.effect.sealing import SealKeys
from reenact.errors import ReenactError

FACT = "environment"
DIGEST_CHARACTERS = 16
_LETTERS = str.maketrans("0123456789abcdef", "ghijklmnopabcdef")
_OF_THE_TERMINAL = (
    *("_", "COLUMNS", "DBUS_", "DISPLAY", "INVOCATION_ID", "JOURNAL_STREAM", "LINES", "LS_COLORS", "OLDPWD", "PPID"),
    *("PWD", "PYTEST_", "PYTHONHASHSEED", "REENACT_", "SHLVL", "SSH_", "TERM", "TMUX", "WINDOW", "XDG_"),
)
"""What begins so is another in every terminal, and says nothing of the program."""


def environment_fact(environment: Mapping[str, str] | None = None) -> dict[str, Any]:
    """For the facts of a run; empty where this machine has no secrets to keep one."""
    try:
        key_id, secret = SealKeys().current_seal()
    except (ReenactError, OSError):
        return {}
    digests = _digests(secret, os.environ if environment is None else environment)
    variables = [f"{name} {digest}" for name, digest in digests.items()]
    return {FACT: {"key": key_id, "variables": variables}}


def changed_variables(
    facts: Mapping[str, Any] | None, environment: Mapping[str, str] | None = None
) -> dict[str, list[str]]:
    """Names of variables by what became of them since: `changed`, `new`, `gone`. Empty where nobody can tell."""
    fact = (facts or {}).get(FACT)
    before = _recorded(fact) if isinstance(fact, Mapping) else None
    if fact is None or before is None:
        return {}
    try:
        secret = SealKeys().seal_secret(str(fact.get("key")))
    except (ReenactError, OSError):
        return {}
    if secret is None:
        return {}
    now = _digests(secret, os.environ if environment is None else environment)
    found = {
        "changed": [name for name in now if name in before and before[name] != now[name]],
        "new": [name for name in now if name not in before],
        "gone": [name for name in before if name not in now],
    }
    return {what: sorted(names) for what, names in found.items() if names}


def _recorded(fact: Mapping[str, Any]) -> dict[str, str] | None:
    """The digests of a record by the names of their variables; earlier ones were kept in that form."""
    variables, digests = fact.get("variables"), fact.get("digests")
    if isinstance(variables, list):
        pairs = [str(one).rpartition(" ") for one in variables]
        return {name: digest for name, _, digest in pairs}
    if isinstance(digests, Mapping):
        return {str(name): str(digest).translate(_LETTERS) for name, digest in digests.items()}
    return None


def _digests(secret: bytes, environment: Mapping[str, str]) -> dict[str, str]:
    return {
        name: hmac.digest(secret, f"reenact.environment/1\0{name}\0{value}".encode(errors="surrogateescape"), "sha256")
        .hex()[:DIGEST_CHARACTERS]
        .translate(_LETTERS)
        for name, value in sorted(environment.items())
        if not name.startswith(_OF_THE_TERMINAL)
    }
