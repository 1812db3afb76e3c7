"""How little SQLite keeps of an event, and that all of it comes back."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from kit.paths import ROOT
from onrecord import ActionRequested, ActionSucceeded, Completed, Journal, open_store
from onrecord.core.events import SignalReceived
from onrecord.core.links import write_link
from onrecord.journal.chain import Draft
from onrecord.journal.verify import verify_run
from onrecord.store.contract import EventRow
from onrecord.store.sqlite.short_links import restore_row, shorten_row

RUN = "21e13a214b0ff1cf47d3"
TIME, SEQ = 1794830288367815, 300
MADE_ID = f"_{TIME:x}{'0af3' * 5}_{SEQ:x}"
CONTENT, PREV = bytes(range(32)), bytes(range(32, 64))


def row(link: bytes, event_id: str = MADE_ID) -> EventRow:
    return EventRow(SEQ, event_id, "Completed", "main>a", 7, link, b"h" * 32, b"s" * 16, b"m" * 32, None, b"\x00{}")


def link(event_id: str = MADE_ID, key: str | None = None, parent: int | None = 7, time: int = TIME) -> bytes:
    return write_link(CONTENT, event_id, key, "Completed", "main>a", parent, PREV, RUN, SEQ, time)


USUAL = {
    "made": row(link()),
    "with a key": row(link(key="main/POST 127.0.0.1:8000/v1/chat/completions/7", parent=None)),
    "with an empty key": row(link(key="")),
    "with a key in any script": row(link(key='ключ "quoted"\n\x7f')),
    "with an id of somebody's own": row(link("order-7"), "order-7"),
    "with an id of another time": row(link(time=1)),
    "with an id in upper case": row(link(MADE_ID.upper()), MADE_ID.upper()),
    "with the shortest id": row(link("_"), "_"),
}
ODD = {
    "of another run": row(link().replace(RUN.encode(), b"another")),
    "of another seq": row(link().replace(b'"seq":300', b'"seq":301')),
    "another id": row(link("other")),
    "parent 0": row(link(parent=0)),
    "large parent": row(link(parent=1 << 40)),
    "a time before all": row(link(time=-1)),
    "spaces": row(link().replace(b",", b", ")),
    "upper case": row(link().replace(CONTENT.hex().encode(), CONTENT.hex().upper().encode())),
    "a short hash": row(link().replace(CONTENT.hex().encode(), CONTENT.hex().encode()[2:])),
    "another hash": row(link().replace(b"sha256", b"sha512")),
    "no object": row(b"[]"),
    "no JSON": row(b"{"),
    "nothing": row(b""),
    "surrogates": row(link(key="x").replace(b'"x"', b'"\\ud800"')),
    **{f"begins with {first}": row(bytes([first]) + bytes(120)) for first in range(10)},
    **{f"begins with {first} alone": row(bytes([first])) for first in range(10)},
}


@pytest.mark.parametrize("name", USUAL)
def test_a_usual_link_is_kept_short_and_comes_back(name: str) -> None:
    columns = shorten_row(RUN, USUAL[name])
    assert restore_row(RUN, columns) == USUAL[name]
    assert len(columns[5]) < 140 < len(USUAL[name].link)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ODD)
def test_any_other_link_comes_back_as_well(name: str) -> None:
    columns = shorten_row(RUN, ODD[name])
    assert restore_row(RUN, columns) == ODD[name]


def test_no_bit_of_a_short_link_is_flipped_and_no_byte_lost_unseen() -> None:
    """Whatever comes out is another link or another id."""
    for event in USUAL.values():
        columns = shorten_row(RUN, event)
        short = columns[5]
        assert isinstance(short, bytes)
        altered = [short[:length] for length in range(len(short))] + [short + b"x"]
        for bit in range(8 * len(short)):
            flipped = bytearray(short)
            flipped[bit // 8] ^= 1 << bit % 8
            altered.append(bytes(flipped))
        for other in altered:
            found = restore_row(RUN, (*columns[:5], other, *columns[6:]))
            assert found.link != event.link


def test_what_a_conversation_takes(tmp_path: Path) -> None:
    """50 turns of a kilobyte, each call sending all that was said before, as a recorded program's HTTP calls."""
    source, messages = random.Random(1), []
    words = (ROOT / "LICENSE").read_text().lower().split()
    store = open_store(f"sqlite:///{tmp_path / 'store.db'}")
    journal = Journal.create(store)
    name = "POST 127.0.0.1:8000/v1/chat/completions"
    for turn in range(50):
        messages.append({"role": "user", "content": " ".join(source.choices(words, k=170))[:1024]})
        headers = {"accept": "*/*", "content-type": "application/json"}
        body = {"json": {"model": "gpt-4o-mini", "messages": list(messages)}}
        request = {"method": "POST", "url": "http://127.0.0.1:8000/v1/chat/completions", "headers": headers}
        asked = ActionRequested(action_id=f"main/{name}/{turn}", payload={**request, "body": body}, name=name)
        journal.append(Draft(asked, key=f"main/{name}/{turn}"), sync=False)
        messages.append({"role": "assistant", "content": f"{turn}: " + "fine, go on. " * 7})
        answer = {"id": "c", "object": "chat.completion", "choices": [{"index": 0, "message": messages[-1]}]}
        output = {"status": 200, "headers": [["Content-Type", "application/json"]], "body": {"json": answer}}
        journal.append(ActionSucceeded(action_id=f"main/{name}/{turn}", output=output), sync=False)
    journal.append([SignalReceived("end", None), Completed()])
    assert verify_run(store, journal.run, deep=True).valid
    store.close()
    taken = sum(file.stat().st_size for file in tmp_path.iterdir() if file.is_file())
    assert taken < 150_000
