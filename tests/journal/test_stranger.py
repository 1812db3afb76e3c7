"""A stranger's verifier: docs/format.md in a page of standard library, without Onrecord.

It accepts the golden recordings and refuses what was altered.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from golden.vectors import RECORDING, VECTORS

# --- the page: nothing below knows Onrecord ---

ANSWERS = {"ActionSucceeded": "ActionRequested", "ActionFailed": "ActionRequested", "ActionDenied": "ActionRequested"}
ANSWERS |= {"Resumed": "Interrupted", "WaitResolved": "WaitCreated"}
HASH = r'"sha256:[0-9a-f]{64}"'
BESIDE = rf'"salt":(null|"[0-9a-f]{{32}}"),"match":(null|{HASH}),"hash":({HASH})'
FIRST = re.compile(rf'\{{"onrecord":"recording","format":1,"header":(.*?),{BESIDE},("erased":true|"stored":(.*))\}}')
NODE = re.compile(rf'\{{"node":({HASH}),"stored":(.*)\}}')
ARTIFACT = re.compile(rf'\{{"artifact":({HASH}),"parts":(\d+),"part":(\d+),"base64":"([^"]*)"\}}')
CONTENT = re.compile(r'\{"seq":(\d+),"kind":"([A-Za-z]{1,64})",("erased":true|"stored":(.*))\}')
LINK = re.compile(rf'\{{"link":(.*?),{BESIDE}\}}')
END = re.compile(rf'\{{"end":\{{"events":(\d+),"head":({HASH})\}}\}}')
MEMBERS = {"run", "seq", "id", "kind", "time", "lane", "key", "parent", "prev", "content"}


def refuse(seq: int, why: str) -> None:
    raise ValueError(f"seq {seq}: {why}")


def digest(tag: str, data: bytes) -> str:
    return '"sha256:' + hashlib.sha256(f"onrecord.{tag}/1".encode() + b"\0" + data).hexdigest() + '"'


def commitment(salt: str, match: str, stored: str) -> str:
    return digest("commit", bytes.fromhex(salt.strip('"')) + bytes.fromhex(match.strip('"')[7:]) + stored.encode())


def parsed(text: str | None, seq: int) -> object:
    try:
        return json.loads(text) if text else None
    except ValueError:
        return refuse(seq, "not JSON")


def canonical(text: str, seq: int) -> dict:
    record = parsed(text, seq)  # members are text, integers, null and one object of those: RFC 8785 is sorted keys
    if json.dumps(record, sort_keys=True, separators=(",", ":"), ensure_ascii=False) != text:
        refuse(seq, "not canonical")
    return record


def needs(value: object) -> list[str]:
    if isinstance(value, dict) and len(value) == 1:
        ((name, target),) = value.items()
        if name == "$node":
            return [f'"{target}"']
        if name in ("$list", "$string"):
            tail = target[-1] if name == "$list" and isinstance(target[-1], list) else []
            return [f'"{address}"' for address in target if isinstance(address, str)] + needs(tail)
        if name == "$artifact":
            return [f'"{target["digest"]}"']
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [address for item in inner for address in needs(item)]


def verify(data: bytes) -> tuple[int, str]:
    """(last seq, head) of a file that holds; ValueError naming the seq of the first thing that does not (0: header)."""
    text = data.decode()
    if not text.endswith("\n") or text.startswith("\ufeff"):
        refuse(0, "not whole lines")
    lines = iter(text[:-1].split("\n"))
    first = FIRST.fullmatch(next(lines)) or refuse(0, "no header")
    header, salt, match, head, erased, stored = first.groups()
    run = canonical(header, 0)
    if digest("header", header.encode()) != head or run["format"] != "onrecord/1":
        refuse(0, "the header does not match its hash")
    if erased == '"erased":true':
        if (salt, match) != ("null", "null"):
            refuse(0, "half erased")
    elif "null" in (salt, match) or commitment(salt, match, stored) != f'"{run["content"]}"':
        refuse(0, "the facts do not match the header")
    given, used, contents = {}, set(needs(parsed(stored, 0))), []
    for line in lines:
        seq = len(contents) + 1
        if found := NODE.fullmatch(line):
            address, node = found.groups()
            wanted = needs(parsed(node, seq))
            if address in given or digest("node", node.encode()) != address or set(wanted) - set(given):
                refuse(seq, "a node is wrong or out of order")
            given[address] = True
            used.update(wanted)
        elif found := ARTIFACT.fullmatch(line):
            address, parts, part = found[1], int(found[2]), int(found[3])
            piece = base64.b64decode(found[4], validate=True)
            so_far, expected_parts = given.get(address, (b"", parts)) if part else (b"", parts)
            if base64.b64encode(piece).decode() != found[4] or parts != expected_parts or part >= parts:
                refuse(seq, "an artifact's part is wrong")
            given[address] = (so_far + piece, parts)
            if part == parts - 1 and digest("artifact", so_far + piece) != address:
                refuse(seq, "an artifact is wrong")
        elif found := CONTENT.fullmatch(line):
            if int(found[1]) != seq or found[1] != str(seq):
                refuse(seq, "a content is missing or out of order")
            wanted = needs(parsed(found[4], seq))
            if set(wanted) - set(given):
                refuse(seq, "a node is missing")
            used.update(wanted)
            contents.append(found.groups())
        else:
            break
    else:
        refuse(len(contents) + 1, "the file is cut short")
    if used != set(given):
        refuse(len(contents), "nodes or artifacts are missing, or too many")
    ids, opened, ended = set(), {}, False
    for seq, (_, kind, erased, stored) in enumerate(contents, 1):
        found = LINK.fullmatch(line) or refuse(seq, "its link is missing")
        link_text, salt, match, link_hash = found.groups()
        link = canonical(link_text, seq)
        if set(link) != MEMBERS or (link["seq"], link["run"], link["kind"]) != (seq, run["run"], kind):
            refuse(seq, "the link is of another event")
        if f'"{link["prev"]}"' != head or digest("link", link_text.encode()) != link_hash:
            refuse(seq, "the chain is broken")
        if erased == '"erased":true':
            if (salt, match) != ("null", "null"):
                refuse(seq, "half erased")
        elif "null" in (salt, match) or commitment(salt, match, stored) != f'"{link["content"]}"':
            refuse(seq, "the content does not match the link")
        parent = link["parent"]
        if link["id"] in ids or ended or (parent is not None and not 1 <= parent < seq):
            refuse(seq, "its id, its parent or its place cannot be")
        answers = kind in ANSWERS and (parent is not None or kind != "ActionDenied")
        if answers and opened.pop(parent, None) != ANSWERS[kind]:
            refuse(seq, "it answers nothing that is open")
        if kind in ANSWERS.values():
            opened[seq] = kind
        ids.add(link["id"])
        head, ended, line = link_hash, kind in ("Completed", "Failed", "Cancelled"), next(lines, "")
    end = END.fullmatch(line) or refuse(len(contents), "the end line is missing")
    if end[1] != str(len(contents)) or end[2] != head:
        refuse(len(contents), "the end line speaks of another head")
    if not all(line.startswith('{"note":') and json.loads(line) for line in lines):
        refuse(len(contents), "something follows the end")
    return len(contents), head.strip('"')


# --- the tests ---

GOLDEN = RECORDING.read_bytes()
LINES = GOLDEN.split(b"\n")[:-1]
CONTENT_LINES = {json.loads(line)["seq"]: i for i, line in enumerate(LINES) if line.startswith(b'{"seq":')}
LINK_LINES = {json.loads(line)["link"]["seq"]: i for i, line in enumerate(LINES) if line.startswith(b'{"link":')}
PINNED = json.loads(VECTORS.read_text(encoding="utf-8"))


def joined(lines: list[bytes]) -> bytes:
    return b"".join(line + b"\n" for line in lines)


def test_the_page_knows_nothing_of_onrecord() -> None:
    page = Path(__file__).read_text(encoding="utf-8").split("# --- the page")[1].split("# --- the tests")[0]
    assert "import" not in page
    assert "onrecord." in page, "but for the tags"
    assert page.count("\n") < 140


def test_a_stranger_accepts_the_golden_recordings() -> None:
    seq, head = verify(GOLDEN)
    assert seq == 45
    assert LINES[-1] == b'{"end":{"events":45,"head":"%s"}}' % head.encode()
    for name, lines in PINNED["recordings"].items():
        end = json.loads(PINNED["heads"][name])["end"]
        assert verify("".join(f"{line}\n" for line in lines).encode()) == (end["events"], end["head"])


def test_a_stranger_and_onrecord_agree_on_erased_and_shared_contents(memory) -> None:
    from kit.journals import begin, call, export
    from onrecord.core.events import Completed, StateUpdated
    from onrecord.journal.erasure import erase_value

    begin(memory, facts={"agent": "Ada Lovelace"}).append(
        [*call(1, ["Ada Lovelace", "x" * 3000], bytes(70_001)), StateUpdated(["y" * 1200] * 30), Completed()]
    )
    assert verify(export(memory))[0] == 4
    erase_value(memory, "Ada Lovelace", reason="asked for")
    assert verify(export(memory))[0] == 4


Mutation = Callable[[list[bytes], int], list[bytes]]


def _content_bit(lines: list[bytes], seq: int) -> list[bytes]:
    at = CONTENT_LINES[seq]
    lines[at] = lines[at][:-3] + bytes([lines[at][-3] ^ 1]) + lines[at][-2:]
    return lines


def _link_bit(lines: list[bytes], seq: int) -> list[bytes]:
    at = LINK_LINES[seq]
    lines[at] = lines[at].replace(b'"time":1', b'"time":2')
    return lines


def _swap_links(lines: list[bytes], seq: int) -> list[bytes]:
    one, two = LINK_LINES[seq], LINK_LINES[seq + 1]
    lines[one], lines[two] = lines[two], lines[one]
    return lines


def _swap_contents(lines: list[bytes], seq: int) -> list[bytes]:
    one, two = CONTENT_LINES[seq], CONTENT_LINES[seq + 1]
    lines[one], lines[two] = lines[two], lines[one]
    return lines


def _drop(lines: list[bytes], seq: int) -> list[bytes]:
    gone = {CONTENT_LINES[seq], LINK_LINES[seq]}
    return [line for number, line in enumerate(lines) if number not in gone]


def _drop_link(lines: list[bytes], seq: int) -> list[bytes]:
    return [line for number, line in enumerate(lines) if number != LINK_LINES[seq]]


def _duplicate(lines: list[bytes], seq: int) -> list[bytes]:
    """The event before once more in this one's place."""
    lines.insert(LINK_LINES[seq], lines[LINK_LINES[seq - 1]])
    lines.insert(CONTENT_LINES[seq], lines[CONTENT_LINES[seq - 1]])
    return lines


