"""Places that hold credentials, by their names: headers, query parameters, members of objects, environment variables.

Names are compared without case and without what separates words, so that `apiKey`, `api-key` and `API_KEY` are one.
`max_tokens`, `author`, `session_id`, `tokens` and `next_page_token` are no credentials, and neither is `token` as the
name of a member: models answer with members of that name, one for each word. Where a name alone says too little
(`pwd`, `pass`), or stands in what may be prose or code (`password: see`), the value has to look like one.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from reenact.core.lazy_patterns import Pattern

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
"""Also the names of folders, verdicts and schemes: what they hold has to look like a credential."""
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
"""Tokens that give access to nothing, by the word before."""
_SEPARATORS = str.maketrans("", "", "-_. ")
LONGEST_NAME = 64
SHORTEST_VALUE = 6
NO_VALUES = frozenset(
    (
        *("string", "number", "integer", "boolean", "object", "required", "optional", "hidden", "redacted"),
        *("passed", "failed", "failure", "skipped", "success", "warning", "pending", "unknown", "password"),
    )
)
"""What schemas and reports say at such places."""
_CODE = Pattern(r"[<{$%*(\[]|[A-Za-z_][A-Za-z0-9_.]{0,200}[(\[]|[A-Za-z_]\w{0,64}(?:\.[A-Za-z_]\w{0,64}){1,8}[,;]?\Z")
"""Variables, templates, calls, and what somebody else has masked."""
_ODD = Pattern(r"[0-9!@#$%^*+=~|\x01]")
"""What no ordinary word has. (\\x01 stands where a secret was found already.)"""
_PATH = Pattern(r"[/~.]|[A-Za-z]:[\\/]|[A-Za-z]{1,16}://")

_IN_SECRET_VARIABLES = frozenset(
    (
        *("KEY", "APIKEY", "TOKEN", "SECRET", "SECRETS", "PASSWORD", "PASSWD", "PASSPHRASE", "PWD"),
        *("CREDENTIAL", "CREDENTIALS", "PAT", "DSN"),
    )
)
_TELLS_ABOUT_ONE = frozenset(
    (
        *("FILE", "PATH", "DIR", "NAME", "TYPE", "SOCK", "ALGORITHM", "EXPIRY", "TTL", "COUNT", "LIMIT", "LENGTH"),
        *("SIZE", "URL", "URI", "HOST", "PORT", "VERSION"),
    )
)
"""What such a variable's name ends with, if it does not hold the secret itself."""
_NOT_VARIABLES = frozenset({"PWD", "OLDPWD"})
SHORTEST_KNOWN = 8
LONG_ENOUGH_BY_ITSELF = 16


@lru_cache(maxsize=4096)
def is_credential_member(name: str) -> bool:
    """Members of weak names are some if their values look like it (`holds_credential`)."""
    plain = _plain(name)
    return plain in MEMBERS or plain in WEAK_MEMBERS or plain.endswith(_ENDINGS) or _is_token(name)


@lru_cache(maxsize=4096)
def is_credential_header(name: str) -> bool:
    return _plain(name) in HEADERS or _is_token(name)


def is_weak_member(name: str) -> bool:
    return _plain(name) in WEAK_MEMBERS


def holds_credential(name: str, value: Any) -> bool:
    """Whether a member of this name, with this value, is one for credentials."""
    return is_credential_member(name) and (not is_weak_member(name) or is_plausible(value))


def is_plausible(value: Any) -> bool:
    """What stands at a place that often holds something else may be a credential."""
    return (
        type(value) is str
        and len(value) >= SHORTEST_VALUE
        and _PATH.match(value) is None
        and value.lower() not in NO_VALUES
        and not any(map(str.isspace, value))
    )


def is_odd(value: str) -> bool:
    """What stands behind such a name in a text is no ordinary word, and no code."""
    return is_plausible(value) and _CODE.match(value) is None and _ODD.search(value) is not None


def is_option(word: Any) -> bool:
    """An option of a command line whose value is a credential."""
    return type(word) is str and word.startswith("--") and (word == "--token" or is_credential_member(word[2:]))


@lru_cache(maxsize=4096)
def is_credential_parameter(name: str) -> bool:
    plain = _plain(name)
    return plain in PARAMETERS or plain.endswith(_ENDINGS)


def _plain(name: str) -> str:
    return name.translate(_SEPARATORS).lower() if len(name) <= LONGEST_NAME else ""


def _is_token(name: str) -> bool:
    """`X-Session-Token`, and whatever else a header of that kind is called."""
    lowered = name.lower() if len(name) <= LONGEST_NAME else ""
    return lowered.endswith(_ENDS_HEADER) and not lowered.removesuffix(_ENDS_HEADER).endswith(_NO_CREDENTIALS)


def is_secret_variable(name: str) -> bool:
    upper = name.upper()
    words = upper.split("_")
    return (
        upper not in _NOT_VARIABLES
        and not _IN_SECRET_VARIABLES.isdisjoint(words)
        and (len(words) == 1 or words[-1] not in _TELLS_ABOUT_ONE)
    )


def is_telling(value: str) -> bool:
    """Long and odd enough that whoever sees it elsewhere sees the secret, and not an ordinary word (`postgres`)."""
    if len(value) < SHORTEST_KNOWN or value.isspace():
        return False
    if len(value) >= LONG_ENOUGH_BY_ITSELF:
        return True
    kinds = (str.islower, str.isupper, str.isdigit, lambda one: not one.isalnum())
    return sum(any(map(kind, value)) for kind in kinds) > 1


def secrets_of_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Name → value of the variables that look like secrets."""
    return {name: value for name, value in environment.items() if is_secret_variable(name) and is_telling(value)}
