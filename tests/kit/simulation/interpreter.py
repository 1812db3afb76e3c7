"""The meaning of each kind of node: a generator of operations."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from kit.simulation.memory import Memory
from kit.simulation.operations import (
    Acquire,
    Ask,
    Cancel,
    Compute,
    Draw,
    Drop,
    EffectError,
    Get,
    Join,
    JoinAny,
    Mailbox,
    Note,
    Notify,
    Open,
    Pass,
    Pull,
    Put,
    Release,
    Sleep,
    Spawn,
    Steps,
    Stopped,
    StreamCut,
    TakeCheckpoint,
    Yield,
)
from kit.simulation.programs import Node, Program
from kit.simulation.strands import Lane

_YIELD = Yield()
_SILENT = ("glance", "unseen", "nap", "lookup")
"""Kinds without a result: an edit may add or remove one."""


def run_root(memory: Memory, program: Program) -> Steps:
    """Run a program, or what is left of it after a checkpoint."""
    results: list[Any] = []
    for node in program:
        if node.kind == "checkpoint":
            if (yield TakeCheckpoint((node.number, memory.values))) is not None:
                results.clear()
        else:
            results += yield from run_body(memory, (node,))
    return tuple(results)


def run_body(memory: Memory, body: Program) -> Steps:
    results = []
    for node in body:
        result = yield from _KINDS[node.kind](memory, node)
        if node.kind not in _SILENT:
            results.append(result)
    return tuple(results)


# Leaves


def _effect(memory: Memory, node: Node) -> Steps:
    kind, key = node.kind, None
    if kind == "keyed":
        key = f"key {node.number}"
    try:
        name = "once" if kind == "again" else kind
        value = yield Ask(name, memory.input(node), kind == "once", key, blocks=kind == "blocking")
    except EffectError as failure:
        value = failure.args
    memory.add(value)
    return value


def _slow(memory: Memory, node: Node) -> Steps:
    """Compute and ask, without memory: between the two is no act."""
    yield Compute()
    value = yield Ask("effect", (node.number, ()))
    memory.add(value)
    return value


def _sleep(memory: Memory, node: Node) -> Steps:
    """Sleep, unless the node is edited (`awake`)."""
    now = None
    if node.kind != "awake":
        now = yield Sleep(node.size, "wake" if node.kind == "stray" else "timer")
    memory.add(node.number)
    return now


def _nap(memory: Memory, node: Node) -> Steps:
    for _ in range(1 + node.size):
        yield Sleep(node.size)


def _lookup(memory: Memory, node: Node) -> Steps:
    for _ in range(1 + node.size):
        yield Pass()


def _draw(memory: Memory, node: Node) -> Steps:
    value = yield Draw(f"site {node.size % 2}")
    memory.add(value)
    return value


def _glance(memory: Memory, node: Node) -> Steps:
    yield Draw("log")


def _note(memory: Memory, node: Node) -> Steps:
    yield Note(memory.input(node))


def _stream(memory: Memory, node: Node) -> Steps:
    stream = yield Open(memory.input(node))
    got: list[Any] = []
    try:
        while True:
            value, is_last = yield Pull(stream)
            got.append(value)
            memory.add(value)
            if is_last:
                break
            if node.size == 3 and len(got) == 2:
                yield Drop(stream)
                break
            if node.size == 4:
                yield Ask("effect", (node.number, value))  # acts on each chunk
    except StreamCut:
        got.append("cut")
    except Stopped:
        yield Drop(stream)
        raise
    return tuple(got)


def _touch(memory: Memory, node: Node) -> Steps:
    """Write into memory, after an act if the node is not edited (`known`)."""
    if node.kind == "touch":
        yield Pass()
    memory.add(node.number)
    return len(memory)


def _yield(memory: Memory, node: Node) -> Steps:
    for _ in range(node.size):
        yield _YIELD


def _compute(memory: Memory, node: Node) -> Steps:
    yield Compute()
    yield Pass()  # memory is read after an act, or it is read too early


def _measure(memory: Memory, node: Node) -> Steps:
    """Compute twice, and read the clock between if the node is not edited (`unmeasured`)."""
    yield Compute()
    if node.kind == "measure":
        yield Draw("log")
    yield Compute()
    yield Pass()


def _nothing(memory: Memory, node: Node) -> Steps:
    return
    yield


# Branches


def _bodies(memory: Memory, node: Node) -> list[Callable[[], Steps]]:
    return [partial(run_body, memory, branch) for branch in node.branches]


def _start_all(node: Node, bodies: list[Callable[[], Steps]], kind: str = "task") -> Steps:
    lanes = []
    for body in bodies:
        lanes.append((yield Spawn(body, f"{node.kind} {node.number}", kind)))  # noqa: PERF401
    return lanes


def _join_all(lanes: list[Lane]) -> Steps:
    results = []
    try:
        for lane in lanes:
            results.append((yield Join(lane)))  # noqa: PERF401
    except Stopped:
        yield from _cancel_all(lanes)
        raise
    except EffectError as failure:
        for lane in lanes:
            yield from _settled(lane)
        return failure.args
    return tuple(results)


def _cancel_all(lanes: list[Lane]) -> Steps:
    for lane in lanes:
        yield Cancel(lane)


def _settled(lane: Lane, *, blocks: bool = False) -> Steps:
    """Wait for a lane and return its result or its failure."""
    try:
        return (yield Join(lane, blocks))
    except EffectError as failure:
        return failure.args
    except StreamCut:
        return "cut"
    except Stopped:
        if lane.done:
            return "stopped"
        raise


def _gather(memory: Memory, node: Node) -> Steps:
    lanes = yield from _start_all(node, _bodies(memory, node))
    return (yield from _join_all(lanes))


def _group(memory: Memory, node: Node) -> Steps:
    def branch(number: int, body: Callable[[], Steps]) -> Steps:
        result = yield from body()
        if (number + node.size) % 3 == 0:
            raise EffectError("branch", node.number)
        return result

    bodies = [partial(branch, number, body) for number, body in enumerate(_bodies(memory, node))]
    lanes = yield from _start_all(node, bodies)
    try:
        while not all(lane.done for lane in lanes):
            yield JoinAny([lane for lane in lanes if not lane.done])
            if any(lane.error for lane in lanes):
                break
    except Stopped:
        yield from _cancel_all(lanes)
        raise
    yield from _cancel_all(lanes)
    results = []
    for lane in lanes:
        results.append((yield from _settled(lane)))  # noqa: PERF401
    return tuple(results)


def _first(memory: Memory, node: Node) -> Steps:
    lanes = yield from _start_all(node, _bodies(memory, node))
    try:
        yield JoinAny(lanes)
    except Stopped:
        yield from _cancel_all(lanes)
        raise
    won = tuple(lane.name for lane in lanes if lane.done)
    yield from _cancel_all(lanes)
    for lane in lanes:
        yield from _settled(lane)
    memory.add(won)
    return won


def _as_completed(memory: Memory, node: Node) -> Steps:
    lanes = yield from _start_all(node, _bodies(memory, node))
    left, order = list(lanes), []
    try:
        while left:
            yield JoinAny(left)
            for lane in [lane for lane in left if lane.done]:
                left.remove(lane)
                order.append(lane.name)
                memory.add(lane.name)
    except Stopped:
        yield from _cancel_all(lanes)
        raise
    return tuple(order)


def _timeout(memory: Memory, node: Node) -> Steps:
    """Cancel the branch after a time: beside a timer that races it, or whatever it does (`cancel`)."""
    bodies = _bodies(memory, node)[:1]
    if node.kind == "timeout":
        bodies.append(partial(_sleep, memory, Node("sleep", node.number, node.size)))
    lanes = yield from _start_all(node, bodies)
    try:
        yield JoinAny(lanes) if node.kind == "timeout" else Sleep(node.size)
    except Stopped:
        yield from _cancel_all(lanes)
        raise
    yield from _cancel_all(lanes)
    results = []
    for lane in lanes:
        results.append((yield from _settled(lane)))  # noqa: PERF401
    memory.add(tuple(results))
    return tuple(results)


def _late(memory: Memory, node: Node) -> Steps:
    yield from _start_all(node, _bodies(memory, node))


def _spin(memory: Memory, node: Node) -> Steps:
    (lane,) = yield from _start_all(node, _bodies(memory, node)[:1])
    count = 0
    while not lane.done:
        yield _YIELD
        count += 1
    memory.add(count)
    return count, (yield from _settled(lane))


def _threads(memory: Memory, node: Node) -> Steps:
    kind = "job" if node.kind == "jobs" else "thread"
    lanes = []
    for body in _bodies(memory, node):
        lane = yield Spawn(body, f"{node.kind} {node.number}", kind, node.number, 1 + node.size % 2)
        lanes.append(lane)
    if node.size == 4:
        yield from _cancel_all(lanes[1:])
    results = []
    for lane in lanes:
        results.append((yield from _settled(lane, blocks=node.size == 3)))  # noqa: PERF401
    return tuple(results)


def _lock(memory: Memory, node: Node) -> Steps:
    lock = memory.locks[node.size % 2]

    def hold(body: Callable[[], Steps]) -> Steps:
        try:
            yield Acquire(lock)
            result = yield from body()
        except (Stopped, EffectError, StreamCut):
            yield Release(lock)
            raise
        yield Release(lock)
        return result

    lanes = yield from _start_all(node, [partial(hold, body) for body in _bodies(memory, node)], "same")
    return (yield from _join_all(lanes))


def _pipe(memory: Memory, node: Node) -> Steps:
    mailbox = Mailbox()

    def produce(branch: Program) -> Steps:
        for one in branch:
            result = yield from run_body(memory, (one,))
            if one.kind not in _SILENT:
                yield Put(mailbox, result)

    lanes = yield from _start_all(node, [partial(produce, branch) for branch in node.branches], "same")
    got = []
    for _ in range(sum(one.kind not in _SILENT for branch in node.branches for one in branch)):
        value = yield Get(mailbox, 3 if node.size == 2 else None)
        got.append(value)
        memory.add(value)
    yield from _join_all(lanes)
    return tuple(got)


def _poll(memory: Memory, node: Node) -> Steps:
    return (yield Get(Mailbox(), node.size))


def _condition(memory: Memory, node: Node) -> Steps:
    mailbox = Mailbox()
    made: list[Any] = []

    def work(body: Callable[[], Steps]) -> Steps:
        made.append((yield from body()))
        yield Notify(mailbox, 1 + node.size % 2)

    lanes = yield from _start_all(node, [partial(work, body) for body in _bodies(memory, node)], "same")
    late = 0
    while late < 12 and len(made) < len(lanes) and not all(lane.done for lane in lanes):
        late += (yield Get(mailbox, 2 + node.size)) == "late"
    yield from _join_all(lanes)
    return late, len(made)


_KINDS: dict[str, Callable[[Memory, Node], Steps]] = {
    **dict.fromkeys(("effect", "once", "again", "own", "keyed", "failing", "blocking"), _effect),
    "slow": _slow,
    **dict.fromkeys(("sleep", "stray", "awake"), _sleep),
    "nap": _nap,
    "lookup": _lookup,
    "draw": _draw,
    "glance": _glance,
    "note": _note,
    "stream": _stream,
    **dict.fromkeys(("touch", "known"), _touch),
    "yield": _yield,
    "compute": _compute,
    **dict.fromkeys(("measure", "unmeasured"), _measure),
    **dict.fromkeys(("removed", "unseen"), _nothing),
    "gather": _gather,
    "group": _group,
    "first": _first,
    "as_completed": _as_completed,
    **dict.fromkeys(("timeout", "cancel"), _timeout),
    "late": _late,
    "spin": _spin,
    **dict.fromkeys(("threads", "jobs"), _threads),
    "lock": _lock,
    "pipe": _pipe,
    "poll": _poll,
    "condition": _condition,
}
