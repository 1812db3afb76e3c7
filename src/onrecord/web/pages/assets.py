"""Our own scripts and styles. They hold nothing recorded, so whoever may not come in is served them, too."""

from __future__ import annotations

from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response

from onrecord.web.responses import HttpProblem

FOLDER = Path(__file__).parent.parent / "static"
_TYPES = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
_FOR_EVER = "public, max-age=31536000, immutable"


async def serve_asset(request: Request) -> Response:
    name = request.path_params["name"]
    path = FOLDER / name
    known = {file.name for file in FOLDER.iterdir()}  # names only: no path leads anywhere else
    if name not in known or path.suffix not in _TYPES:
        raise HttpProblem(404, "no_such_resource", "there is nothing under this path")
    kept = {"cache-control": _FOR_EVER if "v" in request.query_params else "no-cache"}
    return Response(path.read_bytes(), headers=kept, media_type=_TYPES[path.suffix])
