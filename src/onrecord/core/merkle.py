"""Contents as Merkle nodes, so that a repeated conversation is stored once (docs/format.md, section 5).

`Sharer.share` turns an encoded content into root bytes and the nodes it needs; `expand` turns root bytes back into the
content. Both are pure: the caller knows which nodes exist and fetches the missing ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import orjson

from onrecord.core.canonical import parse_stored, stored_bytes
from onrecord.core.cuts import CUT_FROM_BYTES, cut_text, group_addresses, split_items
from onrecord.core.hashing import node_address, parse_hash, render
from onrecord.core.lazy_regex import Pattern
from onrecord.errors import Damaged, InvalidValue

SHARED_FROM_BYTES = 512
"""The size from which a string is shared. A shorter content holds none, so it is stored as it is."""
LIST_FROM_BYTES = 1024
"""The size from which a list is split."""
OBJECT_FROM_BYTES = 2048
"""The size from which an object becomes a node. An object around a split list is below it: the list changes with each
call of a conversation, so a node of the object would be new each time."""
MAX_EXPANDED_BYTES = 256 * 1024 * 1024
SHARED_LEVELS = 64
"""A part that is nested deeper than this in the content is not split."""
REFERENCE_LEVELS = 200
"""A reference deeper than this is refused; levels of `$list` and `$string` count."""

_PART = Pattern(rb'\{"\$(?:node|list|string|artifact)":')
_REFERENCE = Pattern(rb'\{"\$(?:node|list|string)":')

_dumps = orjson.dumps
_CONTAINERS = (dict, list)


class _KnownList(NamedTuple):
    """A list as last stored: its text without the closing bracket, its closed runs, the items of its open run."""

    text: bytes
    length: int
    closed: list[bytes]
    open_items: list[bytes]


_NO_LIST = _KnownList(b"", 0, [], [])


class Sharer:
    """Splits the contents of one run. It remembers what the run has stored, so that a repeated part costs one look-up.

    Its memory is valid only after the append was committed: `share` collects new parts, `commit` keeps them, `discard`
    drops them.
    """

    MEMO_LIMIT_BYTES = 8 * 1024 * 1024
    LONG_LIST = 16
    LISTS_REMEMBERED = 4
    KNOWN_LIMIT = 200_000
    """How many stored nodes are remembered. Forgetting one costs a look-up in the store, nothing else."""

    def __init__(self) -> None:
        self._known: set[bytes] = set()
        self._memo: dict[bytes, bytes] = {}
        self._memo_bytes = 0
        self._new_nodes: dict[bytes, bytes] = {}
        self._new_memo: dict[bytes, bytes] = {}
        self._lists: list[_KnownList] = []
        self._new_lists: list[_KnownList] = []

    def share(self, tree: dict[str, Any], stored: bytes | None = None) -> bytes:
        """Return the root bytes of a content from the codec. Nodes that it needs first are added to `new_nodes`."""
        if stored is None:
            stored = stored_bytes(tree, trusted=True)
        if len(stored) < SHARED_FROM_BYTES:
            return stored
        return self._write_object(tree, 1)

    @property
    def new_nodes(self) -> dict[bytes, bytes]:
        """Return address → stored bytes of nodes that this run has not stored, each after the nodes it refers to."""
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
            # Longest text first, so that it is found first. A list that a new list continues is dropped.
            older = [old for old in self._lists if not any(new.text.startswith(old.text) for new in self._new_lists)]
            recent = [*self._new_lists, *older][: self.LISTS_REMEMBERED]
            self._lists = sorted(recent, key=lambda known: -len(known.text))
        self.discard()

    def discard(self) -> None:
        self._new_nodes = {}
        self._new_memo = {}
        self._new_lists = []

    def _write_value(self, value: Any, level: int) -> bytes:
        """Return the stored text of a value `level` levels below the content, large parts replaced by references."""
        kind = type(value)
        if kind is str:
            text = _dumps(value)
            return text if len(text) < SHARED_FROM_BYTES else self._write_string_reference(value, text)
        if kind is dict or kind is list:
            if level >= SHARED_LEVELS:
                return self._write_deep(value)
            return self._write_member(value, level) if kind is dict else self._write_list(value, level)
        return _dumps(value)

    def _write_deep(self, value: Any) -> bytes:
        """Write a deep part without splitting it: inline if it is small, else as one node."""
        text = stored_bytes(value, trusted=True)
        if len(text) < OBJECT_FROM_BYTES or (type(value) is dict and _is_tag(value)):
            return text
        return self._write_node_reference(text)

    def _write_member(self, value: dict[str, Any], level: int) -> bytes:
        nested = False
        for item in value.values():
            if type(item) in _CONTAINERS:
                nested = True
                break
        if nested:
            text = self._write_object(value, level + 1)
            return text if len(text) < OBJECT_FROM_BYTES or _is_tag(value) else self._write_node_reference(text)
        whole = _dumps(value)
        if len(whole) < SHARED_FROM_BYTES:
            return whole
        replaced = self._memo.get(whole) or self._new_memo.get(whole)
        if replaced is None:
            text = self._write_object(value, level + 1)
            replaced = text if len(text) < OBJECT_FROM_BYTES or _is_tag(value) else self._write_node_reference(text)
            self._new_memo[whole] = replaced
        return replaced

    def _write_object(self, value: Mapping[str, Any], level: int) -> bytes:
        members = [_dumps(key) + b":" + self._write_value(item, level) for key, item in value.items()]
        return b"{" + b",".join(members) + b"}"

    def _write_list(self, value: list[Any], level: int) -> bytes:
        if len(value) >= self.LONG_LIST:
            return self._write_long_list(value, level)
        items = [self._write_value(item, level + 1) for item in value]
        if sum(map(len, items)) + len(items) + 1 < LIST_FROM_BYTES or not items:
            return b"[" + b",".join(items) + b"]"
        runs, tail = split_items(items)
        return self._write_list_reference([self._add_run(run) for run in runs], tail)

    def _write_long_list(self, value: list[Any], level: int) -> bytes:
        """Continue a stored list that this one begins with: comparing bytes is cheap."""
        whole = stored_bytes(value, trusted=True)
        known = self._find_known_prefix(whole)
        items = [*known.open_items, *(self._write_value(item, level + 1) for item in value[known.length :])]
        if not known.closed and sum(map(len, items)) + len(items) + 1 < LIST_FROM_BYTES:
            return b"[" + b",".join(items) + b"]"
        runs, tail = split_items(items)
        closed = [*known.closed, *(self._add_run(run) for run in runs)]
        self._new_lists.append(_KnownList(whole[:-1], len(value), closed, tail))
        return self._write_list_reference(closed, tail)

    def _find_known_prefix(self, whole: bytes) -> _KnownList:
        for known in self._lists:
            if whole.startswith(known.text) and whole[len(known.text) : len(known.text) + 1] in (b",", b"]"):
                return known
        return _NO_LIST

    def _add_run(self, run: list[bytes]) -> bytes:
        return self._add_node(b"[" + b",".join(run) + b"]")

    def _write_list_reference(self, closed: list[bytes], tail: list[bytes]) -> bytes:
        """Return a reference to closed runs. The open run, which the next item changes, stays in place."""
        inline = b"[" + b",".join(tail) + b"]"
        if not closed:
            return inline
        texts = [_write_address(address) for address in self._group(b"$list", closed)]
        return b'{"$list":[' + b",".join([*texts, inline] if tail else texts) + b"]}"

    def _write_string_reference(self, value: str, text: bytes) -> bytes:
        encoded = value.encode()
        if len(encoded) <= CUT_FROM_BYTES:
            return self._write_node_reference(text)
        pieces = [self._add_node(_dumps(piece.decode())) for piece in cut_text(encoded)]
        texts = [_write_address(address) for address in self._group(b"$string", pieces)]
        return b'{"$string":[' + b",".join(texts) + b"]}"

    def _group(self, tag: bytes, addresses: list[bytes]) -> list[bytes]:
        """Return the addresses to list: those of closed groups, level by level, and those that no group closes."""
        listed: list[bytes] = []
        while True:
            groups, rest = group_addresses(addresses)
            listed = rest + listed
            if not groups:
                return listed
            addresses = [
                self._add_node(b'{"' + tag + b'":[' + b",".join(map(_write_address, group)) + b"]}") for group in groups
            ]

    def _write_node_reference(self, text: bytes) -> bytes:
        return b'{"$node":"' + render(self._add_node(text)).encode() + b'"}'

    def _add_node(self, text: bytes) -> bytes:
        address = node_address(text)
        if address not in self._known and address not in self._new_nodes:
            self._new_nodes[address] = text
        return address


def _is_tag(value: Mapping[str, Any]) -> bool:
    if len(value) != 1:
        return False
    (name,) = value
    return name.startswith("$") and not name.startswith("$$")


def _write_address(address: bytes) -> bytes:
    return b'"' + render(address).encode() + b'"'


Fetch = Callable[[Sequence[bytes]], Mapping[bytes, bytes]]
"""Address list → stored bytes of those that exist, their hashes already checked."""


def references_in(stored: bytes) -> list[bytes]:
    """Return the addresses of the nodes that root or node bytes refer to directly, in order."""
    return [address for name, address in parts_in(stored) if name != "$artifact"]


def artifacts_in(stored: bytes) -> list[bytes]:
    """Return the addresses of the artifacts that root or node bytes refer to directly, in order."""
    return [address for name, address in parts_in(stored) if name == "$artifact"]


def parts_in(stored: bytes) -> list[tuple[str, bytes]]:
    """Return the nodes and artifacts that root or node bytes refer to directly, as (tag, address), in order."""
    if b"$" not in stored or not _PART.search(stored):
        return []
    found: list[tuple[str, bytes]] = []
    stack = [parse_stored(stored)]
    while stack:
        value = stack.pop()
        if type(value) is dict:
            reference = _read_reference(value) or _read_artifact_reference(value)
            if reference is None:
                stack.extend(reversed(value.values()))
            else:
                found.extend((reference.tag, address) for address in reference.addresses)
                stack.append(reference.tail)
        elif type(value) is list:
            stack.extend(reversed(value))
    return found


class _Reference(NamedTuple):
    """A tag that refers to nodes or an artifact. `tail` are the items of a list's open run, which are in place."""

    tag: str
    addresses: list[bytes]
    tail: list[Any]


