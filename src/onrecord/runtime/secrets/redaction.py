"""Redaction in a run: the record holds placeholders, the agent receives the real values.

Rules:

1. A request is redacted before it is matched or written. So is every other value that a replay compares.
2. An outcome is redacted when it is written, and its secrets are sealed (`seals`). The agent receives the real value.
3. A replay or resume unseals the values. If a seal cannot be opened, a replay uses the placeholders and makes the same
   requests; a resume stops (`sealed_elsewhere`), because it would send placeholders to live services.
4. The redaction rules of a run are one of its facts, so that a replay applies the same rules. Secret values are not.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from onrecord.core.codec import decode, encode
from onrecord.core.events import ActionSucceeded, ChunkReceived, Event
from onrecord.core.redaction import Clean, Redacted, Redactor, Rule, restore_secrets, secrets_of_environment
from onrecord.core.redaction.placeholders import ENVIRONMENT, MARK, PLACEHOLDER, kind_of_placeholder, made_placeholders
from onrecord.core.redaction.streams import PendingText
from onrecord.errors import Damaged, InvalidInput
from onrecord.journal.chain import Draft
from onrecord.journal.journal import Journal
from onrecord.journal.reader import JournalReader
from onrecord.journal.sources import SystemSources
from onrecord.runtime.secrets.run_secrets import FACT, E, Secrets
from onrecord.runtime.secrets.seals import FACTS, SealedElsewhere, SealOwner, Seals
from onrecord.store.contract import EventRow

if TYPE_CHECKING:
    from onrecord.runtime.replay.history import History

VERSION = 1
REQUEST_FIELDS = {
    "ActionRequested": ("payload", "meta", "name"),
    "ActionDenied": ("reason", "payload"),
    "Interrupted": ("value",),
    "WaitCreated": ("question", "context"),
}
REVERSIBLE_FIELDS = {"StateUpdated": "payload", "Completed": "output", "Failed": "error", "Cancelled": "reason"}
OUTCOME_FIELDS = {
    "ActionSucceeded": "output",
    "ActionFailed": "error",
    "WaitResolved": "resolution",
    "Resumed": "value",
    "SignalReceived": "payload",
    "ChunkReceived": "chunk",
    "EffectSettled": "value",
}
MAX_REMEMBERED = 1000
_BYTES = frozenset({"$bytes", "$bytearray", "$artifact"})
NOTED_FIELDS = {"AttemptRecorded": "snapshots"}
"""Contents that no run receives again: they are not sealed."""


PendingSeals = list[tuple[SealOwner, dict[str, Any]]]


class Redaction(NamedTuple):
    """Redaction rules of an agent, in addition to the built-in ones: `@onrecord.agent(redact=Redaction(rules=[…]))`."""

    rules: Sequence[Rule | tuple[str, str]] = ()
    """Pairs of kind and pattern of further secrets. `core.redaction.patterns` defines the allowed patterns."""
    values: Sequence[str] = ()
    """Further secret values of this process."""
    environment: bool = True
    """True if the values of environment variables with secret-like names are secret."""

    def make_redactor(self) -> Redactor:
        known = secrets_of_environment(os.environ) if self.environment else {}
        return Redactor([Rule(*rule) for rule in self.rules], [*known.values(), *self.values])

    def to_fact(self) -> dict[str, Any]:
        return {"version": VERSION, "rules": [list(rule) for rule in self.rules], "environment": self.environment}

    @classmethod
    def from_fact(cls, fact: Any) -> Redaction:
        try:
            if fact["version"] != VERSION:
                raise InvalidInput(
                    "the run was redacted with rules that this version does not know", code="unknown_redaction"
                )
            rules = [Rule(str(kind), str(pattern)) for kind, pattern in fact["rules"]]
            return cls(rules, environment=bool(fact["environment"]))
        except (TypeError, LookupError, ValueError):
            raise Damaged("the redaction rules in the facts of the run cannot be read", code="bad_content") from None


def parse_redaction(redact: Redaction | bool | None) -> Redaction | None:
    """Return the rules for a `redact=…` argument. Raise `InvalidInput` for an invalid rule."""
    if isinstance(redact, Redaction):
        redact.make_redactor()
        return redact
    return Redaction() if redact else None


class RedactingSecrets(Secrets):
    """The secrets of a run with redaction rules."""

    redacts = True

    def __init__(self, reader: JournalReader, policy: Redaction, seals: Seals | None = None) -> None:
        super().__init__()
        self.active = True
        self.policy = policy
        self.seals = seals or Seals()
        self.redacted = 0
        """The number of events that held secrets."""
        self._reader = reader
        self._redactor = policy.make_redactor()
        self._streams: dict[str, PendingText] = {}
        self._clean_requests: dict[tuple[str, str], Event] = {}
        """Redacted requests that are not yet written."""
        self._changed_requests: set[tuple[str, str]] = set()
        """Those of them that held secrets."""
        self._transaction_seals: PendingSeals = []
        self._unsealed_chunks: tuple[str, list[Any]] | None = None

    def learn(self, values: Sequence[str], given: Any) -> None:
        self._redactor.finder.learn(dict.fromkeys(values, ENVIRONMENT))
        self._redactor.redact_reversibly(given)

    def adopt(self, others: Secrets) -> None:
        super().adopt(others)
        if isinstance(others, RedactingSecrets):
            self._redactor.finder.learn(others._redactor.finder.known)
            self._redactor.parent = others._redactor  # secrets found in this run may reach the other one

    def facts_for_child(self) -> Mapping[str, Any]:
        return {FACT: self.policy.to_fact()}

    # Writing

    def redact_value(self, value: Any) -> Any:
        if value is None:
            return None
        value = super().redact_value(value) if self.kept else value
        return value if self._redactor.is_clean(value) else self._redactor.redact_request(value).value

    def redact_event(self, event: E) -> E:
        """Redact an event for comparison. An outcome keeps its secrets until it is written and its seq is known."""
        event = super().redact_event(event) if self.kept else event
        kind = event.kind
        if kind in REQUEST_FIELDS:
            values = [getattr(event, name) for name in REQUEST_FIELDS[kind]]
            clean = event if self._redactor.is_clean(values) else self._redact_request(event)
            if len(self._clean_requests) >= MAX_REMEMBERED:
                self._clean_requests.clear()
                self._changed_requests.clear()
            request_id = _request_id(clean)
            self._clean_requests[request_id] = clean
            if clean is not event:
                self._changed_requests.add(request_id)
            return clean
        if kind in REVERSIBLE_FIELDS:
            redacted = self._redactor.redact_reversibly(getattr(event, REVERSIBLE_FIELDS[kind]))
            return (
                msgspec.structs.replace(event, **{REVERSIBLE_FIELDS[kind]: redacted.value})
                if redacted.changed
                else event
            )
        return event

    def _redact_request(self, event: E) -> E:
        noted = (event.meta or {}).get("redacted", [])
        if noted:  # redacted before: its own note is not a request
            rest = {name: value for name, value in (event.meta or {}).items() if name != "redacted"}
            event = msgspec.structs.replace(event, meta=rest)
        redacted = {name: self._redactor.redact_request(getattr(event, name)) for name in REQUEST_FIELDS[event.kind]}
        changed = {name: one.value for name, one in redacted.items() if one.changed}
        event = msgspec.structs.replace(event, **changed) if changed else event
        made = [made_placeholders(one.originals) for one in redacted.values()]
        return _note_placeholders(event, [*noted, *(name for names in made for name in names)])

    def redact_batch(self, batch: list[Draft], journal: Journal) -> list[Draft]:
        pending: PendingSeals = []
        drafts = self._redact_drafts(batch, journal, pending)
        self._write_seals(journal, pending)
        return drafts

    def redact_batch_in_transaction(self, batch: list[Draft], journal: Journal) -> list[Draft]:
        self._transaction_seals = []
        return self._redact_drafts(batch, journal, self._transaction_seals)

    def end_transaction(self, journal: Journal) -> None:
        pending, self._transaction_seals = self._transaction_seals, []
        self._write_seals(journal, pending)

    def _write_seals(self, journal: Journal, pending: PendingSeals) -> None:
        for owner, sealed in pending:
            self.seals.put(journal, owner, sealed, SystemSources().now_us())

    def _redact_drafts(self, batch: list[Draft], journal: Journal, pending: PendingSeals) -> list[Draft]:
        first = journal.position + 1
        return [self._redact_draft(draft, first + index, journal, pending) for index, draft in enumerate(batch)]

    def _redact_draft(self, draft: Draft, seq: int, journal: Journal, pending: PendingSeals) -> Draft:
        event = super().redact_event(draft.event) if self.kept else draft.event
        kind = event.kind
        if kind in REQUEST_FIELDS:
            request_id = _request_id(event)
            clean = event  # redacted when the request was made
            if self._clean_requests.pop(request_id, None) is not event:
                clean = self.redact_event(event)
                request_id = _request_id(clean)
                del self._clean_requests[request_id]
            if request_id in self._changed_requests:
                self._changed_requests.discard(request_id)
                self.redacted += 1
            return _with_event(draft, clean)
        name = REVERSIBLE_FIELDS.get(kind) or OUTCOME_FIELDS.get(kind) or NOTED_FIELDS.get(kind)
        if name is None:
            return _with_event(draft, event)
        clean, sealed = self._redact_content(event, getattr(event, name), seq)
        if sealed is None:
            return _with_event(draft, event)
        self.redacted += not sealed.pop("held", False)
        event = msgspec.structs.replace(event, **{name: clean})
        event = _note_placeholders(event, made_placeholders(sealed.pop("found", None) or sealed.get("originals") or {}))
        if kind in NOTED_FIELDS:
            return _with_event(draft, event)
        salt = draft.salt or journal.new_salt()
        pending.append((SealOwner(journal.header.namespace, journal.recorded_run, seq, kind, salt), sealed))
        return msgspec.structs.replace(draft, event=event, salt=salt)

    def _redact_content(self, event: Event, value: Any, seq: int) -> tuple[Any, dict[str, Any] | None]:
        """Return the value to write and the value to seal, or None if it holds no secret.

        `held` marks a chunk without a secret whose end is held back, because a secret may begin there.
        """
        if event.kind in REVERSIBLE_FIELDS:
            return _split(self._redactor.redact_reversibly(value))
        if isinstance(event, ChunkReceived):
            held = self._streams.setdefault(event.action_id, PendingText(self._redactor.finder))
            chunk = self._redactor.redact_chunk(value, seq, held)
            if not chunk.changed:
                return value, None
            return chunk.value, {"whole": encode(value).tree, "held": not chunk.found, "found": chunk.originals}
        streamed = self._streams.pop(getattr(event, "action_id", ""), None) is not None
        if streamed and isinstance(event, ActionSucceeded) and type(value) is list:
            whole, split = self._redactor.redact_stream(value, seq)
            clean, sealed = _split(whole)
            if sealed is not None and split:
                sealed["parts"] = {str(index): encode(value[index]).tree for index in split}
            return clean, sealed
        return _split(self._redactor.redact_answer(value, seq))

    # Reading

    def unseal(self, reader: JournalReader, row: EventRow, tree: Any, *, needed: bool) -> Any:
        unsealed = self._unseal(reader, _find_owner(reader, row), tree, needed=False)
        if needed and unsealed is tree and _has_own_placeholders(reader, row):
            return self._unseal(reader, _find_owner(reader, row), tree, needed=True)
        return unsealed

    def unseal_chunk(self, history: History, reader: JournalReader, row: EventRow, tree: Any, *, needed: bool) -> Any:
        """Unseal a chunk. Without a seal, take it from the stream's recorded output, if there is one: a recorded chunk
        ends before a possible beginning of a secret.
        """
        try:
            sealed = self.seals.find(reader, _find_owner(reader, row))
        except SealedElsewhere:
            if needed:
                raise
            sealed = None
        if sealed is not None:
            return {**tree, "chunk": self._restore(sealed, tree["chunk"], reader, _find_owner(reader, row))}
        key = tree["action_id"]
        if self._unsealed_chunks is None or self._unsealed_chunks[0] != key:
            self._unsealed_chunks = key, self._unseal_output(history, key, needed=needed)
        chunks = self._unsealed_chunks[1]
        return {**tree, "chunk": chunks[tree["index"]]} if tree["index"] < len(chunks) else tree

    def _unseal_output(self, history: History, key: str, *, needed: bool) -> list[Any]:
        """Return the chunks in the recorded output of a stream; none if it has no output."""
        outcome = history.find_stream_outcome(key)
        if outcome is None or outcome.kind != "ActionSucceeded":
            return []
        reader, row = history.reader_of(outcome.row), history.own_row(outcome.row)
        output = (reader.tree_of(row, outcome.committed) or {}).get("output")
        return self.unseal(reader, row, output, needed=needed) if type(output) is list else []

    def unseal_value(self, reader: JournalReader, row: EventRow, value: Any, *, needed: bool) -> Any:
        tree = encode(value).tree
        unsealed = self.unseal(reader, row, tree, needed=needed)
        return value if unsealed is tree else reader.decoded(unsealed)

    def unseal_facts(self, reader: JournalReader, given: Any, *, needed: bool) -> Any:
        """Unseal a part of the run's facts. A fork has the arguments of its parent, whose seals it uses."""
        tree = encode(given).tree
        unsealed = self._unseal_facts(reader, tree, needed=needed)
        return given if unsealed is tree else reader.decoded(unsealed)

    def _unseal_facts(self, reader: JournalReader, tree: Any, *, needed: bool) -> Any:
        parent = reader.header.parent
        forked_from = None
        if parent is not None and parent.relation != "child":
            forked_from = parent.run if reader.store.run_row(reader.namespace, parent.run) is not None else None
        unsealed = self._unseal(reader, _facts_owner(reader), tree, needed=needed and forked_from is None)
        if unsealed is not tree or forked_from is None:
            return unsealed
        return self._unseal_facts(JournalReader(reader.store, forked_from, reader.namespace), tree, needed=needed)

    def _unseal(self, reader: JournalReader, owner: SealOwner, tree: Any, *, needed: bool) -> Any:
        numbers = _find_placeholders(tree, reader)
        if not numbers:
            return tree
        try:
            sealed = self.seals.find(reader, owner)
        except SealedElsewhere:
            if needed:
                raise
            return tree
        if sealed is None:
            if needed and any("." not in number or number.startswith(f"{owner.seq}.") for number in numbers):
                raise SealedElsewhere(
                    f"the secrets at seq {owner.seq} of run {owner.run} are not in this store: "
                    "they were sealed where the run was recorded, and seals are not exported"
                )
            return tree
        return self._restore(sealed, tree, reader, owner)

    def _restore(self, sealed: Any, tree: Any, reader: JournalReader, owner: SealOwner) -> Any:
        try:
            if "whole" in sealed:
                return sealed["whole"]
            originals, parts = sealed["originals"], sealed.get("parts", {})
            found = restore_secrets(tree, originals, reader.nodes.artifact)
            for index, part in parts.items():
                found[int(index)] = part
            self._redactor.learn({piece: kind_of_placeholder(name) or "" for name, piece in originals.items()})
            return found
        except (TypeError, LookupError, ValueError, AttributeError):
            raise Damaged(
                f"the seal at seq {owner.seq} of run {owner.run} is not well formed", code="seal_broken"
            ) from None


