"""`reenact serve`: the runs of the store over HTTP, for browsers and programs on this machine."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import click

from reenact.cli.output import note, say
from reenact.cli.settings import Settings, shared_options
from reenact.cli.stores import reading, store_url
from reenact.errors import ReenactError

if TYPE_CHECKING:  # loaded when the command runs
    from reenact.web.server import Address

_EXTRA = ("starlette", "uvicorn", "h11", "anyio", "jinja2", "markupsafe")


class MissingExtra(ReenactError):
    code = "missing_extra"
    exit_status = 5


@click.command()
@shared_options
@click.option("--host", metavar="ADDRESS", default="127.0.0.1", show_default=True, help="Where to listen.")
@click.option("--port", type=click.IntRange(0, 65_535), default=7373, show_default=True, help="0 takes a free one.")
@click.option("--allow-host", "hosts", metavar="NAME", multiple=True, help="Also serve under this name; repeatable.")
@click.option("--no-auth", is_flag=True, help="Everybody on this machine may look, resolve and settle.")
@click.pass_obj
def serve(settings: Settings, host: str, port: int, hosts: tuple[str, ...], no_auth: bool) -> None:
    """Serve the runs of the store over HTTP, on this machine, until Ctrl-C.

    The first address that is printed lets one browser in, once; programs send the token with every request:

    \b
    reenact serve --port 0
    curl -H "Authorization: Bearer TOKEN" http://127.0.0.1:7373/api/v1/runs
    """
    try:
        from reenact.web.server import check_address, make_server
        from reenact.web.stores import Stores
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] not in _EXTRA:
            raise
        raise MissingExtra(
            f"`reenact serve` needs the package {error.name}, which is not installed", hint='pip install "reenact[web]"'
        ) from error
    from reenact.store.opening import open_store

    check_address(host, auth=not no_auth, allowed_hosts=hosts)
    with reading(settings) as store:
        url = store_url(settings)
        stores = Stores(store, lambda: open_store(url), settings.namespace)
        server = make_server(stores, host, port, auth=not no_auth, allowed_hosts=hosts)
        server.serve_until_stopped(lambda address: _tell(settings, address))
    if not settings.json:
        note("\nstopped" if sys.stderr is not None and sys.stderr.isatty() else "stopped")  # behind the ^C


def _tell(settings: Settings, address: Address) -> None:
    if settings.json:
        say(json.dumps(address._asdict()))  # on one line: whoever started it reads that while it goes on
    else:
        say(address.login_url)
        if address.token is not None:
            note(f"The address opens one browser, once. Programs send: Authorization: Bearer {address.token}")
        note("Ctrl-C ends it.")
    sys.stdout.flush()
