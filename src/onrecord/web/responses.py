"""What is answered: JSON, and for whatever went wrong `{"error": {"code", "message", "hint"}}` under the right status.

400  the request cannot be: bad position, limit, cursor, body     409  refused, in conflict, or recorded bytes
401  no token, or a wrong one                                          are not what was written
403  not from here: another Host, another Origin                  413  too large
404  no such run, event, receipt, artifact, wait, resource        503  the store or the server is busy or away
405  another method
"""

from __future__ import annotations

import os
import traceback
from collections.abc import Mapping
from typing import NamedTuple

from starlette.responses import Response

from onrecord.errors import Damaged, InvalidInput, InvalidValue, NotFound, OnrecordError, Refused, StoreError
from onrecord.errors import SchemaMismatch as OtherSchema
from onrecord.reports.json_text import json_bytes

SAFE_HEADERS = {
    "cache-control": "no-store",
    "content-security-policy": "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}
"""On every answer; a page may say otherwise of itself."""

_STATUSES: tuple[tuple[type[OnrecordError], int], ...] = (
    (NotFound, 404),
    (InvalidInput, 400),
    (InvalidValue, 400),
    (Refused, 409),
    (OtherSchema, 503),
    (Damaged, 409),
    (StoreError, 503),
)
_HINTS = {
    400: "docs/reference/http.md lists what each endpoint takes.",
    409: "Nothing was written.",
    503: "Try again later; `onrecord doctor` looks at the store.",
}


class HttpProblem(OnrecordError):
    """A refusal that is about HTTP itself."""

    def __init__(
        self, status: int, code: str, message: str, *, hint: str = "", headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(message, hint=hint, code=code)
        self.status = status
        self.headers = dict(headers or {})


def busy(message: str) -> HttpProblem:
    return HttpProblem(503, "busy", message, hint="Try again in a moment.", headers={"retry-after": "1"})


def json_answer(body: bytes, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(body, status, headers, media_type="application/json")


class ErrorText(NamedTuple):
    """What is said of an error."""

    status: int
    code: str
    message: str
    hint: str
    headers: dict[str, str]


def told(error: BaseException) -> ErrorText:
    """Never more than an error of ours says: a foreign one may quote recorded values."""
    headers: dict[str, str] = {}
    if isinstance(error, HttpProblem):
        status, headers = error.status, error.headers
    elif isinstance(error, OnrecordError):
        status = next((number for kind, number in _STATUSES if isinstance(error, kind)), 500)
    else:
        status, error = 500, _internal(error)
    if status == 503:
        headers = {"retry-after": "1", **headers}
    # Where the store is, and what its database says, is for whoever started the server.
    message = "the store could not be used" if isinstance(error, StoreError) else error.message
    return ErrorText(status, error.code, message, error.hint or _HINTS.get(status, ""), headers)


def problem_answer(error: BaseException) -> Response:
    said = told(error)
    document = {"error": {"code": said.code, "message": said.message, "hint": said.hint}}
    return json_answer(json_bytes(document), said.status, said.headers)


def _internal(error: BaseException) -> OnrecordError:
    frames = traceback.extract_tb(error.__traceback__)
    place = f"{os.path.basename(frames[-1].filename)}:{frames[-1].lineno}" if frames else "an unknown place"
    return OnrecordError(
        f"internal error: {type(error).__name__} at {place}",
        hint="This is a bug in Onrecord: report it with the request and the output of `onrecord doctor`.",
        code="internal_error",
    )
