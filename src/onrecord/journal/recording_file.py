"""Read an exported recording. The file is hostile until every line of it is checked.

Two passes read it in bounded memory. The first indexes nodes and artifacts, and checks that their addresses are right
and that each precedes its users and is used. The second pairs contents with links and yields rows as a store keeps
them.
"""

from __future__ import annotations

import binascii
import os
import re
from base64 import b64decode
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from onrecord.core.events import ANSWERS, BEHAVIOURAL_KINDS, OPENING_KINDS
from onrecord.core.hashing import artifact_address, node_address, parse_hash, render
from onrecord.core.links import Header, parse_header, parse_link
from onrecord.core.matching import advance_prefix
from onrecord.core.merkle import parts_in, references_in
from onrecord.core.packing import pack
from onrecord.core.strict_json import read_strict
from onrecord.errors import BadRecording, Damaged, InvalidValue
from onrecord.journal.atomic_files import open_regular
from onrecord.journal.export import ARTIFACT_PART_BYTES
from onrecord.store.contract import EventRow, HeaderRow, NodeRow

MAX_LINE_BYTES = 128 * 1024 * 1024
MAX_NOTES = 1000

_HASH = rb"sha256:[0-9a-f]{64}"
_FIRST = re.compile(
    rb'\{"onrecord":"recording","format":1,"header":(\{.*?\}),"salt":(null|"[0-9a-f]{32}"),"match":(null|"'
    + _HASH
    + rb'"),"hash":"('
    + _HASH
    + rb')",(?:"erased":true|"stored":(\{.*\}))\}\Z',
    re.DOTALL,
)
_NODE = re.compile(rb'\{"node":"(' + _HASH + rb')","stored":(.*)\}\Z', re.DOTALL)
_ARTIFACT = re.compile(
    rb'\{"artifact":"('
    + _HASH
    + rb')","parts":([1-9][0-9]{0,3}),"part":(0|[1-9][0-9]{0,3}),"base64":"([A-Za-z0-9+/=]*)"\}\Z'
)
_CONTENT = re.compile(
    rb'\{"seq":([1-9][0-9]{0,15}),"kind":"([A-Za-z]{1,64})",(?:"erased":true|"stored":(\{.*\}))\}\Z', re.DOTALL
)
_LINK = re.compile(
    rb'\{"link":(\{.*\}),"salt":(null|"[0-9a-f]{32}"),"match":(null|"' + _HASH + rb'"),"hash":"(' + _HASH + rb')"\}\Z',
    re.DOTALL,
)
_SPACE = re.compile(rb"[ \t\r\n]")
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"')
# Short escapes where JSON has them, else \u00xx, and only for characters that must be escaped.
_NEEDED_ESCAPE = re.compile(rb'\\(?:["\\bfnrt]|u00(?:0[0-7bef]|1[0-9a-f]))')
_REFERENCES = (b'{"$node":', b'{"$list":', b'{"$string":')
_END = re.compile(rb'\{"end":\{"events":(0|[1-9][0-9]{0,15}),"head":"(' + _HASH + rb')"\}\}\Z')


