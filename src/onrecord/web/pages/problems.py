"""What went wrong, as a page."""

from __future__ import annotations

from starlette.responses import Response

from onrecord.web.pages.render import page
from onrecord.web.responses import told

_TITLES = {
    400: "This cannot be asked",
    401: "Not let in",
    403: "Refused",
    404: "Not there",
    409: "Not as it was written",
    503: "Not now",
}


def problem_page(error: BaseException, target: str) -> Response:
    said = told(error)
    again = target if said.status == 401 and target.startswith("/") and not target.startswith("//") else ""
    made = page(
        "problem.html",
        said.status,
        title=_TITLES.get(said.status, "That went wrong"),
        code=said.code,
        message=said.message,
        hint=said.hint,
        again=again,
    )
    made.headers.update(said.headers)
    return made
