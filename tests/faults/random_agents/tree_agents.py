"""Agents that execute a shape (`agent_shapes`)."""

from __future__ import annotations

from typing import Any

from agent_shapes import Node, Shape
from async_nodes import run_async, wait_for_tasks
from sync_nodes import View, run_node

import onrecord


@onrecord.agent
async def async_tree(book: str, run: str, shape: Shape) -> Any:
    view, done = _restore(book, run, shape)
    for node in shape["nodes"][len(done) :]:
        done.append(await run_async(view, node))
        await wait_for_tasks(view)
        _checkpoint(shape, view, done)
    return _end(shape, view, done)


@onrecord.agent
def sync_tree(book: str, run: str, shape: Shape) -> Any:
    view, done = _restore(book, run, shape)
    for node in shape["nodes"][len(done) :]:
        done.append(run_node(view, node))
        _checkpoint(shape, view, done)
    return _end(shape, view, done)


def _restore(book: str, run: str, shape: Shape) -> tuple[View, list[Any]]:
    seen, done = onrecord.restored() or ([], [])
    return View(book, run, shape["memory"], seen), done


def _checkpoint(shape: Shape, view: View, done: list[Any]) -> None:
    if shape["checkpoints"]:
        onrecord.checkpoint([view.seen, done])


def _end(shape: Shape, view: View, done: list[Any]) -> Any:
    if shape["fails"]:
        raise LookupError(f"{len(view.seen)} values were seen")
    return [done, view.seen]


@onrecord.agent
async def async_child(book: str, run: str, nodes: list[Node]) -> Any:
    view = View(book, run, "own", [])
    done = [await run_async(view, node) for node in nodes]
    await wait_for_tasks(view)
    return done


@onrecord.agent
def sync_child(book: str, run: str, nodes: list[Node]) -> Any:
    view = View(book, run, "own", [])
    return [run_node(view, node) for node in nodes]
