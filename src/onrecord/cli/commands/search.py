"""Implement `onrecord search`: search the full text of all runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from onrecord.cli.render.output import note, paint, say, say_json, suggest
from onrecord.cli.render.progress import Progress
from onrecord.cli.render.text import count_text, inert
from onrecord.cli.results import command_for
from onrecord.cli.settings import Settings, shared_options
from onrecord.cli.stores import reading

if TYPE_CHECKING:  # loaded when the command runs
    from onrecord.index.index import Index

PIECE_SECONDS = 0.5


@click.command()
@shared_options
@click.argument("words", nargs=-1, required=True)
@click.option(
    "--limit", type=click.IntRange(1, 100), default=20, show_default=True, help="Show at most this many hits."
)
@click.option("--cursor", metavar="NEXT", help="Show the page after a page: its `next`.")
@click.pass_obj
def search(settings: Settings, words: tuple[str, ...], limit: int, cursor: str | None) -> None:
    """Search the text of all runs, latest first.

    One event must contain all WORDS: in prompts, answers, tool arguments and results, names, agents or ids. Put a
    phrase in double quotes; `inv*` matches words that begin with inv. Its index is kept beside the store, updated
    first, and rebuilt if you delete it.

    \b
    onrecord search refund ada
    onrecord search '"refund issued"' inv*
    """
    from onrecord.index.index import Index
    from onrecord.index.queries import parse_query
    from onrecord.index.searches import search_report

    text = " ".join(words)
    parse_query(text)  # refuse a bad query before the store is read
    with reading(settings) as store:
        index = Index(store, settings.namespace)
        try:
            _update_index(index)
            found = search_report(index, text, cursor=cursor, limit=limit)
        finally:
            index.close()
    if settings.json:
        say_json(found)
        return
    for hit in found["hits"]:
        _print_hit(hit)
    if not found["hits"]:
        note(f"no match in {count_text(found['runs'], 'run')}")
        return
    if found["next"] is not None:
        note(f"the latest {len(found['hits'])} are shown; see more with --cursor {found['next']}")
    first = found["hits"][0]
    event = ("--event", str(first["seq"])) if first["seq"] else ()
    suggest(settings, (command_for(settings, "show", first["short"], *event), "show the first hit in full"))


def _update_index(index: Index) -> None:
    with Progress("reading new runs") as progress:
        while not index.catch_up(PIECE_SECONDS):
            extent = index.extent()
            progress.step(extent.runs - extent.unread, extent.runs if extent.listed else 0)


def _print_hit(hit: dict[str, Any]) -> None:
    where = f"event {hit['seq']}" if hit["seq"] else "the run itself"
    about = [hit["kind"] or "", inert(hit["name"] or "")[:80], inert(hit["agent"] or "")[:80]]
    say("  ".join([paint(inert(hit["short"]), bold=True), where, *(part for part in about if part)]))
    pieces = (paint(inert(one["text"]), bold=True) if one["marked"] else inert(one["text"]) for one in hit["snippet"])
    say("    " + "".join(pieces))
