"""Recognise positions for credentials by name: headers, query parameters, members of objects, environment variables.

Names are compared without case and separators, so that `apiKey`, `api-key` and `API_KEY` are equal. `max_tokens`,
`author`, `session_id`, `tokens` and `next_page_token` name no credentials, and neither does `token` as a member: models
answer with one such member for each word. If a name alone is ambiguous (`pwd`, `pass`), or occurs in prose or code
(`password: see`), the value must look like a credential too.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from onrecord.core.lazy_regex import Pattern

HEADERS = frozenset(
    (
        *("authorization", "proxyauthorization", "xapikey", "apikey", "xgoogapikey"),
        *("xauthtoken", "xaccesstoken", "xamzsecuritytoken", "xgithubtoken", "privatetoken"),
        *("xvaulttoken", "xcsrftoken", "cookie", "setcookie"),
    )
)
MEMBERS = HEADERS | frozenset(
    (
        *("password", "passwd", "passphrase", "passwordconfirmation", "passwordconfirm", "secret", "clientsecret"),
        *("apisecret", "appsecret", "consumersecret", "sharedsecret", "signingsecret"),
        *("webhooksecret", "apikey", "apitoken", "accesstoken", "refreshtoken"),
        *("idtoken", "authtoken", "bearertoken", "sessiontoken", "securitytoken"),
        *("privatekey", "secretkey", "signingkey", "encryptionkey", "secretaccesskey"),
        *("cardnumber", "cvv", "cvc", "otp"),
    )
)
WEAK_MEMBERS = frozenset({"pwd", "pass", "bearer"})
"""Also the names of folders, verdicts and schemes: their values must look like credentials."""
PARAMETERS = (
    MEMBERS
    | WEAK_MEMBERS
    | frozenset(
        (
            *("key", "token", "auth", "signature", "sig", "xamzsignature", "xamzcredential"),
            *("xgoogsignature", "xgoogcredential"),
        )
    )
)
_ENDINGS = (
    *("password", "passwd", "passphrase", "clientsecret", "apisecret", "webhooksecret", "apikey", "accesstoken"),
    *("refreshtoken", "authtoken", "privatekey", "secretkey", "secretaccesskey"),
)
_ENDS_HEADER = "-token"
_NO_CREDENTIALS = (
    *("page", "pagination", "next", "continuation", "sync", "change", "idempotency", "cancellation", "first", "last"),
    *("max", "min", "per", "bos", "eos", "pad", "sep", "cls", "unk", "mask", "stop", "start", "end", "special"),
)
"""Words before `token` that give access to nothing."""
_SEPARATORS = str.maketrans("", "", "-_. ")
LONGEST_NAME = 64
SHORTEST_VALUE = 6
NO_VALUES = frozenset(
    (
        *("string", "number", "integer", "boolean", "object", "required", "optional", "hidden", "redacted"),
        *("passed", "failed", "failure", "skipped", "success", "warning", "pending", "unknown", "password"),
    )
)
"""Values that schemas and reports have at such positions."""
_CODE = Pattern(r"[<{$%*(\[]|[A-Za-z_][A-Za-z0-9_.]{0,200}[(\[]|[A-Za-z_]\w{0,64}(?:\.[A-Za-z_]\w{0,64}){1,8}[,;]?\Z")
"""Variables, templates, calls, and values that are already masked."""
_UNUSUAL = Pattern(r"[0-9!@#$%^*+=~|\x01]")
"""Characters that no ordinary word has. (\\x01 replaces a secret that is found already.)"""
_PATH = Pattern(r"[/~.]|[A-Za-z]:[\\/]|[A-Za-z]{1,16}://")

_IN_SECRET_VARIABLES = frozenset(
    (
        *("KEY", "APIKEY", "TOKEN", "SECRET", "SECRETS", "PASSWORD", "PASSWD", "PASSPHRASE", "PWD"),
        *("CREDENTIAL", "CREDENTIALS", "PAT", "DSN"),
    )
)
_DESCRIBES_SECRET = frozenset(
    (
        *("FILE", "PATH", "DIR", "NAME", "TYPE", "SOCK", "ALGORITHM", "EXPIRY", "TTL", "COUNT", "LIMIT", "LENGTH"),
        *("SIZE", "URL", "URI", "HOST", "PORT", "VERSION"),
    )
)
"""Last words of variable names that do not hold the secret itself."""
_NOT_VARIABLES = frozenset({"PWD", "OLDPWD"})
SHORTEST_KNOWN = 8
LONG_ENOUGH_BY_ITSELF = 16


@lru_cache(maxsize=4096)
def is_credential_member(name: str) -> bool:
    """Return True for names of credentials, weak names included. For those, check the value with `holds_credential`."""
    plain = _normalise(name)
    return plain in MEMBERS or plain in WEAK_MEMBERS or plain.endswith(_ENDINGS) or _is_token(name)


@lru_cache(maxsize=4096)
def is_credential_header(name: str) -> bool:
    return _normalise(name) in HEADERS or _is_token(name)


def is_weak_member(name: str) -> bool:
    return _normalise(name) in WEAK_MEMBERS


def holds_credential(name: str, value: Any) -> bool:
    """Return True if a member with this name and this value holds a credential."""
    return is_credential_member(name) and (not is_weak_member(name) or is_plausible(value))


def is_plausible(value: Any) -> bool:
    """Return True if a value at an ambiguous position may be a credential."""
    return (
        type(value) is str
        and len(value) >= SHORTEST_VALUE
        and _PATH.match(value) is None
        and value.lower() not in NO_VALUES
        and not any(map(str.isspace, value))
    )


def is_unlike_prose(value: str) -> bool:
    """Return True if a value after such a name in a text is neither an ordinary word nor code."""
    return is_plausible(value) and _CODE.match(value) is None and _UNUSUAL.search(value) is not None


def is_option(word: Any) -> bool:
    """Return True for a command line option whose value is a credential."""
    return type(word) is str and word.startswith("--") and (word == "--token" or is_credential_member(word[2:]))


@lru_cache(maxsize=4096)
def is_credential_parameter(name: str) -> bool:
    plain = _normalise(name)
    return plain in PARAMETERS or plain.endswith(_ENDINGS)


def _normalise(name: str) -> str:
    return name.translate(_SEPARATORS).lower() if len(name) <= LONGEST_NAME else ""


def _is_token(name: str) -> bool:
    """Return True for `X-Session-Token` and similar headers."""
    lowered = name.lower() if len(name) <= LONGEST_NAME else ""
    return lowered.endswith(_ENDS_HEADER) and not lowered.removesuffix(_ENDS_HEADER).endswith(_NO_CREDENTIALS)


def is_secret_variable(name: str) -> bool:
    upper = name.upper()
    words = upper.split("_")
    return (
        upper not in _NOT_VARIABLES
        and not _IN_SECRET_VARIABLES.isdisjoint(words)
        and (len(words) == 1 or words[-1] not in _DESCRIBES_SECRET)
    )


def is_distinctive(value: str) -> bool:
    """Return True if the value is long and unusual enough to be searched for elsewhere (`postgres` is not)."""
    if len(value) < SHORTEST_KNOWN or value.isspace():
        return False
    if len(value) >= LONG_ENOUGH_BY_ITSELF:
        return True
    kinds = (str.islower, str.isupper, str.isdigit, lambda one: not one.isalnum())
    return sum(any(map(kind, value)) for kind in kinds) > 1


def secrets_of_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return name → value of the variables that look like secrets."""
    return {name: value for name, value in environment.items() if is_secret_variable(name) and is_distinctive(value)}
