"""Serve effects of a new run from an earlier recording or a cassette, as long as it has answers.

Unlike a live replay, the run does not note which answers were served: they become its own outcomes, so its record is
complete by itself.
"""

from __future__ import annotations

from typing import Any

from onrecord.capture.http.effects import split_answer
from onrecord.journal.reader import JournalReader
from onrecord.runtime.engine.context import current_effect
from onrecord.runtime.engine.open_effect import OpenEffect
from onrecord.runtime.engine.run import LiveRun
from onrecord.runtime.forks.overrides import Overrides
from onrecord.runtime.forks.recorded_answers import SubstituteAnswer, SubstituteRecord
from onrecord.runtime.forks.substitutes import Substitutes
from onrecord.runtime.forks.tail_policy import LIVE, MOCKED, TailPolicy


class EarlierRecord(SubstituteRecord):
    """Whole earlier record. A whole HTTP answer can also be read as a stream."""

    def __init__(self, reader: JournalReader) -> None:
        super().__init__(reader, 0, set())

    def chunks(self, found: SubstituteAnswer) -> list[Any]:
        recorded = super().chunks(found)
        if recorded:
            return recorded
        answer = self.members(self.answers[found.seq]).get("output")
        return split_answer(answer) if isinstance(answer, dict) and "status" in answer else []


class RecordSubstitutes(Substitutes):
    """Substitutes from an earlier record. An effect that the record does not have is executed."""

    is_mocked = False

    def __init__(self, run: LiveRun, record: EarlierRecord) -> None:
        mode = MOCKED if self.is_mocked else LIVE
        super().__init__(run, TailPolicy(record.reader.run, mode=mode, is_replay=True), None, Overrides(()))
        self._record, self._is_loaded = record, True
        self.served: set[int] = set()
        """Recorded requests (seq) that were served."""
        self.executed = 0

    @property
    def unserved(self) -> set[int]:
        """Return the recorded requests (seq) that have an answer and were not served."""
        assert self._record is not None
        return set(self._record.answers) - self.served

    def _choose_answer(self) -> SubstituteAnswer | None:
        place = current_effect()
        assert place is not None
        effect = place.effect
        found = self._take(effect)
        if found is None:
            self._missing(effect)
            self.executed += 1
            return None
        effect.spec = effect.spec._replace(retry=None, timeout_seconds=None)  # the outcome is known
        self.served.add(found.seq)
        return found

    def _missing(self, effect: OpenEffect) -> None:
        """Return if an effect without a recorded answer may be executed; otherwise stop the run."""

    def refuse_inside(self, name: str) -> None:
        """Allow effects inside a step: they are executed with it."""
