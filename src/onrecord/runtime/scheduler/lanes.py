"""Lanes: the concurrent branches of an agent, found again when the run comes back.

1. A lane is a task, a job of an executor, or a thread of the agent. It gets its number among its siblings with the
   first request in it or below it: a branch that asks for nothing leaves no trace.
2. When a run comes back, a lane is bound to the recorded sibling whose first request was the same. A name given by the
   program goes first; among equals the lower number goes first. Threads and jobs ask when they please: which of them
   got which number is on record, and so they are known by their birth (`Birth`) before anything else.
3. Among equals a binding stays open: when it turns out to be wrong it is exchanged with that of a sibling that has
   asked and been answered the same so far (`lane_exchange`).
4. Behind a checkpoint the agent's own code is in a lane of its own, below the first one, with everything that it starts
   below that: ordinals and births begin anew there, so nothing of what was before is needed to find them again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any
from weakref import ReferenceType, WeakSet, WeakValueDictionary

from onrecord.core.canonical import canonical_bytes
from onrecord.core.codec import encode
from onrecord.core.hashing import value_digest
from onrecord.core.lazy_regex import Pattern
from onrecord.runtime.replay.history import History
from onrecord.runtime.replay.records import BORN, Birth, RecordedChunk, RecordedLane, RecordedRequest, RecordedTurn

if TYPE_CHECKING:
    from onrecord.core.wait_keys import WaitIdentity
    from onrecord.runtime.engine.run import LiveRun


_GIVEN_BY_ASYNCIO = Pattern(r"Task-\d+\Z")


class Lane:
    __slots__ = (
        *("__weakref__", "_label", "_name", "_origin", "birth", "born", "by_chance", "daemon", "ended", "keys", "left"),
        *("made", "main", "ordinals", "parent", "path", "recorded", "run", "taken", "task", "waits"),
    )

    def __init__(self, run: LiveRun, parent: Lane | None, name: str | None = None, origin: Any = None) -> None:
        self._origin = origin
        self._label: str | None = None
        self.run = run
        self.parent = parent
        self._name = name
        self.task: ReferenceType[Any] | None = None
        """The task that is this lane, if it is one."""
        self.by_chance = False
        """It is a thread or a job, or one began in it before it had asked for anything: who is first is chance."""
        self.daemon: bool = parent is not None and parent.daemon
        """Nobody waits for it: it goes on until the program ends, wherever it is then."""
        self.ended = False
        """Its thread has ended, if it is one."""
        self.path: str | None = "0" if parent is None else None
        """None until its first request."""
        self.born = 0
        """How many lanes began in this one."""
        self.birth: str = "0"
        if parent is not None:
            parent.born += 1
            self.birth = f"{parent.birth}:{parent.born}"
        self.ordinals: dict[str, int] = {}
        self.recorded: RecordedLane | None = None
        self.made: list[RecordedRequest] = []
        """Recorded requests that were made again, where there are siblings to be told apart from."""
        self.taken: list[RecordedTurn | RecordedChunk] = []
        """What else of the record was handed to it."""
        self.main = parent is None
        """The agent's own code is in it: the first lane, and the one behind each checkpoint. They are like no other."""
        self.left: bool = parent is not None and parent.left
        """The agent has gone on in another one behind a checkpoint: nobody asks for anything in this one any more."""
        self.keys: dict[str, tuple[int, WaitIdentity]] | None = None
        """Keys of waits that were given out: at which number of its waits, and for which wait."""
        self.waits: dict[str, int] = {}
        """How many waits of each name were asked for in it: a task that it begins may be the one that waits."""

    @property
    def name(self) -> str | None:
        """The name that the program gave its task: before Python 3.13 it does so when the task is there already."""
        task = self.task() if self.task is not None else None
        name = self._name or (task.get_name() if task is not None else None)
        return None if name is None or _GIVEN_BY_ASYNCIO.match(name) else name

    def next_ordinal(self, what: str) -> int:
        ordinal = self.ordinals.get(what, 0)
        self.ordinals[what] = ordinal + 1
        return ordinal

    @property
    def is_over(self) -> bool:
        """Nothing more comes from it."""
        task = self.task() if self.task is not None else None
        return self.ended or (self.task is not None and (task is None or task.done()))

    @property
    def identity(self) -> str:
        """How a turn names the lane: by number, or, as long as it has none, by birth and by what it was begun with.

        Tasks that are made from a set are born in another order every time; then the second tells them apart.
        """
        return self.path or f":{self.birth}={self.label}"

    def born_in(self, above: str) -> Birth:
        """Of a lane below the one of that path."""
        return Birth(above, self.number_at_birth, self.label)

    @property
    def number_at_birth(self) -> int:
        return int(self.birth.rpartition(":")[2])

    @property
    def label(self) -> str:
        if self._label is None:
            written = canonical_bytes(encode(self._origin).tree) if self._origin is not None else b""
            self._label = value_digest(written).hex()[:16]
        return self._label