def _split(redacted: Redacted | Clean) -> tuple[Any, dict[str, Any] | None]:
    return redacted.value, {"originals": redacted.originals} if redacted.changed else None


def _note_placeholders(event: E, made: Sequence[str]) -> E:
    """Name in `meta` the placeholders that replace secrets, so that a user's own text is not taken for one."""
    if not made:
        return event
    return msgspec.structs.replace(event, meta={**(event.meta or {}), "redacted": sorted(set(made))})


def _request_id(event: Event) -> tuple[str, str]:
    """Return an id of a request until it is written. (`id()` would raise an audit event.)"""
    return event.kind, "" if event.pair_id is None else str(getattr(event, event.pair_id))


def _with_event(draft: Draft, event: Event) -> Draft:
    return draft if event is draft.event else msgspec.structs.replace(draft, event=event)


def _find_owner(reader: JournalReader, row: EventRow) -> SealOwner:
    seq = reader.link(row).seq if row.seq > 0 else msgspec.json.decode(row.link)["seq"]  # an event that a fork shares
    return SealOwner(reader.header.namespace, reader.recorded_run, seq, row.kind, row.salt or b"")


def _find_placeholders(tree: Any, reader: JournalReader) -> list[str]:
    """Return the numbers of the placeholders in an encoded value."""
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


