"""Redaction in a run: what is written has placeholders, what the agent is handed has not.

Rules:

1. A request is redacted before it is matched or written, and so is whatever else is compared when the run comes back.
2. An answer is redacted when it is written, and its secrets are sealed (`sealing`); the agent has the value itself.
3. A run that comes back here is handed what was sealed. Where that cannot be opened, a replay goes on with
   placeholders, and asks for the same as the run did; a resume stops (`sealed_elsewhere`): it would send them out.
4. How a run is redacted is one of its facts, so that whoever replays it does the same. Values are no facts.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from reenact.core.codec import decode, encode
from reenact.core.events import ActionSucceeded, ChunkReceived, Event
from reenact.core.redaction import Clean, Redacted, Redactor, Rule, restored, secrets_of_environment
from reenact.core.redaction.placeholders import ENVIRONMENT, MARK, PLACEHOLDER, kind_of_placeholder
from reenact.core.redaction.streams import HeldBack
from reenact.effect.recorded import RecordedAnswer
from reenact.effect.sealing import FACTS, Place, SealedElsewhere, Seals
from reenact.effect.secrets import FACT, E, Secrets
from reenact.errors import Damaged, InvalidInput
from reenact.journal.chain import Draft
from reenact.journal.journal import Journal
from reenact.journal.reader import JournalReader
from reenact.journal.sources import SystemSources
from reenact.store.contract import EventRow

if TYPE_CHECKING:
    from reenact.effect.past import Past

VERSION = 1
ASKED = {
    "ActionRequested": ("payload", "meta", "name"),
    "ActionDenied": ("reason", "payload"),
    "Interrupted": ("value",),
    "WaitCreated": (),
}
KEPT = {"StateUpdated": "payload", "Completed": "output", "Failed": "error", "Cancelled": "reason"}
GIVEN = {
    "ActionSucceeded": "output",
    "ActionFailed": "error",
    "WaitResolved": "resolution",
    "Resumed": "value",
    "SignalReceived": "payload",
    "ChunkReceived": "chunk",
    "EffectSettled": "value",
}
MOST_REMEMBERED = 1000
_BYTES = frozenset({"$bytes", "$bytearray", "$artifact"})
NOTED = {"AttemptRecorded": "snapshots"}
"""Nobody is handed these again: they are not sealed."""


Found = list[tuple[Place, dict[str, Any]]]
"""What is to be sealed, and for which place."""


class Redaction(NamedTuple):
    """How the runs of an agent are redacted, beside what is built in: `@reenact.agent(redact=Redaction(rules=[…]))`."""

    rules: Sequence[Rule | tuple[str, str]] = ()
    """(kind, pattern): texts that are secrets, too. `core.redaction.patterns` says which patterns may be used."""
    values: Sequence[str] = ()
    """Secrets of this process, wherever it has them from."""
    environment: bool = True
    """Values of environment variables whose names look like those of secrets are secret."""

    def redactor(self) -> Redactor:
        known = secrets_of_environment(os.environ) if self.environment else {}
        return Redactor([Rule(*rule) for rule in self.rules], [*known.values(), *self.values])

    def to_fact(self) -> dict[str, Any]:
        return {"version": VERSION, "rules": [list(rule) for rule in self.rules], "environment": self.environment}

    @classmethod
    def from_fact(cls, fact: Any) -> Redaction:
        try:
            if fact["version"] != VERSION:
                raise InvalidInput(
                    "the run was redacted by rules that this version does not know", code="unknown_redaction"
                )
            rules = [Rule(str(kind), str(pattern)) for kind, pattern in fact["rules"]]
            return cls(rules, environment=bool(fact["environment"]))
        except (TypeError, LookupError, ValueError):
            raise Damaged("how the run was redacted is not told by its facts", code="bad_content") from None


def redaction_of(given: Redaction | bool | None) -> Redaction | None:
    """What `redact=…` means."""
    if isinstance(given, Redaction):
        given.redactor()  # a rule that cannot be used is refused where it is written down
        return given
    return Redaction() if given else None


class RedactingSecrets(Secrets):
    """The secrets of a run that is redacted."""

    redacts = True

    def __init__(self, reader: JournalReader, policy: Redaction, seals: Seals | None = None) -> None:
        super().__init__()
        self.any = True
        self.policy = policy
        self.seals = seals or Seals()
        self.redacted = 0
        """How many events had secrets."""
        self._reader = reader
        self._redactor = policy.redactor()
        self._streams: dict[str, HeldBack] = {}
        self._clean_requests: dict[tuple[str, str], Event] = {}
        """Requests that have been looked through and are not yet written."""
        self._changed_requests: set[tuple[str, str]] = set()
        """Those of them that had secrets."""
        self._found_in_transaction: Found = []
        self._parts_of: tuple[RecordedAnswer, list[Any]] | None = None

    def know(self, values: Sequence[str], given: Any) -> None:
        """What is secret besides, and what the agent was called with."""
        self._redactor.finder.learn(dict.fromkeys(values, ENVIRONMENT))
        self._redactor.kept(given)

    def adopt(self, others: Secrets) -> None:
        super().adopt(others)
        if isinstance(others, RedactingSecrets):
            self._redactor.finder.learn(others._redactor.finder.known)
            self._redactor.above = others._redactor  # what comes of this run is handed to the other one

    def facts_for_child(self) -> Mapping[str, Any]:
        return {FACT: self.policy.to_fact()}

    # Writing

    def value_without(self, value: Any) -> Any:
        if value is None:
            return None
        value = super().value_without(value) if self.kept else value
        return value if self._redactor.is_clean(value) else self._redactor.asked(value).value

    def without(self, event: E) -> E:
        """The event as it is compared; an answer, which is numbered by its seq, has its secrets until it is written."""
        event = super().without(event) if self.kept else event
        kind = event.kind
        if kind in ASKED:
            asked = [getattr(event, name) for name in ASKED[kind]]
            clean = event if self._redactor.is_clean(asked) else self._asked_without(event)
            if len(self._clean_requests) >= MOST_REMEMBERED:
                self._clean_requests.clear()
                self._changed_requests.clear()
            pair = _pair(clean)
            self._clean_requests[pair] = clean
            if clean is not event:
                self._changed_requests.add(pair)
            return clean
        if kind in KEPT:
            one = self._redactor.kept(getattr(event, KEPT[kind]))
            return msgspec.structs.replace(event, **{KEPT[kind]: one.value}) if one.changed else event
        return event

    def _asked_without(self, event: E) -> E:
        changed = {name: self._redactor.asked(getattr(event, name)) for name in ASKED[event.kind]}
        found = {name: one.value for name, one in changed.items() if one.changed}
        return msgspec.structs.replace(event, **found) if found else event

    def to_be_written(self, batch: list[Draft], journal: Journal) -> list[Draft]:
        found: Found = []
        drafts = self._all_written(batch, journal, found)
        self._seal(journal, found)
        return drafts

    def written_in_transaction(self, batch: list[Draft], journal: Journal) -> list[Draft]:
        self._found_in_transaction = []
        return self._all_written(batch, journal, self._found_in_transaction)

    def transaction_over(self, journal: Journal) -> None:
        found, self._found_in_transaction = self._found_in_transaction, []
        self._seal(journal, found)

    def _seal(self, journal: Journal, found: Found) -> None:
        for place, sealed in found:
            self.seals.put(journal, place, sealed, SystemSources().now_us())

    def _all_written(self, batch: list[Draft], journal: Journal, found: Found) -> list[Draft]:
        first = journal.position + 1
        return [self._written(draft, first + index, journal, found) for index, draft in enumerate(batch)]

    def _written(self, draft: Draft, seq: int, journal: Journal, found: Found) -> Draft:
        event = super().without(draft.event) if self.kept else draft.event
        kind = event.kind
        if kind in ASKED:
            pair = _pair(event)
            clean = event  # looked through when it was asked for
            if self._clean_requests.pop(pair, None) is not event:
                clean = self.without(event)
                pair = _pair(clean)
                del self._clean_requests[pair]
            if pair in self._changed_requests:
                self._changed_requests.discard(pair)
                self.redacted += 1
            return _with_event(draft, clean)
        name = KEPT.get(kind) or GIVEN.get(kind) or NOTED.get(kind)
        if name is None:
            return _with_event(draft, event)
        clean, sealed = self._clean(event, getattr(event, name), seq)
        if sealed is None:
            return _with_event(draft, event)
        self.redacted += not sealed.pop("held", False)
        event = msgspec.structs.replace(event, **{name: clean})
        if kind in NOTED:
            return _with_event(draft, event)
        salt = draft.salt or journal.new_salt()
        found.append((Place(journal.header.namespace, journal.recorded_run, seq, kind, salt), sealed))
        return msgspec.structs.replace(draft, event=event, salt=salt)

    def _clean(self, event: Event, value: Any, seq: int) -> tuple[Any, dict[str, Any] | None]:
        """What is written of a value, and what is sealed of it; None: there is nothing to hide. `held`: nothing was
        found, only held back."""
        if event.kind in KEPT:
            return _parts(self._redactor.kept(value))
        if isinstance(event, ChunkReceived):
            held = self._streams.setdefault(event.action_id, HeldBack(self._redactor.finder))
            chunk = self._redactor.given_part(value, seq, held)
            if not chunk.changed:
                return value, None
            return chunk.value, {"whole": encode(value).tree, "held": not chunk.found}
        streamed = self._streams.pop(getattr(event, "action_id", ""), None) is not None
        if streamed and isinstance(event, ActionSucceeded) and type(value) is list:
            whole, split = self._redactor.given_parts(value, seq)
            clean, sealed = _parts(whole)
            if sealed is not None and split:
                sealed["parts"] = {str(index): encode(value[index]).tree for index in split}
            return clean, sealed
        return _parts(self._redactor.given(value, seq))

    # Coming back

    def opened(self, reader: JournalReader, row: EventRow, tree: Any, *, needed: bool) -> Any:
        """The encoded value of an event as it was given. Needed: it must not be handed over otherwise."""
        return self._opened(reader, _place_of(reader, row), tree, needed=needed)

    def opened_part(self, past: Past, reader: JournalReader, row: EventRow, tree: Any, *, needed: bool) -> Any:
        """The same of a part of a stream. Without its seal it is taken from the whole, if that came: what was written
        part by part ends before whatever might have been the beginning of a secret."""
        try:
            sealed = self.seals.find(reader, _place_of(reader, row))
        except SealedElsewhere:
            if needed:
                raise
            sealed = None
        if sealed is not None:
            return {**tree, "chunk": self._restored(sealed, tree["chunk"], reader, _place_of(reader, row))}
        request = past.by_key.get(tree["action_id"])
        answer = request.answer if request is not None else None
        if request is None or answer is None or answer.kind != "ActionSucceeded" or request.settled is not None:
            return tree  # an operator's word is not made of its parts
        if self._parts_of is None or self._parts_of[0] is not answer:
            whole, answered = past.reader_of(answer.row), answer.row
            output = (whole.tree_of(answered, answer.committed) or {}).get("output")
            parts = self.opened(whole, answered, output, needed=needed) if type(output) is list else []
            self._parts_of = (answer, parts)
        parts = self._parts_of[1]
        return {**tree, "chunk": parts[tree["index"]]} if tree["index"] < len(parts) else tree

    def opened_value(self, reader: JournalReader, row: EventRow, value: Any, *, needed: bool) -> Any:
        tree = encode(value).tree
        found = self.opened(reader, row, tree, needed=needed)
        return value if found is tree else reader.decoded(found)

    def opened_facts(self, reader: JournalReader, given: Any, *, needed: bool) -> Any:
        """What the agent was called with. A fork was called with what its parent was."""
        tree = encode(given).tree
        found = self._opened_facts(reader, tree, needed=needed)
        return given if found is tree else reader.decoded(found)

    def _opened_facts(self, reader: JournalReader, tree: Any, *, needed: bool) -> Any:
        parent = reader.header.parent
        above = None
        if parent is not None and parent.relation != "child":
            above = parent.run if reader.store.run_row(reader.namespace, parent.run) is not None else None
        found = self._opened(reader, facts_place(reader), tree, needed=needed and above is None)
        if found is not tree or above is None:
            return found
        return self._opened_facts(JournalReader(reader.store, above, reader.namespace), tree, needed=needed)

    def _opened(self, reader: JournalReader, place: Place, tree: Any, *, needed: bool) -> Any:
        numbers = _placeholders(tree, reader)
        if not numbers:
            return tree
        try:
            sealed = self.seals.find(reader, place)
        except SealedElsewhere:
            if needed:
                raise
            return tree
        if sealed is None:
            if needed and any("." not in number or number.startswith(f"{place.seq}.") for number in numbers):
                raise SealedElsewhere(
                    f"what was redacted at seq {place.seq} of run {place.run} cannot be opened here: "
                    "it was sealed by whoever recorded the run, and seals are not exported"
                )
            return tree
        return self._restored(sealed, tree, reader, place)

    def _restored(self, sealed: Any, tree: Any, reader: JournalReader, place: Place) -> Any:
        try:
            if "whole" in sealed:
                return sealed["whole"]
            originals, parts = sealed["originals"], sealed.get("parts", {})
            found = restored(tree, originals, reader.nodes.artifact)
            for index, part in parts.items():
                found[int(index)] = part
            self._redactor.learn({piece: kind_of_placeholder(name) or "" for name, piece in originals.items()})
            return found
        except (TypeError, LookupError, ValueError, AttributeError):
            raise Damaged(
                f"the seal at seq {place.seq} of run {place.run} is not well formed", code="seal_broken"
            ) from None


def _parts(redacted: Redacted | Clean) -> tuple[Any, dict[str, Any] | None]:
    return redacted.value, {"originals": redacted.originals} if redacted.changed else None


def _pair(event: Event) -> tuple[str, str]:
    """What to remember an event by until it is written. (The interpreter tells everybody who asks for an `id`.)"""
    return event.kind, "" if event.pair_id is None else str(getattr(event, event.pair_id))


def _with_event(draft: Draft, event: Event) -> Draft:
    return draft if event is draft.event else msgspec.structs.replace(draft, event=event)


def _place_of(reader: JournalReader, row: EventRow) -> Place:
    seq = reader.link(row).seq if row.seq > 0 else msgspec.json.decode(row.link)["seq"]  # placed in a fork's line
    return Place(reader.header.namespace, reader.recorded_run, seq, row.kind, row.salt or b"")


def _placeholders(tree: Any, reader: JournalReader) -> list[str]:
    """The numbers of those that are in an encoded value."""
    found, todo = [], [tree]
    while todo:
        value = todo.pop()
        if type(value) is str:
            found += [match[2] or "" for match in PLACEHOLDER.finditer(value)] if MARK in value else []
        elif type(value) is dict:
            todo += [*value, *value.values()]
            if len(value) == 1 and not _BYTES.isdisjoint(value):
                todo.append(bytes(decode(value, artifact=reader.nodes.artifact)).decode("utf-8", "replace"))
        elif type(value) is list:
            todo += value
    return found


# The beginning of a run


def without_secrets(
    facts: dict[str, Any], policy: Redaction | None, names: Sequence[str] = ()
) -> tuple[dict[str, Any], Mapping[str, Any]]:
    """The facts that a run begins with, and what the placeholders of its input stand for.

    `names` are those of the parameters: what is given by position may be known by its name."""
    args, kwargs = facts["input"]["args"], facts["input"]["kwargs"]
    named = dict(zip(names, args, strict=False))
    others = args[len(named) :]
    program = {name: facts[name] for name in ("program",) if name in facts}
    redactor = (policy or Redaction.from_fact(facts[FACT])).redactor()
    process = {name: _process_without(facts[name], redactor) for name in ("process",) if name in facts}
    redacted = redactor.kept([named, others, kwargs, program])
    named, others, kwargs, program = redacted.value
    given = {"args": [*named.values(), *others], "kwargs": kwargs}
    return {**facts, **program, **process, "input": given}, redacted.originals


def _process_without(process: Mapping[str, Any], redactor: Redactor) -> dict[str, Any]:
    """Nobody is handed this again: its command is only compared, and by itself."""
    return {name: redactor.asked(value).value for name, value in process.items()}


def seal_facts(journal: Journal, originals: Mapping[str, Any]) -> None:
    Seals().put(journal, facts_place(journal), {"originals": dict(originals)}, SystemSources().now_us())


def facts_place(reader: JournalReader) -> Place:
    return Place(reader.header.namespace, reader.recorded_run, 0, FACTS, reader.header_row.salt or b"")
