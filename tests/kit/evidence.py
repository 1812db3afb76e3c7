"""What the tests of evidence share."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from pathlib import Path
from typing import Any

from golden.vectors import FixedSources
from onrecord.core.canonical import stored_bytes
from onrecord.core.events import ActionRequested, ActionSucceeded, Completed, StateUpdated
from onrecord.journal.journal import Journal
from onrecord.proof.evidence import SigningKeys, keep_difference, make_bundle
from onrecord.proof.evidence.envelope import PAYLOAD_TYPE, pre_authentication_encoding
from onrecord.store.contract import Store


def recorded_run(store: Store, run: str = "r1", answer: Any = "4", *, end: bool = True) -> None:
    journal = Journal.create(store, run, facts={"agent": "demo"}, sources=FixedSources(f"{run}/{answer}"))
    journal.append([ActionRequested("a1", {"q": "2+2?", "long": "word " * 300}, "ask"), ActionSucceeded("a1", answer)])
    journal.append(StateUpdated({"n": 1}))
    if end:
        journal.append(Completed("done"))
    journal.release()


def keys_at(path: Path, name: str = "keys") -> SigningKeys:
    return SigningKeys(path / f"{name}.json", sources=FixedSources(name))


def full_bundle(store: Store, keys: SigningKeys, runs: tuple[str, ...] = ("r1", "r2"), answer: str = "5") -> bytes:
    """Two runs, a result and a difference."""
    for run, said in zip(runs, ("4", answer), strict=True):
        recorded_run(store, run, said)
    digest = keep_difference(store, "default", f"4 is not {answer}".encode(), sources=FixedSources("difference"))
    return make_bundle(
        store,
        runs,
        result={"verdict": "diverged", "difference": digest},
        differences=[digest],
        keys=keys,
        sources=FixedSources("bundle"),
    )


class Taken:
    """A bundle taken apart, to be put together again differently."""

    def __init__(self, bundle: bytes) -> None:
        first, self.rest = bundle.split(b"\n", 1)
        self.envelope: dict[str, Any] = json.loads(first)
        self.payload = b64decode(self.envelope["payload"])
        self.statement: dict[str, Any] = json.loads(self.payload)

    @property
    def parts(self) -> list[bytes]:
        found, at = [], 0
        for part in self.statement["parts"]:
            found.append(self.rest[at : at + part["size"]])
            at += part["size"] + 1
        return found

    def together(self, parts: list[bytes] | None = None, /, **members: Any) -> bytes:
        rest = self.rest if parts is None else b"".join(part + b"\n" for part in parts)
        return stored_bytes({**self.envelope, **members}) + b"\n" + rest

    def signed_again(self, keys: SigningKeys, parts: list[bytes] | None = None, /, **statement: Any) -> bytes:
        """With another statement, and a signature that holds."""
        payload = json.dumps({**self.statement, **statement}, sort_keys=True, separators=(",", ":")).encode()
        return self.together(parts, payload=b64encode(payload).decode(), signatures=[signature(keys, payload)])


def signature(keys: SigningKeys, payload: bytes, payload_type: str = PAYLOAD_TYPE) -> dict[str, str]:
    key_id, made = keys.sign_bytes(pre_authentication_encoding(payload_type, payload))
    return {"keyid": key_id, "sig": b64encode(made).decode()}
