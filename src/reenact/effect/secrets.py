"""Taking secrets out of values before anything is hashed or written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from reenact.core.codec import decode, encode
from reenact.core.events import Event
from reenact.core.packing import unpack
from reenact.journal.chain import Draft

if TYPE_CHECKING:
    from reenact.effect.past import Past
    from reenact.effect.tickets import EffectSpec
    from reenact.journal.journal import Journal
    from reenact.journal.reader import JournalReader
    from reenact.store.contract import EventRow

E = TypeVar("E", bound=Event)
FACT = "redaction"
"""The fact of a run that says how it is redacted."""
_CONTENTS = frozenset({"$bytes", "$bytearray", "$text", "$artifact"})


def secrets_of(reader: JournalReader) -> Secrets:
    """The secrets of a run, as its facts say they are treated."""
    content = reader.header_row.content
    fact = None
    if content is not None and b'"redaction"' in unpack(content):
        fact = (reader.facts() or {}).get(FACT)
    if fact is None:
        return Secrets()
    from reenact.effect.redacting import RedactingSecrets, Redaction  # loaded for runs that need it

    return RedactingSecrets(reader, Redaction.from_fact(fact))


def facts_as_given(reader: JournalReader, *, needed: bool = False) -> dict[str, Any] | None:
    """The facts of a run with the secrets of its command line, where they can be opened. Needed: or not at all."""
    facts = reader.facts()
    if facts is None or FACT not in facts or "program" not in facts:
        return facts
    return {**facts, "program": secrets_of(reader).opened_facts(reader, facts["program"], needed=needed)}


class Secrets:
    """The secrets of a run, and what stands for each of them in the record."""

    redacts = False
    """Secrets are looked for (`redacting`), and not only those that are kept here."""

    def __init__(self) -> None:
        self.kept: dict[str, str] = {}
        """Empty for most runs."""
        self.any = False
        """What is written has to be looked through."""

    def keep(self, secret: str, stand_in: str) -> None:
        self.kept = {**self.kept, secret: stand_in}  # never changed while somebody looks through a value
        self.any = True

    def adopt(self, others: Secrets) -> None:
        """What another run keeps secret is secret here, too."""
        self.kept = {**self.kept, **others.kept}
        self.any = self.any or bool(self.kept)

    def spec_without(self, spec: EffectSpec) -> EffectSpec:
        """An effect is known by its name, in keys too: one that holds a secret has another one for the run."""
        name = self.value_without(spec.name)
        return spec if name == spec.name else spec._replace(name=name)

    def value_without(self, value: Any) -> Any:
        return replaced(value, self.kept) if self.kept else value

    def value_for_child(self, value: Any) -> Any:
        """What a run that this one calls is called with, as its facts may have it."""
        return replaced(value, self.kept) if self.kept else value

    def facts_for_child(self) -> Mapping[str, Any]:
        return {}

    def without(self, event: E) -> E:
        """The event as it may be written."""
        if not self.kept:
            return event
        members = {name: getattr(event, name) for name in event.__struct_fields__}
        return type(event)(**{name: replaced(value, self.kept) for name, value in members.items()})

    def to_be_written(self, batch: list[Draft], journal: Journal) -> list[Draft]:
        """What is appended next, as it may be written."""
        return [msgspec.structs.replace(draft, event=self.without(draft.event)) for draft in batch]

    def written_in_transaction(self, batch: list[Draft], journal: Journal) -> list[Draft]:
        """The same inside of a transaction of the store, where nothing else can be written. What is to be kept beside
        the log is kept once it is over (`transaction_over`)."""
        return self.to_be_written(batch, journal)

    def transaction_over(self, journal: Journal) -> None: ...

    def opened(self, reader: JournalReader, row: EventRow, tree: Any, *, needed: bool) -> Any:
        """An encoded value of the record as the agent was given it."""
        return tree

    def opened_part(self, past: Past, reader: JournalReader, row: EventRow, tree: Any, *, needed: bool) -> Any:
        """The encoded content of a part of a stream, likewise."""
        return tree

    def opened_facts(self, reader: JournalReader, given: Any, *, needed: bool) -> Any:
        """What the agent was called with."""
        return given

    def know(self, values: Sequence[str], given: Any) -> None:
        """What is secret besides, and what the agent was called with."""

    def opened_value(self, reader: JournalReader, row: EventRow, value: Any, *, needed: bool) -> Any:
        return value


def replaced(value: Any, secrets: Mapping[str, str]) -> Any:
    """The value with every occurrence of a secret in its texts replaced by its stand-in; itself if there is none."""
    if type(value) is str:
        for secret, stand_in in secrets.items():
            if secret in value:
                value = value.replace(secret, stand_in)
        return value
    if type(value) is dict:
        return {replaced(name, secrets): replaced(item, secrets) for name, item in value.items()}
    if type(value) in (list, tuple, set, frozenset):
        return type(value)(replaced(item, secrets) for item in value)
    if type(value) in (bytes, bytearray):
        for secret, stand_in in secrets.items():
            if secret.encode() in value:
                value = value.replace(secret.encode(), stand_in.encode())
        return value
    return value if value is None or type(value) in (bool, int, float) else _object(value, secrets)


def _object(value: Any, secrets: Mapping[str, str]) -> Any:
    """Whatever else there is, looked through as it would be written: an error with its attributes, causes and notes.

    If a secret is in it, it is a copy that is written: the agent has the value itself."""
    encoded = encode(value)
    artifacts = dict(encoded.artifacts)
    tree = _tree(encoded.tree, secrets, artifacts)
    if tree == encoded.tree:
        return value
    return decode(tree, loaded_classes=True, artifact=artifacts.__getitem__)


def _tree(tree: Any, secrets: Mapping[str, str], artifacts: dict[bytes, bytes]) -> Any:
    """What was encoded, with the bytes and odd texts in it, which are not written as they are, looked through too."""
    if type(tree) is list:
        return [_tree(item, secrets, artifacts) for item in tree]
    if type(tree) is not dict:
        return replaced(tree, secrets)
    if len(tree) == 1 and not _CONTENTS.isdisjoint(tree):
        content = decode(tree, artifact=artifacts.__getitem__)
        found = replaced(content, secrets) if type(content) in (str, bytes, bytearray) else content
        if found == content:
            return tree
        encoded = encode(found)
        artifacts.update(encoded.artifacts)
        return encoded.tree
    return {replaced(name, secrets): _tree(item, secrets, artifacts) for name, item in tree.items()}
