"""Sharing: docs/format.md, section 5, written a second time from the text; linear growth; bounded expansion."""

from __future__ import annotations

import hashlib
import json
import random
from typing import Any
from zlib import crc32

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from golden.vectors import pseudo_text, sharing_inputs
from kit.chance import examples
from kit.journals import NS, begin, rows_of
from onrecord.core.events import ActionRequested, ActionSucceeded, StateUpdated
from onrecord.core.merkle import Sharer, expand
from onrecord.core.packing import unpack
from onrecord.errors import Damaged
from onrecord.journal.reader import JournalReader
from onrecord.journal.verify import verify_run
from onrecord.store.contract import Store
from onrecord.store.memory import MemoryStore

# Section 5 again, as plainly as it can be written.


def plain_text(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def plain_share(tree: dict[str, Any]) -> tuple[bytes, dict[str, bytes]]:
    nodes: dict[str, bytes] = {}

    def node(text: bytes) -> str:
        address = "sha256:" + hashlib.sha256(b"onrecord.node/1\0" + text).hexdigest()
        nodes[address] = text
        return address

    def split(items: list[bytes]) -> list[list[bytes]]:
        """The closed runs, and the open one, perhaps empty."""
        runs, size = [[]], 0  # type: ignore[var-annotated]
        for item in items:
            runs[-1].append(item)
            size += len(item) + 1
            if size >= 4096 or (size >= 256 and crc32(item) % 512 < len(item)):
                runs.append([])
                size = 0
        return runs

    def group(tag: str, addresses: list[str]) -> list[str]:
        groups: list[list[str]] = [[]]
        for address in addresses:
            groups[-1].append(address)
            if len(groups[-1]) == 16 or (len(groups[-1]) >= 2 and int(address[-2:], 16) % 2 == 0):
                groups.append([])
        *closed, rest = groups
        return group(tag, [node(listed(tag, one)) for one in closed]) + rest if closed else rest

    def listed(tag: str, addresses: list[str], tail: bytes = b"") -> bytes:
        texts = [b'"%s"' % address.encode() for address in addresses]
        return b'{"%s":[%s]}' % (tag.encode(), b",".join([*texts, tail] if tail else texts))

    def joined(items: list[bytes]) -> bytes:
        *closed, rest = split(items)
        tail = b"[" + b",".join(rest) + b"]"
        if not closed:
            return tail
        return listed(
            "$list", group("$list", [node(b"[" + b",".join(run) + b"]") for run in closed]), tail if rest else b""
        )

    def text_of(value: Any, outermost: bool = False) -> bytes:
        if isinstance(value, str):
            text = plain_text(value)
            if len(text) < 512:
                return text
            if len(value.encode()) > 65_536:
                pieces = [node(plain_text(piece.decode())) for piece in plain_cut(value.encode())]
                return listed("$string", group("$string", pieces))
            return b'{"$node":"%s"}' % node(text).encode()
        if isinstance(value, list):
            items = [text_of(item) for item in value]
            text = b"[" + b",".join(items) + b"]"
            return text if len(text) < 1024 else joined(items)
        if isinstance(value, dict):
            members = [plain_text(key) + b":" + text_of(item) for key, item in value.items()]
            text = b"{" + b",".join(members) + b"}"
            is_tag = len(value) == 1 and next(iter(value)).startswith("$") and not next(iter(value)).startswith("$$")
            return text if len(text) < 2048 or outermost or is_tag else b'{"$node":"%s"}' % node(text).encode()
        return plain_text(value)

    return text_of(tree, outermost=True), nodes


def plain_cut(data: bytes) -> list[bytes]:
    pieces, last, at = [], 0, 1
    while at < len(data):
        at += 1
        follows = data[at : at + 1]
        if (
            at < len(data)
            and at - last >= 4096
            and data[at - 1] % 8 == 4
            and data[at - 2] % 8 == 3
            and not (follows and 0x80 <= follows[0] <= 0xBF)
            and crc32(data[at - 64 : at]) % 64 == 0
        ):
            pieces.append(data[last:at])
            last = at
        elif at - last == 65_536 and len(data) - last > 65_536:
            end = at
            while 0x80 <= data[end] <= 0xBF:
                end -= 1
            pieces.append(data[last:end])
            last = at = end
    return [*pieces, data[last:]]


def assert_shared_alike(tree: dict[str, Any]) -> None:
    sharer = Sharer()
    root = sharer.share(tree)
    plain_root, plain_nodes = plain_share(tree)
    assert root == plain_root
    assert {"sha256:" + a.hex(): text for a, text in sharer.new_nodes.items()} == plain_nodes
    assert expand(root, lambda wanted: {a: sharer.new_nodes[a] for a in wanted}) == tree


@pytest.mark.parametrize("case", list(sharing_inputs()))
def test_the_code_shares_as_the_text_says(case: str) -> None:
    assert_shared_alike(sharing_inputs()[case])


_text = st.one_of(
    st.text(max_size=20),
    st.builds(lambda unit, times: unit * times, st.text(min_size=1, max_size=4), st.integers(1, 400)),
)
_trees = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**53) + 1, 2**53 - 1), _text),
    lambda inner: st.one_of(
        st.lists(inner, max_size=12),
        st.dictionaries(_text.filter(lambda k: not k.startswith("$")), inner, max_size=6),
        st.builds(lambda value: {"$tuple": value}, st.lists(inner, max_size=5)),
    ),
    max_leaves=40,
)


