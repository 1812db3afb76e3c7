"""Another record answers for the world, for as long as it has answers: what was recorded before, or a cassette.

Unlike in a live replay nothing is noted of it: the answers become those of the run itself, whose record is then whole.
"""

from __future__ import annotations

from typing import Any

from reenact.capture.http.effects import unfolded
from reenact.effect.live_run import LiveRun
from reenact.effect.other_records import Found, OtherRecord
from reenact.effect.places import PLACE, Inside
from reenact.effect.standing_in import StandIns
from reenact.effect.tails import LIVE, MOCKED, Policy
from reenact.effect.tickets import Ticket
from reenact.effect.varying import Variations
from reenact.journal.reader import JournalReader


class EarlierRecord(OtherRecord):
    """All of a record. What was answered as a whole can be read part by part."""

    def __init__(self, reader: JournalReader) -> None:
        super().__init__(reader, 0, set())

    def chunks(self, found: Found) -> list[Any]:
        recorded = super().chunks(found)
        if recorded:
            return recorded
        answer = self.members(self.answers[found.seq]).get("output")
        return unfolded(answer) if isinstance(answer, dict) and "status" in answer else []


class Served(StandIns):
    """Answers what the record has. What it does not have is carried out."""

    is_mocked = False

    def __init__(self, run: LiveRun, record: EarlierRecord) -> None:
        mode = MOCKED if self.is_mocked else LIVE
        super().__init__(run, Policy(record.reader.run, mode=mode, is_replay=True), None, Variations(()))
        self._tail, self._is_read = record, True
        self.served: set[int] = set()
        """Requests of the record that have been made again."""
        self.carried_out = 0

    @property
    def left(self) -> set[int]:
        """Requests of the record that have an answer, and that nobody has made again."""
        assert self._tail is not None
        return set(self._tail.answers) - self.served

    def _decided(self) -> Found | None:
        place = PLACE.get()
        assert isinstance(place, Inside)
        ticket = place.ticket
        found = self._take(ticket)
        if found is None:
            self._missing(ticket)
            self.carried_out += 1
            return None
        ticket.spec = ticket.spec._replace(retry=None, timeout_seconds=None)  # what came of it is known
        self.served.add(found.seq)
        return found

    def _missing(self, ticket: Ticket) -> None:
        """Whether it may be carried out: returns if so."""

    def refuse_inside(self, name: str) -> None:
        """Whatever a step calls is carried out with it."""
