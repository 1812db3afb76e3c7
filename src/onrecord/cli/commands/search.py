"""`reenact search`: full text over all runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from reenact.cli.output import note, paint, say, say_json, suggest
from reenact.cli.progress import Progress
from reenact.cli.results import command_for
from reenact.cli.settings import Settings, shared_options
from reenact.cli.stores import reading
from reenact.cli.text import count_text, inert

if TYPE_CHECKING:  # loaded when the command runs
    from reenact.index.opening import Index

PIECE_SECONDS = 0.5


@click.command()
@shared_options
@click.argument("words", nargs=-1, required=True)
@click.option("--limit", type=click.IntRange(1, 100), default=20, show_default=True, help="At most so many hits.")
@click.option("--cursor", metavar="NEXT", help="Go on behind a page: its `next`.")
@click.pass_obj
def search(settings: Settings, words: tuple[str, ...], limit: int, cursor: str | None) -> None:
    """Search the texts of all runs, the latest recorded first.

    All WORDS must be in one event: prompts, answers, arguments and results of tools, names, agents, ids. A phrase
    stands in quotes of its own; a word with * at its end stands for all that begin so. What the words are looked up
    in is an index beside the store, which is brought up to date first and may be deleted at any time.

    \b
    reenact search refund ada
    reenact search '"refund issued"' inv*
    """
    from reenact.index.opening import Index
    from reenact.index.queries import parse_query
    from reenact.index.searches import search_report

    text = " ".join(words)
    parse_query(text)  # before anything is read
    with reading(settings) as store:
        index = Index(store, settings.namespace)
        try:
            _catch_up(index)
            found = search_report(index, text, cursor=cursor, limit=limit)
        finally:
            index.close()
    if settings.json:
        say_json(found)
        return
    for hit in found["hits"]:
        _say_hit(hit)
    if not found["hits"]:
        note(f"nothing was found in {count_text(found['runs'], 'run')}")
        return
    if found["next"] is not None:
        note(f"the latest {len(found['hits'])} are shown; see more with --cursor {found['next']}")
    first = found["hits"][0]
    rest = ("--event", str(first["seq"])) if first["seq"] else ()
    suggest(settings, (command_for(settings, "show", first["short"], *rest), "the first one in full"))


def _catch_up(index: Index) -> None:
    with Progress("reading new runs") as progress:
        while not index.catch_up(PIECE_SECONDS):
            extent = index.extent()
            progress.step(extent.runs - extent.unread, extent.runs if extent.listed else 0)


def _say_hit(hit: dict[str, Any]) -> None:
    where = f"event {hit['seq']}" if hit["seq"] else "the run itself"
    about = [hit["kind"] or "", inert(hit["name"] or "")[:80], inert(hit["agent"] or "")[:80]]
    say("  ".join([paint(inert(hit["short"]), bold=True), where, *(part for part in about if part)]))
    pieces = (paint(inert(one["text"]), bold=True) if one["marked"] else inert(one["text"]) for one in hit["snippet"])
    say("    " + "".join(pieces))