def _has_own_placeholders(reader: JournalReader, row: EventRow) -> bool:
    """Return True if secrets of the event itself were redacted. A patched answer holds those of the forked run."""
    content = reader.tree_of(row, msgspec.json.decode(row.link)["content"])
    meta = (content or {}).get("meta")
    return isinstance(meta, dict) and bool(meta.get("redacted"))


# Facts


def redact_facts(
    facts: dict[str, Any], policy: Redaction | None, names: Sequence[str] = ()
) -> tuple[dict[str, Any], Mapping[str, Any]]:
    """Return the redacted facts of a new run, and the originals of the placeholders in its arguments.

    `names` are the agent's parameters: a positional argument may be a secret by the name of its parameter.
    """
    args, kwargs = facts["input"]["args"], facts["input"]["kwargs"]
    named = dict(zip(names, args, strict=False))
    others = args[len(named) :]
    program = {name: facts[name] for name in ("program",) if name in facts}
    redactor = (policy or Redaction.from_fact(facts[FACT])).make_redactor()
    process = {}
    if "process" in facts:  # only compared, so not sealed
        process["process"] = {name: redactor.redact_request(value).value for name, value in facts["process"].items()}
    redacted = redactor.redact_reversibly([named, others, kwargs, program])
    named, others, kwargs, program = redacted.value
    given = {"args": [*named.values(), *others], "kwargs": kwargs}
    facts = {**facts, **program, **process, "input": given}
    made = made_placeholders(redacted.originals)
    if made:
        facts["meta"] = {**facts.get("meta", {}), "redacted": made}
    return facts, redacted.originals


def seal_facts(journal: Journal, originals: Mapping[str, Any]) -> None:
    Seals().put(journal, _facts_owner(journal), {"originals": dict(originals)}, SystemSources().now_us())


def _facts_owner(reader: JournalReader) -> SealOwner:
    return SealOwner(reader.header.namespace, reader.recorded_run, 0, FACTS, reader.header_row.salt or b"")
