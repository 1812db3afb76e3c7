"""Remove the secrets of a run from values before they are hashed or written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from onrecord.core.codec import decode, encode
from onrecord.core.events import Event
from onrecord.core.packing import unpack
from onrecord.journal.chain import Draft

if TYPE_CHECKING:
    from onrecord.journal.journal import Journal
    from onrecord.journal.reader import JournalReader
    from onrecord.runtime.engine.open_effect import EffectSpec
    from onrecord.runtime.replay.history import History
    from onrecord.store.contract import EventRow

E = TypeVar("E", bound=Event)
FACT = "redaction"
"""The fact of a run that holds its redaction rules."""
_CONTENTS = frozenset({"$bytes", "$bytearray", "$text", "$artifact"})


def load_secrets(reader: JournalReader) -> Secrets:
    """Return the secrets of a run, with redaction if the run's facts have rules for it."""
    content = reader.header_row.content
    fact = None
    if content is not None and b'"redaction"' in unpack(content):
        fact = (reader.facts() or {}).get(FACT)
    if fact is None:
        return Secrets()
    from onrecord.runtime.secrets.redaction import RedactingSecrets, Redaction  # loaded for runs that need it

    return RedactingSecrets(reader, Redaction.from_fact(fact))


def open_facts(reader: JournalReader, *, needed: bool = False) -> dict[str, Any] | None:
    """Return the facts of a run with the secrets of its command line.

    Secrets that cannot be unsealed stay placeholders; with `needed`, `SealedElsewhere` is raised instead.
    """
    facts = reader.facts()
    if facts is None or FACT not in facts or "program" not in facts:
        return facts
    return {**facts, "program": load_secrets(reader).unseal_facts(reader, facts["program"], needed=needed)}


class Secrets:
    """The secrets of a run, each with its substitute in the record. This class finds only secrets that are listed.

    The `unseal` methods return values as the agent received them. If a secret cannot be unsealed, its placeholder
    stays; with `needed`, `SealedElsewhere` is raised instead.
    """

    redacts = False
    """True if secrets are also found by rules (`redaction`)."""

    def __init__(self) -> None:
        self.kept: dict[str, str] = {}
        """Secrets with their substitutes. Empty for most runs."""
        self.active = False
        """True if values must be searched before they are written."""

    def keep(self, secret: str, substitute: str) -> None:
        self.kept = {**self.kept, secret: substitute}  # replaced, never changed: another thread may iterate over it
        self.active = True

    def adopt(self, others: Secrets) -> None:
        """Add the secrets of another run."""
        self.kept = {**self.kept, **others.kept}
        self.active = self.active or bool(self.kept)

    def redact_spec(self, spec: EffectSpec) -> EffectSpec:
        """Redact the name of an effect, which is also a part of its key."""
        name = self.redact_value(spec.name)
        return spec if name == spec.name else spec._replace(name=name)

    def redact_value(self, value: Any) -> Any:
        return replace_secrets(value, self.kept) if self.kept else value

    def redact_for_child(self, value: Any) -> Any:
        """Redact the arguments of a called run. Only listed secrets are replaced: that run redacts others itself."""
        return replace_secrets(value, self.kept) if self.kept else value

    def facts_for_child(self) -> Mapping[str, Any]:
        """Return the facts that a called run inherits."""
        return {}

    def redact_event(self, event: E) -> E:
        if not self.kept:
            return event
        members = {name: getattr(event, name) for name in event.__struct_fields__}
        return type(event)(**{name: replace_secrets(value, self.kept) for name, value in members.items()})

    def redact_batch(self, batch: list[Draft], journal: Journal) -> list[Draft]:
        """Redact the drafts of the next append, and write their seals."""
        return [msgspec.structs.replace(draft, event=self.redact_event(draft.event)) for draft in batch]

    def redact_batch_in_transaction(self, batch: list[Draft], journal: Journal) -> list[Draft]:
        """Redact a batch inside a store transaction. `end_transaction` writes its seals, since nothing else can be
        written before the transaction has ended.
        """
        return self.redact_batch(batch, journal)

    def end_transaction(self, journal: Journal) -> None: ...

    def unseal(self, reader: JournalReader, row: EventRow, tree: Any, *, needed: bool) -> Any:
        """Unseal the encoded value of an event."""
        return tree

    def unseal_chunk(self, history: History, reader: JournalReader, row: EventRow, tree: Any, *, needed: bool) -> Any:
        """Unseal the encoded content of a stream's chunk event."""
        return tree

    def unseal_facts(self, reader: JournalReader, given: Any, *, needed: bool) -> Any:
        """Unseal a part of the run's facts, such as the agent's arguments."""
        return given

    def learn(self, values: Sequence[str], given: Any) -> None:
        """Add secret values, and the secrets found in the agent's arguments."""

    def unseal_value(self, reader: JournalReader, row: EventRow, value: Any, *, needed: bool) -> Any:
        """Unseal the decoded value of an event."""
        return value


def replace_secrets(value: Any, secrets: Mapping[str, str]) -> Any:
    """Return the value with each secret in its texts and bytes replaced by its substitute."""
    if type(value) is str:
        for secret, substitute in secrets.items():
            if secret in value:
                value = value.replace(secret, substitute)
        return value
    if type(value) is dict:
        return {replace_secrets(name, secrets): replace_secrets(item, secrets) for name, item in value.items()}
    if type(value) in (list, tuple, set, frozenset):
        return type(value)(replace_secrets(item, secrets) for item in value)
    if type(value) in (bytes, bytearray):
        for secret, substitute in secrets.items():
            if secret.encode() in value:
                value = value.replace(secret.encode(), substitute.encode())
        return value
    return value if value is None or type(value) in (bool, int, float) else _replace_in_object(value, secrets)


def _replace_in_object(value: Any, secrets: Mapping[str, str]) -> Any:
    """Replace secrets in any other value by its encoded form, e.g. in an exception's attributes, causes and notes.

    Returns a copy if a secret occurs: the agent keeps the original.
    """
    encoded = encode(value)
    artifacts = dict(encoded.artifacts)
    tree = _replace_in_tree(encoded.tree, secrets, artifacts)
    if tree == encoded.tree:
        return value
    return decode(tree, loaded_classes=True, artifact=artifacts.__getitem__)


def _replace_in_tree(tree: Any, secrets: Mapping[str, str], artifacts: dict[bytes, bytes]) -> Any:
    """Replace secrets in an encoded value. Bytes and odd texts are decoded, searched and encoded again."""
    if type(tree) is list:
        return [_replace_in_tree(item, secrets, artifacts) for item in tree]
    if type(tree) is not dict:
        return replace_secrets(tree, secrets)
    if len(tree) == 1 and not _CONTENTS.isdisjoint(tree):
        content = decode(tree, artifact=artifacts.__getitem__)
        found = replace_secrets(content, secrets) if type(content) in (str, bytes, bytearray) else content
        if found == content:
            return tree
        encoded = encode(found)
        artifacts.update(encoded.artifacts)
        return encoded.tree
    return {replace_secrets(name, secrets): _replace_in_tree(item, secrets, artifacts) for name, item in tree.items()}
