"""Environment variables of a program: their names, and digests that show whether a value has changed.

Values are not recorded. Each digest is keyed with a secret of this machine, so others cannot guess the value.

A variable is written as one text, name and digest, because redaction would take a value after a key's name for a key.
A digest is written in letters, because some numbers look like card numbers.
"""

from __future__ import annotations

import hmac
import os
from collections.abc import Mapping
from typing import Any

from onrecord.errors import OnrecordError
from onrecord.runtime.secrets.seals import SealKeys

FACT = "environment"
DIGEST_CHARACTERS = 16
_LETTERS = str.maketrans("0123456789abcdef", "ghijklmnopabcdef")
_TERMINAL_PREFIXES = (
    *("_", "COLUMNS", "DBUS_", "DISPLAY", "INVOCATION_ID", "JOURNAL_STREAM", "LINES", "LS_COLORS", "OLDPWD", "PPID"),
    *("PWD", "PYTEST_", "PYTHONHASHSEED", "ONRECORD_", "SHLVL", "SSH_", "TERM", "TMUX", "WINDOW", "XDG_"),
)
"""Prefixes of variables that differ in every terminal and say nothing about the program."""


def environment_fact(environment: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return the fact about the environment for a new run, or an empty dict if this machine has no secrets."""
    try:
        key_id, secret = SealKeys().current_seal()
    except (OnrecordError, OSError):
        return {}
    digests = _compute_digests(secret, os.environ if environment is None else environment)
    variables = [f"{name} {digest}" for name, digest in digests.items()]
    return {FACT: {"key": key_id, "variables": variables}}


def changed_variables(
    facts: Mapping[str, Any] | None, environment: Mapping[str, str] | None = None
) -> dict[str, list[str]]:
    """Return the names of variables that are `changed`, `new` or `gone` since the recording; empty if unknown."""
    fact = (facts or {}).get(FACT)
    before = _read_digests(fact) if isinstance(fact, Mapping) else None
    if fact is None or before is None:
        return {}
    try:
        secret = SealKeys().seal_secret(str(fact.get("key")))
    except (OnrecordError, OSError):
        return {}
    if secret is None:
        return {}
    now = _compute_digests(secret, os.environ if environment is None else environment)
    found = {
        "changed": [name for name in now if name in before and before[name] != now[name]],
        "new": [name for name in now if name not in before],
        "gone": [name for name in before if name not in now],
    }
    return {what: sorted(names) for what, names in found.items() if names}


def _read_digests(fact: Mapping[str, Any]) -> dict[str, str] | None:
    """Return the recorded digests by variable. Older records hold them as an object."""
    variables, digests = fact.get("variables"), fact.get("digests")
    if isinstance(variables, list):
        pairs = [str(one).rpartition(" ") for one in variables]
        return {name: digest for name, _, digest in pairs}
    if isinstance(digests, Mapping):
        return {str(name): str(digest).translate(_LETTERS) for name, digest in digests.items()}
    return None


def _compute_digests(secret: bytes, environment: Mapping[str, str]) -> dict[str, str]:
    return {
        name: hmac.digest(secret, f"onrecord.environment/1\0{name}\0{value}".encode(errors="surrogateescape"), "sha256")
        .hex()[:DIGEST_CHARACTERS]
        .translate(_LETTERS)
        for name, value in sorted(environment.items())
        if not name.startswith(_TERMINAL_PREFIXES)
    }
