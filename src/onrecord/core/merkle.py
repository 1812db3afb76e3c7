"""Contents as Merkle nodes, so that a conversation that repeats itself is kept once (docs/format.md, section 5).

`share` turns an encoded content into its root bytes and the nodes it needs; `expand` turns root bytes back into the
content. Both are pure: whoever calls says which nodes exist already and fetches the missing ones.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple
from zlib import crc32

import orjson

from reenact.core.canonical import parse_stored, stored_bytes
from reenact.core.hashing import node_address, parse_hash, render
from reenact.core.lazy_patterns import Pattern
from reenact.errors import Damaged, InvalidValue

NODE_FROM_BYTES = 1024
RUN_MIN_BYTES = 256
RUN_MAX_BYTES = 4096
RUN_MODULUS = 512
CUT_FROM_BYTES = 65_536
CUT_MIN_BYTES = 4_096
CUT_WINDOW_BYTES = 64
CUT_MODULUS = 64
MAX_EXPANDED_BYTES = 256 * 1024 * 1024
SHARED_LEVELS = 64
"""Parts deeper than this below the content are taken whole."""
REFERENCE_LEVELS = 200
"""A reference deeper than this, levels of `$list` and `$string` counted, is refused."""

_CUT = Pattern(
    b"["
    + b"".join(re.escape(bytes([b])) for b in range(3, 256, 8))
    + b"]["
    + b"".join(re.escape(bytes([b])) for b in range(4, 256, 8))
    + b"](?![\x80-\xbf])"
)
_PART = Pattern(rb'\{"\$(?:node|list|string|artifact)":')
_REFERENCE = Pattern(rb'\{"\$(?:node|list|string)":')

_dumps = orjson.dumps
_CONTAINERS = (dict, list)


class _KnownList(NamedTuple):
    """A list as it was stored last: its text without the closing bracket, its finished runs, the items of its last."""

    text: bytes
    length: int
    closed: list[bytes]
    open_items: list[bytes]


_NO_LIST = _KnownList(b"", 0, [], [])


class Sharer:
    """Splits the contents of one run. It remembers what the run has stored so far, so that a repeated part costs one
    look-up.

    What it remembers is true only once the append has been committed: `share` collects what is new, `commit` keeps
    it, `discard` forgets it.
    """

    MEMO_LIMIT_BYTES = 8 * 1024 * 1024
    LONG_LIST = 16
    LISTS_REMEMBERED = 4
    KNOWN_LIMIT = 200_000
    """Nodes remembered as stored. Forgetting one costs a look-up in the store, nothing else."""

    def __init__(self) -> None:
        self._known: set[bytes] = set()
        self._memo: dict[bytes, bytes] = {}
        self._memo_bytes = 0
        self._new_nodes: dict[bytes, bytes] = {}
        self._new_memo: dict[bytes, bytes] = {}
        self._lists: list[_KnownList] = []
        self._new_lists: list[_KnownList] = []

    def share(self, tree: dict[str, Any], stored: bytes | None = None) -> bytes:
        """The root bytes of a content that comes from the codec; `new_nodes` then holds, among others, the nodes it
        is the first to need.
        """
        if stored is None:
            stored = stored_bytes(tree, trusted=True)
        if len(stored) < NODE_FROM_BYTES:
            return stored
        return self._object_text(tree, 1)

    @property
    def new_nodes(self) -> dict[bytes, bytes]:
        """Address → stored bytes of what this run has not stored yet, referred-to before referring."""
        return self._new_nodes

    def commit(self) -> None:
        if self._new_nodes:
            if len(self._known) > self.KNOWN_LIMIT:
                self._known.clear()
            self._known.update(self._new_nodes)
        for text, replaced in self._new_memo.items():
            self._memo_bytes += len(text) + len(replaced)
            self._memo[text] = replaced
        if self._memo_bytes > self.MEMO_LIMIT_BYTES:
            self._memo.clear()
            self._memo_bytes = 0
        if self._new_lists:
            # The longest beginning is found first; a list that another one goes on from is not needed any more.
            older = [old for old in self._lists if not any(new.text.startswith(old.text) for new in self._new_lists)]
            recent = [*self._new_lists, *older][: self.LISTS_REMEMBERED]
            self._lists = sorted(recent, key=lambda known: -len(known.text))
        self.discard()

    def discard(self) -> None:
        self._new_nodes = {}
        self._new_memo = {}
        self._new_lists = []

    def _text(self, value: Any, level: int) -> bytes:
        """Stored text of a value `level` levels below the content, its large parts replaced by references."""
        kind = type(value)
        if kind is str:
            text = _dumps(value)
            return text if len(text) < NODE_FROM_BYTES else self._string_reference(value, text)
        if kind is dict or kind is list:
            if level >= SHARED_LEVELS:
                return self._whole(value)
            return self._member_text(value, level) if kind is dict else self._list_text(value, level)
        return _dumps(value)

    def _whole(self, value: Any) -> bytes:
        """A deep part, not looked into: neither we nor a reader want to follow it level by level."""
        text = stored_bytes(value, trusted=True)
        if len(text) < NODE_FROM_BYTES or (type(value) is dict and _is_tag(value)):
            return text
        return self._node_reference(text)

    def _member_text(self, value: dict[str, Any], level: int) -> bytes:
        nested = False
        for item in value.values():
            if type(item) in _CONTAINERS:
                nested = True
                break
        if nested:
            text = self._object_text(value, level + 1)
            return text if len(text) < NODE_FROM_BYTES or _is_tag(value) else self._node_reference(text)
        whole = _dumps(value)
        if len(whole) < NODE_FROM_BYTES:
            return whole
        replaced = self._memo.get(whole) or self._new_memo.get(whole)
        if replaced is None:
            text = self._object_text(value, level + 1)
            replaced = text if len(text) < NODE_FROM_BYTES or _is_tag(value) else self._node_reference(text)
            self._new_memo[whole] = replaced
        return replaced

    def _object_text(self, value: Mapping[str, Any], level: int) -> bytes:
        members = [_dumps(key) + b":" + self._text(item, level) for key, item in value.items()]
        return b"{" + b",".join(members) + b"}"

    def _list_text(self, value: list[Any], level: int) -> bytes:
        if len(value) >= self.LONG_LIST:
            return self._long_list_text(value, level)
        items = [self._text(item, level + 1) for item in value]
        size = sum(map(len, items)) + len(items) + 1
        if size < NODE_FROM_BYTES or not items:
            return b"[" + b",".join(items) + b"]"
        return self._joined(b"$list", [self._run_node(run) for run in split_items(items)])

    def _long_list_text(self, value: list[Any], level: int) -> bytes:
        """A list that repeats an earlier one and goes on is taken up where that one ended: comparing bytes is cheap."""
        whole = stored_bytes(value, trusted=True)
        known = self._list_begun_by(whole)
        items = [*known.open_items, *(self._text(item, level + 1) for item in value[known.length :])]
        if not known.closed and sum(map(len, items)) + len(items) + 1 < NODE_FROM_BYTES:
            return b"[" + b",".join(items) + b"]"
        runs = split_items(items)
        addresses = [*known.closed, *(self._run_node(run) for run in runs)]
        # The last run may go on with the next item, even if it happens to end with a boundary now.
        self._new_lists.append(_KnownList(whole[:-1], len(value), addresses[:-1], runs[-1]))
        return self._joined(b"$list", addresses)

    def _list_begun_by(self, whole: bytes) -> _KnownList:
        for known in self._lists:
            if whole.startswith(known.text) and whole[len(known.text) : len(known.text) + 1] in (b",", b"]"):
                return known
        return _NO_LIST

    def _run_node(self, run: list[bytes]) -> bytes:
        return self._node(b"[" + b",".join(run) + b"]")

    def _joined(self, tag: bytes, addresses: list[bytes]) -> bytes:
        """A reference to the parts in order; while the list of addresses is long it is split like any list."""
        while True:
            texts = [b'"' + render(address).encode() + b'"' for address in addresses]
            inner = b"[" + b",".join(texts) + b"]"
            if len(inner) < NODE_FROM_BYTES:
                return b'{"' + tag + b'":' + inner + b"}"
            addresses = [self._node(b'{"' + tag + b'":[' + b",".join(run) + b"]}") for run in split_items(texts)]

    def _string_reference(self, value: str, text: bytes) -> bytes:
        encoded = value.encode()
        if len(encoded) <= CUT_FROM_BYTES:
            return self._node_reference(text)
        return self._joined(b"$string", [self._node(_dumps(piece.decode())) for piece in cut_text(encoded)])

    def _node_reference(self, text: bytes) -> bytes:
        return b'{"$node":"' + render(self._node(text)).encode() + b'"}'

    def _node(self, text: bytes) -> bytes:
        address = node_address(text)
        if address not in self._known and address not in self._new_nodes:
            self._new_nodes[address] = text
        return address


def _is_tag(value: Mapping[str, Any]) -> bool:
    if len(value) != 1:
        return False
    (name,) = value
    return name.startswith("$") and not name.startswith("$$")


def split_items(items: Sequence[bytes]) -> list[list[bytes]]:
    """Runs of items whose boundaries depend on the items themselves."""
    runs: list[list[bytes]] = []
    run: list[bytes] = []
    size = 0
    for item in items:
        length = len(item)
        run.append(item)
        size += length + 1
        if size >= RUN_MIN_BYTES and (size >= RUN_MAX_BYTES or crc32(item) % RUN_MODULUS < length):
            runs.append(run)
            run, size = [], 0
    if run:
        runs.append(run)
    return runs


def cut_text(data: bytes) -> list[bytes]:
    """Pieces of UTF-8 text, cut where the text itself says, so that an insertion moves only the cuts around it."""
    cuts: list[int] = []
    last = 0
    for candidate in _CUT.finditer(data):
        end = candidate.end()
        while end - last > CUT_FROM_BYTES:
            last = _character_boundary(data, last + CUT_FROM_BYTES)
            cuts.append(last)
        if end - last < CUT_MIN_BYTES or end == len(data):
            continue
        if crc32(data[end - CUT_WINDOW_BYTES : end]) % CUT_MODULUS == 0:
            cuts.append(end)
            last = end
    while len(data) - last > CUT_FROM_BYTES:
        last = _character_boundary(data, last + CUT_FROM_BYTES)
        cuts.append(last)
    bounds = [0, *cuts, len(data)]
    return [data[start:stop] for start, stop in pairwise(bounds)]


def _character_boundary(data: bytes, position: int) -> int:
    while data[position] & 0xC0 == 0x80:
        position -= 1
    return position


Fetch = Callable[[Sequence[bytes]], Mapping[bytes, bytes]]
"""Address list → stored bytes of those that exist, their addresses already checked."""


def references_in(stored: bytes) -> list[bytes]:
    """The addresses that root or node bytes refer to directly, in order."""
    return [address for name, address in parts_in(stored) if name != "$artifact"]


def artifacts_in(stored: bytes) -> list[bytes]:
    """The addresses of the artifacts that root or node bytes name directly, in order."""
    return [address for name, address in parts_in(stored) if name == "$artifact"]


def parts_in(stored: bytes) -> list[tuple[str, bytes]]:
    """What root or node bytes refer to directly, nodes and artifacts, as (tag, address), in order."""
    if b"$" not in stored or not _PART.search(stored):
        return []
    found: list[tuple[str, bytes]] = []
    stack = [parse_stored(stored)]
    while stack:
        value = stack.pop()
        if type(value) is dict:
            reference = _reference(value) or _artifact_reference(value)
            if reference is None:
                stack.extend(reversed(value.values()))
            else:
                found.extend((reference[0], address) for address in reference[1])
        elif type(value) is list:
            stack.extend(reversed(value))
    return found


def _artifact_reference(value: dict[str, Any]) -> tuple[str, list[bytes]] | None:
    if len(value) != 1 or "$artifact" not in value:
        return None
    target = value["$artifact"]
    return "$artifact", [_address(target.get("digest") if type(target) is dict else None)]


def _reference(value: dict[str, Any]) -> tuple[str, list[bytes]] | None:
    if len(value) != 1:
        return None
    ((name, target),) = value.items()
    if name == "$node":
        return name, [_address(target)]
    if name in ("$list", "$string"):
        if type(target) is not list:
            raise Damaged(f"a `{name}` reference is not a list of addresses", code="bad_reference")
        return name, [_address(item) for item in target]
    return None


def _address(text: Any) -> bytes:
    try:
        return parse_hash(text)
    except InvalidValue:
        raise Damaged("a reference does not hold a node address", code="bad_reference") from None


def reachable(roots: Sequence[bytes], fetch: Fetch, on_missing: Callable[[bytes], None]) -> dict[bytes, bytes]:
    """Every node reachable from root bytes, fetched level by level; `on_missing` hears of addresses that do not
    exist.
    """
    nodes: dict[bytes, bytes] = {}
    missing: set[bytes] = set()
    wanted = list(dict.fromkeys(address for root in roots for address in references_in(root)))
    while wanted:
        fetched = fetch(wanted)
        following: dict[bytes, None] = {}
        for address in wanted:
            stored = fetched.get(address)
            if stored is None:
                if address not in missing:
                    missing.add(address)
                    on_missing(address)
                continue
            nodes[address] = stored
            following.update(dict.fromkeys(references_in(stored)))
        wanted = [address for address in following if address not in nodes and address not in missing]
    return nodes


def expand(root: bytes, fetch: Fetch) -> Any:
    """The content that root bytes stand for. Every reference gets a value of its own: nothing is aliased."""
    if not _REFERENCE.search(root):
        return parse_stored(root)

    def missing(address: bytes) -> None:
        raise Damaged(f"a shared value is missing: node {render(address)}", code="missing_node")

    nodes = reachable([root], fetch, missing)
    _check_expanded_size(root, nodes)
    return _Expansion(nodes).of(root, 0)


def _check_expanded_size(root: bytes, nodes: Mapping[bytes, bytes]) -> None:
    references = {address: references_in(stored) for address, stored in nodes.items()}
    sizes: dict[bytes, int] = {}
    # Nodes are visited after everything they refer to; an address is a hash, so there is no cycle to fear.
    stack: list[bytes] = list(dict.fromkeys(references_in(root)))
    while stack:
        address = stack[-1]
        if address in sizes:
            stack.pop()
            continue
        waiting = [child for child in references[address] if child not in sizes]
        if waiting:
            stack.extend(waiting)
            continue
        sizes[address] = len(nodes[address]) + sum(sizes[child] for child in references[address])
        stack.pop()
    total = len(root) + sum(sizes[address] for address in references_in(root))
    if total > MAX_EXPANDED_BYTES:
        raise Damaged(f"a content expands to more than {MAX_EXPANDED_BYTES} bytes", code="too_large")


class _Expansion:
    """Puts nodes in the place of references. It follows containers only as deep as references may stand."""

    def __init__(self, nodes: Mapping[bytes, bytes]) -> None:
        self._nodes = nodes
        self._followed = 0

    def of(self, stored: bytes, level: int) -> Any:
        """The value of root or node bytes that stand `level` levels deep."""
        value = parse_stored(stored)
        if not _REFERENCE.search(stored):
            return value
        before, self._followed = self._followed, 0
        expanded = self._value(value, level)
        if self._followed != len(references_in(stored)):
            raise Damaged(f"a reference stands deeper than {REFERENCE_LEVELS} levels", code="too_deep")
        self._followed = before
        return expanded

    def _value(self, value: Any, level: int) -> Any:
        if level > REFERENCE_LEVELS:
            return value
        if type(value) is list:
            return [self._value(item, level + 1) if type(item) in _CONTAINERS else item for item in value]
        if type(value) is not dict:
            return value
        reference = _reference(value)
        if reference is not None:
            self._followed += len(reference[1])
            return self._referred(*reference, level)
        return {
            name: self._value(item, level + 1) if type(item) in _CONTAINERS else item for name, item in value.items()
        }

    def _referred(self, name: str, addresses: list[bytes], level: int) -> Any:
        parts = [self.of(self._nodes[address], level + 1) for address in addresses]
        if name == "$node":
            return parts[0]
        expected = list if name == "$list" else str
        if not all(type(part) is expected for part in parts):
            raise Damaged(f"a `{name}` reference leads to something else", code="bad_reference")
        return "".join(parts) if expected is str else [item for part in parts for item in part]