def origin_of(coro: Any) -> Any:
    """What a task was begun with: its function and the arguments."""
    frame = getattr(coro, "cr_frame", None)
    if frame is None:
        return None
    return [getattr(coro, "__qualname__", ""), {name: kept(value) for name, value in frame.f_locals.items()}]


def kept(value: Any, deep: int = 3) -> Any:
    """Of what can change, only the type; of a short list, what was in it then."""
    kind = type(value)
    if kind in _UNCHANGING:
        return value
    if deep and kind in (list, tuple) and len(value) <= MOST_KEPT:
        return [kind.__name__, *(kept(item, deep - 1) for item in value)]
    return kind.__qualname__


MOST_KEPT = 20
_UNCHANGING = frozenset({str, int, float, bool, bytes, type(None)})


class LaneBook:
    """All lanes of one run: numbering new ones, finding recorded ones."""

    def __init__(self, past: History | None) -> None:
        self._past = past
        self._numbers: dict[str, int] = {}
        self._by_birth: WeakValueDictionary[str, Lane] = WeakValueDictionary()
        self._branches: WeakSet[Lane] = WeakSet()

    def born(self, lane: Lane) -> None:
        self._branches.add(lane)
        if self._past is not None:
            self._by_birth[lane.birth] = lane

    def thread_born(self, lane: Lane) -> None:
        """When it asks for something, whoever else does, is chance; so it is of those above that have no number yet."""
        self.born(lane)
        above: Lane | None = lane
        while above is not None and above.path is None and not above.by_chance:
            above.by_chance, above = True, above.parent

    def has_branches(self) -> bool:
        """Some task, job or thread of the agent has not ended."""
        return any(not lane.is_over for lane in list(self._branches))

    def has_threads(self) -> bool:
        return any(lane.task is None and not lane.ended for lane in list(self._branches))

    def behind_checkpoint(self, root: Lane, recorded: RecordedLane | None) -> Lane:
        """The lane in which the agent goes on: the recorded one, or the next below the first.

        Whoever begins there has counted nothing of what was before, so it is known by its number alone."""
        lane = Lane(root.run, root)
        lane.main, lane.left = True, False
        if recorded is not None:
            self._tie(lane, recorded)
        lane.birth = f"@{self.number(lane)}"
        lane.ordinals["state"] = 1
        return lane

    def find(self, identity: str) -> Lane | None:
        if identity.startswith(":"):
            return self._by_birth.get(identity[1:].partition("=")[0])
        recorded = self._past.lanes.get(identity) if self._past is not None else None
        bound: Lane | None = recorded.bound if recorded is not None else None
        return bound

    def number(self, lane: Lane) -> str:
        """The lane's path; it gets one now if it has none."""
        if lane.path is None:
            assert lane.parent is not None
            above = self.number(lane.parent)
            if above not in self._numbers:
                self._numbers[above] = self._past.last_number(above) if self._past is not None else 0
            self._numbers[above] += 1
            number = self._numbers[above]
            lane.path = f"{above}.{number}"
            if lane.by_chance:
                lane.run.turns.log.append([BORN, lane.path, *lane.born_in(above)[1:]])
        return lane.path

    def bind_by_birth(self, lane: Lane, match: bytes, key: str | None) -> bool:
        """Finds the recorded lane of one whose birth is on record, if that one's own first request was this too, or is
        still to come."""
        chain = _up_to_bound(lane)
        bound = chain.pop()
        if self._past is None or bound.path is None or bound.recorded is None:
            return False
        places = [bound.recorded]
        for unbound in reversed(chain):
            path = self._past.born.get(unbound.born_in(places[-1].path))
            place = self._past.lanes.get(path) if path is not None else None
            if place is None or place.bound is not None:
                return False
            places.append(place)
        own = places[-1].own_first
        if own is None and lane.run.journal is None:
            return False
        # Only those below it had asked when the record ended: it is the first time that it does.
        if own is not None and (own.match != match or (key is not None and own.key != key)):
            return False
        for unbound, place in zip(reversed(chain), places[1:], strict=True):
            self._tie(unbound, place)
        return True

    def bind(self, lane: Lane, match: bytes, key: str | None) -> bool:
        """Finds the recorded lane of an unbound one, whose first request has this digest (and explicit key)."""
        if self._past is None:
            return False
        chain = _up_to_bound(lane)
        bound = chain.pop()
        if bound.path is None or bound.recorded is None:
            return False
        above, depth = bound.recorded, bound.path.count(".") + len(chain)
        candidates = [
            candidate for candidate in self._past.unbound(bound.path, match) if _begins_with(candidate, key, depth)
        ]
        candidates = [one for one in candidates if not self._is_anothers(chain, above, one)]
        if not candidates:
            return False
        chosen = next((one for one in candidates if lane.name and self.name_of(one) == lane.name), None)
        chosen = chosen or min(candidates, key=lambda one: self._differences(chain, above, one))
        assert chosen.first is not None
        steps = chosen.first.lane.split(".")
        for offset, unbound in enumerate(reversed(chain), start=bound.path.count(".") + 2):
            self._tie(unbound, self._past.lane(".".join(steps[:offset])))
        return True

    def is_by_birth(self, recorded: RecordedLane) -> bool:
        """Who is bound to it was born and begun as the record has it. That is sure of threads of the agent's own code
        and of theirs, not of tasks, which may be made in any order, nor of what they begin."""
        lane: Lane | None = recorded.bound
        birth = self._past.births.get(recorded.path) if self._past is not None else None
        if birth is None or lane is None or lane.task is not None or lane.parent is None:
            return False
        above = lane.parent
        is_sure = above.main or (above.recorded is not None and self.is_by_birth(above.recorded))
        return is_sure and birth == lane.born_in(birth.above)

    def is_begun_as(self, recorded: RecordedLane, place: RecordedLane) -> bool:
        """Who is bound to the one was begun with what is on record there, and the other with something else."""
        births, lane = self._past.births if self._past is not None else {}, recorded.bound
        own, others = births.get(recorded.path), births.get(place.path)
        return own is not None and others is not None and own.label != others.label and own.label == lane.label

    def _is_anothers(self, chain: list[Lane], above: RecordedLane, candidate: RecordedLane) -> bool:
        """It is on record whose it is, and of one that would be bound nothing is on record at all: it had not asked for
        anything yet, and the one that had is still to come."""
        return any(
            self._is_new_below(lane, path) or (lane is not chain[0] and self._is_at_home_elsewhere(lane, path))
            for lane, path in self._paths(chain, above, candidate)
            if lane.by_chance
        )

    def _is_new_below(self, lane: Lane, path: str) -> bool:
        assert self._past is not None
        above = path.rpartition(".")[0]
        return path in self._past.births and (above, lane.number_at_birth) not in self._past.numbers_born

    def _is_at_home_elsewhere(self, lane: Lane, path: str) -> bool:
        """One above the one that asks: its own place is on record, and free, and what is asked for below it is new. In
        a replay nothing is."""
        assert self._past is not None
        home = self._past.born.get(lane.born_in(path.rpartition(".")[0]))
        if home is None or home == path or lane.run.journal is None:
            return False
        return self._past.lane(home).bound is None

    def _paths(self, chain: list[Lane], above: RecordedLane, candidate: RecordedLane) -> Iterator[tuple[Lane, str]]:
        """Which path each of the unbound lanes would get, from above."""
        assert candidate.first is not None
        path = above.path
        for lane, step in zip(reversed(chain), candidate.first.lane.removeprefix(f"{path}.").split("."), strict=True):
            path = f"{path}.{step}"
            yield lane, path

    def _differences(self, chain: list[Lane], above: RecordedLane, candidate: RecordedLane) -> int:
        """How many of those that would be bound were born, or begun with something, else in the record."""
        assert self._past is not None
        different = 0
        for lane, path in self._paths(chain, above, candidate):
            if lane.by_chance:
                mine, others = lane.born_in(path.rpartition(".")[0]), self._past.births.get(path)
                different += (others is None or others.label != mine.label) + (others != mine)
        return different

    def beginning(self, lane: Lane, match: bytes, key: str | None) -> tuple[Lane, Callable[[RecordedLane], bool]]:
        """The lane above an unbound one that is bound, and how to tell a recorded lane right below that begins so."""
        *new, above = _up_to_bound(lane)
        depth = (above.path or "").count(".") + len(new)
        return above, lambda one: one.first is not None and one.first.match == match and _begins_with(one, key, depth)

    def _tie(self, lane: Lane, recorded: RecordedLane) -> None:
        lane.recorded, lane.path, recorded.bound = recorded, recorded.path, lane

    def tie_root(self, lane: Lane) -> None:
        if self._past is not None:
            self._tie(lane, self._past.lanes["0"])

    def name_of(self, recorded: RecordedLane) -> str | None:
        """The name that the program gave the recorded lane."""
        first = recorded.first
        if self._past is None or first is None or first.kind != "ActionRequested":
            return None  # only requests carry it
        meta = self._past.members(first.row).get("meta")
        return meta.get("lane") if isinstance(meta, dict) else None


def _up_to_bound(lane: Lane) -> list[Lane]:
    """The lane and those above it, up to the first that is bound to a recorded one."""
    chain = [lane]
    while chain[-1].recorded is None and chain[-1].parent is not None:
        chain.append(chain[-1].parent)
    return chain


def _begins_with(candidate: RecordedLane, key: str | None, depth: int) -> bool:
    first = candidate.first
    if first is None or first.lane.count(".") != depth:
        return False
    return key is None or first.key == key