def _read_artifact_reference(value: dict[str, Any]) -> _Reference | None:
    if len(value) != 1 or "$artifact" not in value:
        return None
    target = value["$artifact"]
    return _Reference("$artifact", [_parse_address(target.get("digest") if type(target) is dict else None)], [])


def _read_reference(value: dict[str, Any]) -> _Reference | None:
    if len(value) != 1:
        return None
    ((name, target),) = value.items()
    if name == "$node":
        return _Reference(name, [_parse_address(target)], [])
    if name not in ("$list", "$string"):
        return None
    if type(target) is not list:
        raise Damaged(f"a `{name}` reference is not a list of addresses", code="bad_reference")
    tail: list[Any] = []
    if name == "$list" and target and type(target[-1]) is list:
        target, tail = target[:-1], target[-1]
    return _Reference(name, [_parse_address(item) for item in target], tail)


def _parse_address(text: Any) -> bytes:
    try:
        return parse_hash(text)
    except InvalidValue:
        raise Damaged("a reference does not hold a node address", code="bad_reference") from None


def fetch_reachable(roots: Sequence[bytes], fetch: Fetch, on_missing: Callable[[bytes], None]) -> dict[bytes, bytes]:
    """Return every node reachable from root bytes, fetched level by level. `on_missing` gets each missing address."""
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
    """Return the content of root bytes. Each reference gets its own value: nothing is aliased."""
    if not _REFERENCE.search(root):
        return parse_stored(root)

    def missing(address: bytes) -> None:
        raise Damaged(f"a shared value is missing: node {render(address)}", code="missing_node")

    nodes = fetch_reachable([root], fetch, missing)
    _check_expanded_size(root, nodes)
    return _Expansion(nodes).expand(root, 0)