@settings(max_examples=examples(150))
@given(_trees)
def test_the_code_shares_as_the_text_says_whatever_the_value(value: Any) -> None:
    assert_shared_alike({"payload": value, "name": "n"})


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from(["ab €", "😀\u0301x", "the quick brown fox jumps "]))
def test_long_texts_are_cut_as_the_text_says(seed: int, alphabet: str) -> None:
    source = random.Random(seed)
    text = "".join(source.choice(alphabet) for _ in range(source.randrange(60_000, 150_000)))
    assert_shared_alike({"payload": text})


def test_one_more_item_shares_all_earlier_parts_but_the_last() -> None:
    items = [{"role": "user", "content": f"{n}: {pseudo_text(n % 5 + 1)}"} for n in range(100)]
    _, before = plain_share({"messages": items})
    sharer = Sharer()
    sharer.share({"messages": items})
    assert len(sharer.new_nodes) == len(before)
    sharer.commit()
    sharer.share({"messages": [*items, {"role": "user", "content": "one more"}]})
    added = sum(map(len, sharer.new_nodes.values()))
    assert added < 8000 < sum(map(len, before.values()))


def test_an_insertion_into_a_long_text_moves_only_the_cuts_around_it() -> None:
    text = pseudo_text(8000)
    first, second = Sharer(), Sharer()
    first.share({"payload": text})
    second.share({"payload": text[:200_000] + "INSERTED" + text[200_000:]})
    new = [stored for address, stored in second.new_nodes.items() if address not in first.new_nodes]
    assert sum(map(len, new)) < 100_000 < len(text)


def kept_bytes(store: Store, run: str = "r1") -> int:
    nodes = sum(len(unpack(blob)) for _, blob in store.all_nodes(NS))
    return nodes + sum(len(unpack(row.content or b"\x00")) for row in rows_of(store, run))


def conversation(store: Store, turns: int) -> tuple[int, int]:
    """Bytes kept, and bytes really new, of a conversation in which every call repeats everything said before."""
    journal = begin(store)
    messages: list[Any] = []
    unique = 0
    for turn in range(turns):
        said = {"role": "user", "content": f"{turn}: {pseudo_text(turn % 7 + 1)}"}
        answer = f"answer {turn} {pseudo_text(turn % 5 + 1)}"
        messages = [*messages, said]
        journal.append(ActionRequested(f"a{turn}", {"model": "m", "messages": messages}))
        journal.append(ActionSucceeded(f"a{turn}", answer))
        messages = [*messages, {"role": "assistant", "content": answer}]
        unique += len(said["content"]) + len(answer)
    return kept_bytes(store), unique


def test_a_conversation_grows_linearly(store: Store) -> None:
    kept, unique = conversation(store, 120)
    assert kept < 6 * unique
    flat = sum(len(json.dumps(e.event.content())) for e in JournalReader(store, "r1").scan())
    assert flat > 12 * kept, "the counterpart: unshared it would be quadratic"
    assert verify_run(store, "r1", deep=True).valid


