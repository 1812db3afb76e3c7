"""Implement `onrecord serve`: show the runs of the store over HTTP, to browsers and programs on this machine."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import click

from onrecord.cli.render.output import note, say
from onrecord.cli.settings import Settings, shared_options
from onrecord.cli.stores import reading, store_url
from onrecord.errors import OnrecordError
from onrecord.extras import install_command

if TYPE_CHECKING:  # loaded when the command runs
    from onrecord.web.server import Address

_EXTRA = ("starlette", "uvicorn", "h11", "anyio", "jinja2", "markupsafe")


class MissingExtra(OnrecordError):
    code = "missing_extra"
    exit_status = 5


@click.command()
@shared_options
@click.option("--host", metavar="ADDRESS", default="127.0.0.1", show_default=True, help="Listen on this address.")
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    default=7373,
    show_default=True,
    help="Listen on this port; 0 selects a free one.",
)
@click.option("--allow-host", "hosts", metavar="NAME", multiple=True, help="Accept this host name too; repeatable.")
@click.option("--no-auth", is_flag=True, help="Let every user of this machine read, resolve and settle.")
@click.pass_obj
def serve(settings: Settings, host: str, port: int, hosts: tuple[str, ...], no_auth: bool) -> None:
    """Show the runs of the store in a browser and over HTTP, on this machine, until Ctrl-C.

    The printed address logs in one browser, once. Programs send the token with every request:

    \b
    onrecord serve --port 0
    curl -H "Authorization: Bearer TOKEN" http://127.0.0.1:7373/api/v1/runs
    """
    try:
        from onrecord.web.server import check_address, make_server
        from onrecord.web.stores import Stores
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] not in _EXTRA:
            raise
        raise MissingExtra(
            f"`onrecord serve` needs the package {error.name}, which is not installed", hint=install_command("web")
        ) from error
    from onrecord.store.factory import open_store

    check_address(host, auth=not no_auth, allowed_hosts=hosts)
    with reading(settings) as store:
        url = store_url(settings)
        stores = Stores(store, lambda: open_store(url), settings.namespace)
        server = make_server(stores, host, port, auth=not no_auth, allowed_hosts=hosts)
        server.serve_until_stopped(lambda address: _print_address(settings, address))
    if not settings.json:
        note("\nstopped" if sys.stderr is not None and sys.stderr.isatty() else "stopped")  # after the ^C


def _print_address(settings: Settings, address: Address) -> None:
    if settings.json:
        say(json.dumps(address._asdict()))  # one line: the caller reads it while the server runs
    else:
        say(address.login_url)
        if address.token is not None:
            note(f"The address logs in one browser, once. Programs send: Authorization: Bearer {address.token}")
        note("Press Ctrl-C to stop.")
    sys.stdout.flush()