def _check_expanded_size(root: bytes, nodes: Mapping[bytes, bytes]) -> None:
    references = {address: references_in(stored) for address, stored in nodes.items()}
    sizes: dict[bytes, int] = {}
    # A node is visited after everything it refers to. An address is a hash, so there are no cycles.
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
    """Replace references by their nodes. Containers are followed only as deep as references may occur."""

    def __init__(self, nodes: Mapping[bytes, bytes]) -> None:
        self._nodes = nodes
        self._followed = 0

    def expand(self, stored: bytes, level: int) -> Any:
        """Return the value of root or node bytes that occur `level` levels deep."""
        value = parse_stored(stored)
        if not _REFERENCE.search(stored):
            return value
        before, self._followed = self._followed, 0
        expanded = self._expand_value(value, level)
        if self._followed != len(references_in(stored)):
            raise Damaged(f"a reference is nested deeper than {REFERENCE_LEVELS} levels", code="too_deep")
        self._followed = before
        return expanded

    def _expand_value(self, value: Any, level: int) -> Any:
        if level > REFERENCE_LEVELS:
            return value
        if type(value) is list:
            return [self._expand_value(item, level + 1) if type(item) in _CONTAINERS else item for item in value]
        if type(value) is not dict:
            return value
        reference = _read_reference(value)
        if reference is not None:
            self._followed += len(reference.addresses)
            return self._expand_reference(reference, level)
        return {
            name: self._expand_value(item, level + 1) if type(item) in _CONTAINERS else item
            for name, item in value.items()
        }

    def _expand_reference(self, reference: _Reference, level: int) -> Any:
        parts = [self.expand(self._nodes[address], level + 1) for address in reference.addresses]
        if reference.tag == "$node":
            return parts[0]
        expected = list if reference.tag == "$list" else str
        if not all(type(part) is expected for part in parts):
            raise Damaged(f"a `{reference.tag}` reference leads to something else", code="bad_reference")
        if expected is str:
            return "".join(parts)
        return [item for part in parts for item in part] + self._expand_value(reference.tail, level + 1)