def _salt(lines: list[bytes], seq: int) -> list[bytes]:
    at = LINK_LINES[seq]
    lines[at] = re.sub(rb'"salt":"(.)', lambda m: b'"salt":"' + (b"0" if m[1] != b"0" else b"1"), lines[at])
    return lines


def _claim_erased(lines: list[bytes], seq: int) -> list[bytes]:
    """The content called erased, salt and match left: a half measure is refused."""
    at = CONTENT_LINES[seq]
    lines[at] = lines[at].split(b'"stored":')[0] + b'"erased":true}'
    return lines


MUTATIONS: dict[str, tuple[Mutation, list[int]]] = {
    "a bit of a content": (_content_bit, [1, 3, 7, 45]),
    "a digit of a link": (_link_bit, [1, 2, 12, 45]),
    "a salt": (_salt, [1, 9, 45]),
    "two links swapped": (_swap_links, [1, 12, 21]),
    "two contents swapped": (_swap_contents, [1, 12, 21]),
    "an event dropped": (_drop, [1, 2, 13, 21]),
    "a link dropped": (_drop_link, [1, 13, 21]),
    "an event doubled": (_duplicate, [2, 13]),
    "called erased": (_claim_erased, [1, 13, 45]),
}


@pytest.mark.parametrize(("name", "seq"), [(name, seq) for name, (_, seqs) in MUTATIONS.items() for seq in seqs])
def test_a_stranger_refuses_and_names_the_seq(name: str, seq: int) -> None:
    mutated = joined(MUTATIONS[name][0](list(LINES), seq))
    assert mutated != GOLDEN
    with pytest.raises(ValueError, match=rf"^seq {seq}:"):
        verify(mutated)


def test_a_stranger_refuses_the_tail_of_another_run() -> None:
    from golden.vectors import FixedSources, _export, golden_run
    from onrecord.store.memory import MemoryStore

    store = MemoryStore()
    golden_run(store, "golden-2", FixedSources("other"))
    other = _export(store, "golden-2").split(b"\n")[:-1]
    for seq in (1, 5, 45):
        spliced = [*LINES[: LINK_LINES[seq]], *other[LINK_LINES[seq] :]]
        with pytest.raises(ValueError, match=rf"^seq {seq}:"):
            verify(joined(spliced))


def test_a_stranger_refuses_every_truncation() -> None:
    for cut in range(0, len(GOLDEN), 7):
        with pytest.raises((ValueError, StopIteration)):
            verify(GOLDEN[:cut])
    for lines in range(len(LINES)):
        with pytest.raises((ValueError, StopIteration)):
            verify(joined(LINES[:lines]))
