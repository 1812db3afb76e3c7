"""Places that hold credentials, by their names: headers, query parameters, members of objects, environment variables.

Names are compared without case and without what separates words, so that `apiKey`, `api-key` and `API_KEY` are one.
`max_tokens`, `author`, `session_id`, `tokens` and `next_page_token` are no credentials, and neither is `token` as the
name of a member: models answer with members of that name, one for each word.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

HEADERS = frozenset(
    (
        *("authorization", "proxyauthorization", "xapikey", "apikey", "xgoogapikey"),
        *("xauthtoken", "xaccesstoken", "xamzsecuritytoken", "xgithubtoken", "privatetoken"),
        *("xvaulttoken", "xcsrftoken", "cookie", "setcookie"),
    )
)
PARAMETERS = frozenset(
    (
        *("key", "apikey", "accesstoken", "refreshtoken", "idtoken"),
        *("token", "authtoken", "signature", "sig", "xamzsignature"),
        *("xamzcredential", "xamzsecuritytoken", "xgoogsignature", "xgoogcredential", "clientsecret"),
        *("secret", "password", "passwd"),
    )
)
MEMBERS = HEADERS | frozenset(
    (
        *("password", "passwd", "passphrase", "secret", "clientsecret"),
        *("apisecret", "appsecret", "consumersecret", "sharedsecret", "signingsecret"),
        *("webhooksecret", "apikey", "apitoken", "accesstoken", "refreshtoken"),
        *("idtoken", "authtoken", "bearertoken", "sessiontoken", "securitytoken"),
        *("privatekey", "secretkey", "signingkey", "encryptionkey", "secretaccesskey"),
        *("cardnumber", "cvv", "cvc"),
    )
)
_ENDINGS = (
    *("password", "passwd", "passphrase", "clientsecret", "apisecret", "webhooksecret", "apikey", "accesstoken"),
    *("refreshtoken", "authtoken", "privatekey", "secretkey", "secretaccesskey"),
)
_SEPARATORS = str.maketrans("", "", "-_. ")
LONGEST_NAME = 64

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
    plain = _plain(name)
    return plain in MEMBERS or plain.endswith(_ENDINGS)


@lru_cache(maxsize=4096)
def is_credential_header(name: str) -> bool:
    return _plain(name) in HEADERS


@lru_cache(maxsize=4096)
def is_credential_parameter(name: str) -> bool:
    plain = _plain(name)
    return plain in PARAMETERS or plain.endswith(_ENDINGS)


def _plain(name: str) -> str:
    return name.translate(_SEPARATORS).lower() if len(name) <= LONGEST_NAME else ""


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
