"""Export a run as one text file (docs/format.md, section 8).

The run is verified first: a damaged run is never exported.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path

from onrecord.core.hashing import render
from onrecord.core.merkle import parts_in
from onrecord.core.packing import unpack
from onrecord.errors import Damaged
from onrecord.journal.atomic_files import write_atomically
from onrecord.journal.reader import JournalReader
from onrecord.journal.verify import verify_run

ARTIFACT_PART_BYTES = 4 * 1024 * 1024


def export_lines(reader: JournalReader) -> Iterator[bytes]:
    """Yield the lines of the file, without their line feeds."""
    verify_run(reader.store, reader.run, reader.namespace).raise_if_invalid()
    exporter = _Exporter(reader)
    yield exporter.header_line()
    yield from exporter.parts(exporter.facts)
    last = 0
    for row in reader.store.scan(reader.namespace, reader.run):
        link = reader.link(row)
        opening = f'{{"seq":{row.seq},"kind":"{link.kind}",'.encode()
        if row.content is None:
            yield opening + b'"erased":true}'
        else:
            reader.content_tree(row, link)
            stored = unpack(row.content)
            yield from exporter.parts(stored)
            yield opening + b'"stored":' + stored + b"}"
        last = row.seq
    head = reader.header_row.hash
    for row in reader.store.scan(reader.namespace, reader.run, 1, last + 1, contents=False):
        head = row.hash
        members = row.link, _write_salt(row.salt), _write_hash(row.match), _write_hash(head)
        yield b'{"link":%b,"salt":%b,"match":%b,"hash":%b}' % members
    yield f'{{"end":{{"events":{last},"head":"{render(head)}"}}}}'.encode()


def export_run(reader: JournalReader, path: Path) -> int:
    """Write the file atomically and return its size in bytes."""
    with write_atomically(path) as file:
        return sum(file.write(line) + file.write(b"\n") for line in export_lines(reader))


class _Exporter:
    def __init__(self, reader: JournalReader) -> None:
        self._reader = reader
        self._written: set[bytes] = set()
        row = reader.header_row
        if row.content is not None:
            reader.facts()
        self.facts = b"" if row.content is None else unpack(row.content)

    def header_line(self) -> bytes:
        row = self._reader.header_row
        facts = b'"erased":true' if row.content is None else b'"stored":' + self.facts
        members = row.header, _write_salt(row.salt), _write_hash(row.match), _write_hash(row.hash), facts
        return b'{"onrecord":"recording","format":1,"header":%b,"salt":%b,"match":%b,"hash":%b,%b}' % members

    def parts(self, stored: bytes) -> Iterator[bytes]:
        """Yield the parts that are needed here first: depth first, left to right, each after its own references."""
        # An explicit stack: the recording decides how deep references go.
        stack: list[tuple[bytes, bytes, list[tuple[str, bytes]]]] = [(b"", stored, parts_in(stored)[::-1])]
        while stack:
            address, text, waiting = stack[-1]
            if not waiting:
                stack.pop()
                if address:
                    yield b'{"node":"' + render(address).encode() + b'","stored":' + text + b"}"
                continue
            tag, following = waiting.pop()
            if following in self._written:
                continue
            self._written.add(following)
            if tag == "$artifact":
                yield from self._artifact(following)
            else:
                found = self._reader.nodes.fetch([following]).get(following)
                if found is None:
                    raise Damaged(f"a shared value is missing: node {render(following)}", code="missing_node")
                stack.append((following, found, parts_in(found)[::-1]))

    def _artifact(self, address: bytes) -> Iterator[bytes]:
        data = self._reader.nodes.artifact(address)
        parts = max(1, -(-len(data) // ARTIFACT_PART_BYTES))
        for part in range(parts):
            piece = b64encode(data[part * ARTIFACT_PART_BYTES : (part + 1) * ARTIFACT_PART_BYTES])
            opening = f'{{"artifact":"{render(address)}","parts":{parts},"part":{part},"base64":"'
            yield opening.encode() + piece + b'"}'


def _write_salt(salt: bytes | None) -> bytes:
    return b"null" if salt is None else b'"' + salt.hex().encode() + b'"'


def _write_hash(digest: bytes | None) -> bytes:
    return b"null" if digest is None else b'"' + render(digest).encode() + b'"'