def test_twice_the_turns_take_about_twice_the_bytes() -> None:
    short, long = conversation(MemoryStore(), 100)[0], conversation(MemoryStore(), 200)[0]
    assert long < 2.6 * short


def test_two_runs_share_what_both_say(store: Store) -> None:
    text = pseudo_text(30)
    begin(store, "r1").append(StateUpdated(text))
    nodes = len(list(store.all_nodes(NS)))
    begin(store, "r2").append(StateUpdated(text))
    assert len(list(store.all_nodes(NS))) == nodes == 1
    begin(store, "r3", namespace="other").append(StateUpdated(text))
    assert len(list(store.all_nodes("other"))) == 1, "not across namespaces"


def test_values_that_came_from_one_node_are_not_one_object(store: Store) -> None:
    message = {"text": pseudo_text(12), "list": [pseudo_text(1) for _ in range(12)]}
    begin(store).append(StateUpdated([message, message]))
    payload = JournalReader(store, "r1").event(1).event.payload  # type: ignore[attr-defined]
    payload[0]["list"].append("changed")
    assert payload[1] == message


def test_expansion_is_bounded() -> None:
    """A billion laughs: thirty nodes of two references each."""
    nodes: dict[bytes, bytes] = {}

    def node(stored: bytes) -> str:
        address = hashlib.sha256(b"onrecord.node/1\0" + stored).digest()
        nodes[address] = stored
        return "sha256:" + address.hex()

    address = node(b'"' + b"ha" * 300 + b'"')
    for _ in range(30):
        address = node(b'[{"$node":"%s"},{"$node":"%s"}]' % (address.encode(), address.encode()))
    with pytest.raises(Damaged) as caught:
        expand(b'{"payload":{"$node":"%s"}}' % address.encode(), lambda wanted: {a: nodes[a] for a in wanted})
    assert caught.value.code == "too_large"


@pytest.mark.parametrize("depth", [100, 400, 950])
def test_deep_values_are_kept_and_come_back(memory: MemoryStore, depth: int) -> None:
    """The limit is 1,000 levels, shared or not."""
    value: Any = "leaf " * 200
    for _ in range(depth):
        value = [value]
    begin(memory).append(StateUpdated(value))
    back = JournalReader(memory, "r1").event(1).event.payload  # type: ignore[attr-defined]
    levels = 0
    while isinstance(back, list):
        back, levels = back[0], levels + 1
    assert (back, levels) == ("leaf " * 200, depth)
    assert verify_run(memory, "r1", deep=True).valid


@pytest.mark.parametrize("key", ["$node", "$list", "$string", "$$node", "$ref"])
def test_the_agents_own_dollar_keys_are_no_references(store: Store, key: str) -> None:
    value = {key: "sha256:" + "0" * 64}
    begin(store).append(StateUpdated([value, {key: ["x" * 1200]}]))
    assert JournalReader(store, "r1").event(1).event.payload == [value, {key: ["x" * 1200]}]  # type: ignore[attr-defined]
    assert verify_run(store, "r1", deep=True).valid


def test_a_late_append_sends_the_store_no_more_than_an_early_one(memory: MemoryStore) -> None:
    """What the run has stored already is neither sent nor looked for again, however long the conversation is."""
    journal = begin(memory)
    sent: list[int] = []
    real = memory.append

    def counted(*arguments: Any, **more: Any) -> None:
        sent.append(len(more["nodes"]))
        real(*arguments, **more)

    memory.append = counted  # type: ignore[method-assign]
    messages: list[dict[str, str]] = []
    for turn in range(150):
        messages.append({"role": "user", "content": f"{turn} " + "word " * 300})
        journal.append(StateUpdated({"messages": list(messages)}))
    assert max(sent) <= 12
    assert sum(sent[-20:]) <= sum(sent[10:30]) + 60
    for turn in range(3):
        journal.append(StateUpdated({"turn": turn, "system": {"prompt": "long " * 200, "tools": [{"name": "find"}]}}))
    assert sent[-3:] == [1, 0, 0], "a part that the run has stored is not sent again"