class RecordingFile:
    """An exported recording, opened for reading. Use as a context manager."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._file = open_regular(self.path, "an exported recording")
        self._line = 0
        self._nodes: dict[bytes, tuple[int, int]] = {}
        self._artifacts: dict[bytes, list[tuple[int, int]]] = {}
        self._artifact_sizes: dict[bytes, int] = {}
        self._artifact_open: bytes | None = None
        """An artifact with missing parts."""
        self._artifact_parts = 0
        self._contents_at = 0
        self._links_at = self._links_line = 0
        self.events = 0
        try:
            self.header_row, self.header = self._read_header()
            self._index()
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> RecordingFile:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    # First pass

    def _read_header(self) -> tuple[HeaderRow, Header]:
        match = _FIRST.match(self._read_line(self._file))
        if match is None:
            raise self._make_error("this is not a recording: its first line is not a header")
        written, salt, match_digest, digest, stored = match.groups()
        try:
            header = parse_header(written)
        except Damaged as damage:
            raise self._make_error(damage.message) from None
        self._contents_at = self._file.tell()
        self._facts = stored
        self._facts_tree = self._check_stored(stored) if stored is not None else None
        packed = None if stored is None else pack(stored)
        return HeaderRow(
            run=header.run,
            kind=header.kind,
            created=header.created,
            header=written,
            hash=parse_hash(digest.decode()),
            salt=_parse_salt(salt),
            match=_parse_digest(match_digest),
            content=packed,
            imported=True,
        ), header

    def _index(self) -> None:
        """Index and check all lines before the links and the end."""
        self._unused: set[bytes] = set()
        """Parts that no content has used yet."""
        self._facts_needs = self._find_needs(self._facts) if self._facts is not None else set()
        while True:
            offset = self._file.tell()
            line = self._read_line(self._file)
            if (match := _NODE.match(line)) is not None:
                self._index_node(match, offset)
            elif (match := _ARTIFACT.match(line)) is not None:
                self._index_artifact(match, offset)
            elif (match := _CONTENT.match(line)) is not None:
                self._index_content(match)
            elif line.startswith((b'{"link":', b'{"end":')):
                self._links_at, self._links_line = offset, self._line - 1
                break
            else:
                raise self._make_error("the line is not part of a recording")
        self._check_all_used()
        self._check_sizes(self._facts_tree)
        self._facts_tree = None

    def _check_all_used(self) -> None:
        """Check after each content that every earlier part is used: parts precede their first user."""
        if self._artifact_open is not None:
            raise self._make_error(f"artifact {render(self._artifact_open)} is incomplete")
        if self._unused:
            raise self._make_error(f"{render(min(self._unused))} is not needed here")
        if self._facts_needs:
            raise self._make_error(f"{render(min(self._facts_needs))} is needed by the header and missing")

    def _index_node(self, match: re.Match[bytes], offset: int) -> None:
        address, stored = parse_hash(match[1].decode()), match[2]
        self._add_part(address)
        if node_address(stored) != address:
            raise self._make_error(f"the node does not match its address {render(address)}")
        tree = self._check_stored(stored)
        self._check_needs(self._find_needs(stored))
        self._check_sizes(tree)
        self._nodes[address] = (offset + match.start(2), len(stored))

    def _index_artifact(self, match: re.Match[bytes], offset: int) -> None:
        address, parts, part = parse_hash(match[1].decode()), int(match[2]), int(match[3])
        if part == 0:
            self._add_part(address)
            self._artifacts[address], self._artifact_parts = [], parts
        elif address != self._artifact_open or parts != self._artifact_parts:
            raise self._make_error(f"part {part} of artifact {render(address)} is out of order")
        pieces = self._artifacts[address]
        size = len(match[4]) * 3 // 4 - match[4].count(b"=")
        last = part == parts - 1
        if part != len(pieces) or (size != ARTIFACT_PART_BYTES if not last else not 0 < size <= ARTIFACT_PART_BYTES):
            raise self._make_error(f"part {part} of artifact {render(address)} is not what the format says")
        pieces.append((offset + match.start(4), len(match[4])))
        self._artifact_open = None if last else address
        if last:
            data = self.artifact(address)
            if data is None or artifact_address(data) != address:
                raise self._make_error(f"the artifact does not match its address {render(address)}")
            self._artifact_sizes[address] = len(data)

    def _add_part(self, address: bytes) -> None:
        if self._artifact_open is not None:
            raise self._make_error(f"artifact {render(self._artifact_open)} is incomplete")
        if address in self._nodes or address in self._artifacts:
            raise self._make_error(f"{render(address)} occurs twice")
        if address in self._facts_needs:
            self._facts_needs.discard(address)
        else:
            self._unused.add(address)

    def _index_content(self, match: re.Match[bytes]) -> None:
        self.events += 1
        if int(match[1]) != self.events:
            raise self._make_error(f"the content of event {self.events} is missing or out of order", seq=self.events)
        if match[3] is not None:
            tree = self._check_stored(match[3])
            if match[3].startswith(_REFERENCES):
                raise self._make_error("a content is an object, not a reference to one", seq=self.events)
            self._check_needs(self._find_needs(match[3]))
            self._check_sizes(tree)
        self._check_all_used()

    def _check_needs(self, needs: set[bytes]) -> None:
        for address in needs:
            if address not in self._nodes and address not in self._artifacts:
                raise self._make_error(
                    f"{render(address)} is needed here and does not precede this line", self.events or None
                )
        self._unused -= needs

    def _find_needs(self, stored: bytes) -> set[bytes]:
        try:
            return {address for _, address in parts_in(stored)}
        except Damaged as damage:
            raise self._make_error(damage.message) from None

    def _check_sizes(self, tree: Any) -> None:
        """Check the size that each artifact reference names. `tree` is None if there is none."""
        todo = [tree]
        while todo:
            value = todo.pop()
            if type(value) is list:
                todo.extend(value)
            elif type(value) is dict and len(value) == 1 and "$artifact" in value:
                named = value["$artifact"]  # an object with a valid digest, which `_find_needs` has checked
                length = self._artifact_sizes.get(parse_hash(named["digest"]))
                if type(named.get("size")) is not int or named["size"] != length:
                    raise self._make_error(
                        f"artifact {named['digest']} does not have the size that is given here", self.events or None
                    )
            elif type(value) is dict:
                todo.extend(value.values())

    # Parts

    def nodes(self, addresses: Sequence[bytes]) -> dict[bytes, bytes]:
        """Return the stored bytes of nodes by address. The index has checked them."""
        found = {}
        for address in addresses:
            request = self._nodes.get(address)
            if request is not None:
                found[address] = self._read_at(*request)
        return found

    def artifact(self, address: bytes) -> bytes | None:
        pieces = self._artifacts.get(address)
        if not pieces:
            return None
        try:
            return b"".join(b64decode(self._read_at(*request), validate=True) for request in pieces)
        except binascii.Error:
            raise self._make_error(f"artifact {render(address)} is not base64") from None

    def artifact_addresses(self) -> list[bytes]:
        return list(self._artifacts)

    def _read_at(self, offset: int, length: int) -> bytes:
        data = os.pread(self._file.fileno(), length, offset)
        if len(data) != length:
            raise self._make_error("the file changed while it was read")
        return data

    # Second pass

    def rows(self) -> Iterator[EventRow]:
        """Yield every event as a store keeps it, with lanes and prefix digests computed again.

        The claims of the links are left to the verifier.
        """
        lanes: dict[str, tuple[int, bytes]] = {}
        open_requests: dict[int, tuple[str, int]] = {}
        with open_regular(self.path, "an exported recording") as contents:
            if not os.path.samestat(os.fstat(contents.fileno()), os.fstat(self._file.fileno())):
                raise self._make_error("the file was replaced while it was read")
            contents.seek(self._contents_at)
            self._file.seek(self._links_at)
            self._line = self._links_line
            for seq in range(1, self.events + 1):
                kind, stored = self._read_content(contents)
                match = _LINK.match(self._read_line(self._file))
                if match is None:
                    raise self._make_error(f"the link of event {seq} is missing or not well formed", seq=seq)
                yield self._build_row(seq, kind, stored, match, lanes, open_requests)
            self._read_end()

    def _build_row(
        self,
        seq: int,
        kind: str,
        stored: bytes | None,
        match: re.Match[bytes],
        lanes: dict[str, tuple[int, bytes]],
        open_requests: dict[int, tuple[str, int]],
    ) -> EventRow:
        try:
            link = parse_link(match[1])
        except Damaged as damage:
            raise self._make_error(f"event {seq}: {damage.message}", seq=seq) from None
        if link.kind != kind:
            raise self._make_error(f"event {seq} is a {link.kind} in its link and a {kind} in its content", seq=seq)
        digest = _parse_digest(match[3])
        lane_seq: int | None = None
        prefix: bytes | None = None
        if kind in BEHAVIOURAL_KINDS:
            last = lanes.get(link.lane)
            lane_seq = last[0] + 1 if last else 1
            distance = 0
            if kind in ANSWERS and link.parent is not None:
                request = open_requests.pop(link.parent, None)
                distance = lane_seq - request[1] if request is not None and request[0] == link.lane else 0
            if kind in OPENING_KINDS:
                open_requests[seq] = (link.lane, lane_seq)
            prefix = advance_prefix(last[1] if last else None, digest, distance)
            lanes[link.lane] = (lane_seq, prefix)
        blob = None if stored is None else pack(stored)
        return EventRow(
            seq,
            link.id,
            kind,
            link.lane,
            lane_seq,
            match[1],
            parse_hash(match[4].decode()),
            _parse_salt(match[2]),
            digest,
            prefix,
            blob,
        )

    def _read_content(self, contents: BinaryIO) -> tuple[str, bytes | None]:
        while True:
            line = self._read_line(contents)
            match = _CONTENT.match(line)
            if match is not None:
                return match[2].decode(), match[3]

    def _read_end(self) -> None:
        match = _END.match(self._read_line(self._file))
        if match is None:
            raise self._make_error("the end line is missing: the file is cut short or has lines it should not have")
        self.end = (int(match[1]), parse_hash(match[2].decode()))
        if self.end[0] != self.events:
            raise self._make_error(
                f"the end line names {self.end[0]} events, the file has {self.events}", seq=self.events
            )
        notes = 0
        while line := self._file.readline(MAX_LINE_BYTES + 1):
            notes += 1
            if not line.startswith(b'{"note":') or not line.endswith(b"}\n") or notes > MAX_NOTES:
                raise self._make_error("only notes may follow the end line")
            self._parse_strict(line[:-1])

    def new_nodes(self, stored_list: Sequence[bytes], written_nodes: set[bytes]) -> list[NodeRow]:
        """Return the nodes that these contents need and that `written_nodes` does not contain yet."""
        rows: list[NodeRow] = []
        stack = [address for stored in stored_list for address in references_in(stored)]
        while stack:
            address = stack.pop()
            if address in written_nodes:
                continue
            written_nodes.add(address)
            stored = self.nodes([address]).get(address)
            if stored is None:
                raise self._make_error(f"node {render(address)} is missing")
            rows.append(NodeRow(address, pack(stored)))
            stack.extend(references_in(stored))
        return rows

    # Lines

    def _read_line(self, file: BinaryIO) -> bytes:
        line = file.readline(MAX_LINE_BYTES + 1)
        if file is self._file:
            self._line += 1
        if len(line) > MAX_LINE_BYTES:
            raise self._make_error(f"a line is longer than {MAX_LINE_BYTES} bytes")
        if not line.endswith(b"\n"):
            raise self._make_error("the file is cut short" if line else "the file ends too early")
        return line[:-1]

    def _check_stored(self, stored: bytes) -> Any:
        """Check stored text. Return its tree only if it names an artifact: a large tree is not kept."""
        tree = self._parse_strict(stored)
        if b"\\" in stored and b"\\" in _NEEDED_ESCAPE.sub(b"", stored):
            # One spelling for each text, so that a search of stored text for a value cannot miss it.
            raise self._make_error("stored text escapes characters that need no escape")
        return tree if b'{"$artifact":' in stored else None

    def _parse_strict(self, stored: bytes) -> Any:
        try:
            tree = read_strict(stored)
        except InvalidValue as problem:
            raise self._make_error(problem.message) from None
        if _SPACE.search(stored) and _SPACE.search(_STRING.sub(b"", stored)):
            raise self._make_error("stored text has white space outside of strings")
        return tree

    def _make_error(self, message: str, seq: int | None = None) -> BadRecording:
        where = f"{self.path.name}, line {self._line}"
        return BadRecording(f"{where}{f', event {seq}' if seq is not None else ''}: {message}")


def _parse_salt(text: bytes) -> bytes | None:
    return None if text == b"null" else bytes.fromhex(text[1:-1].decode())


def _parse_digest(text: bytes) -> bytes | None:
    return None if text == b"null" else parse_hash(text[1:-1].decode())
