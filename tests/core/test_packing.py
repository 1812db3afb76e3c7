"""Kept bytes: what is packed comes back, whoever packed it, and no damaged bit goes unseen."""

from __future__ import annotations

import hashlib
import os
import threading

import pytest

from onrecord.core.packing import pack, unpack
from onrecord.core.packing_dictionary import DICTIONARY
from onrecord.errors import Damaged

ANSWER = (
    b'{"action_id":"0/POST api.example.com/v1/chat/completions/0","output":{"status":200,"reason":"OK","version":'
    b'"HTTP/1.1","headers":[["Content-Type","application/json"],["Content-Length","349"]],"body":{"json":{"id":"c",'
    b'"object":"chat.completion","created":1,"model":"some-model","choices":[{"index":0,"message":{"role":"assistant",'
    b'"content":"It is on its way."},"finish_reason":"stop"}],"usage":{"prompt_tokens":10,"completion_tokens":2,'
    b'"total_tokens":12}},"style":"python"}}}'
)
OF_AN_EARLIER_VERSION = bytes.fromhex(
    "01d15249ce0e3223d3338fa787d5886ec8318026c5fdd30eda7ee70822c7ddecce28b52ffd603b0085010084025b2261206672616d65206f66"
    "20616e206561726c6965722076657273696f6e222c22776f7264315d010086905a9e"
)


@pytest.mark.parametrize(
    ("stored", "marker"),
    [
        (b"", 0),
        (b"x" * 199, 0),
        (b"{word " * 80, 0),
        (b"word " * 100, 3),
        (ANSWER, 3),
        (b"word " * 128, 2),
        (ANSWER * 2, 2),
        (ANSWER * 20, 1),
        (ANSWER * 5000, 1),
    ],
    ids=lambda value: str(len(value)) if type(value) is bytes else str(value),
)
def test_what_is_packed_comes_back(stored: bytes, marker: int) -> None:
    blob = pack(stored)
    assert unpack(blob) == stored
    assert blob[0] == marker


def test_a_usual_answer_takes_a_third() -> None:
    assert len(pack(ANSWER)) < len(ANSWER) / 3


def test_what_does_not_get_smaller_is_kept_as_it_is() -> None:
    for noise in (os.urandom(1000), os.urandom(10_000), b'"headers":' + os.urandom(400)):
        assert pack(noise) == b"\x00" + noise


def test_a_frame_of_an_earlier_version_is_read() -> None:
    assert unpack(OF_AN_EARLIER_VERSION) == b'["a frame of an earlier version",' + b'"word",' * 40 + b"1]"


def test_the_dictionary_is_a_part_of_the_format() -> None:
    digest = hashlib.sha256(DICTIONARY).hexdigest()
    assert digest == "24ae576869d2eec5d5ccebe3d7d9442542512de546e504b100727ff9f9677e9b", "packed bytes need the old one"


@pytest.mark.parametrize(
    "blob", [pack(ANSWER), pack(ANSWER * 2), OF_AN_EARLIER_VERSION], ids=["deflated", "dictionary", "alone"]
)
def test_no_bit_is_flipped_and_no_byte_lost_unseen(blob: bytes) -> None:
    stored = unpack(blob)
    for bit in range(8, 8 * len(blob)):
        altered = bytearray(blob)
        altered[bit // 8] ^= 1 << bit % 8
        with pytest.raises(Damaged):
            unpack(bytes(altered))
    for length in range(len(blob)):
        with pytest.raises(Damaged):
            unpack(blob[:length])
    for marker in set(range(1, 256)) - {blob[0]}:
        with pytest.raises(Damaged):
            unpack(bytes([marker]) + blob[1:])
    assert unpack(blob) == stored


def test_a_frame_that_holds_more_than_the_limit_is_refused() -> None:
    for size in (500, 5_000, 100_000):
        blob = pack(b'"headers":' + bytes(size - 10))
        assert len(blob) < 100
        assert len(unpack(blob, limit=size)) == size
        with pytest.raises(Damaged, match="more than the limit"):
            unpack(blob, limit=size - 1)


def test_threads_pack_side_by_side() -> None:
    found: list[bool] = []

    def packing(number: int) -> None:
        for turn in range(200):
            stored = ANSWER * (turn % 20) + b"%d %d" % (number, turn)
            if unpack(pack(stored)) != stored:
                return
        found.append(True)

    threads = [threading.Thread(target=packing, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [True] * 8
