"""Cuts of long lists, address lists, strings and bytes (docs/format.md, sections 5.1 to 5.4).

A cut depends only on nearby content, so that an insertion moves only the cuts near it and the other pieces are shared.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise
from zlib import crc32

from onrecord.core.lazy_regex import Pattern

RUN_MIN_BYTES = 256
RUN_MAX_BYTES = 4096
RUN_MODULUS = 512
GROUP_MIN = 2
GROUP_MAX = 16
GROUP_MODULUS = 2
CUT_FROM_BYTES = 65_536
CUT_MIN_BYTES = 4_096
CUT_WINDOW_BYTES = 64
CUT_MODULUS = 64


def _candidates(end: bytes) -> Pattern[bytes]:
    """Return the pattern of two bytes after which a cut is possible: the first is 3 modulo 8, the second 4."""
    first, second = (b"".join(re.escape(bytes([b])) for b in range(rest, 256, 8)) for rest in (3, 4))
    return Pattern(b"[" + first + b"][" + second + b"]" + end)


_TEXT_CUT = _candidates(b"(?![\x80-\xbf])")
_BYTES_CUT = _candidates(b"")


def split_items(items: Sequence[bytes]) -> tuple[list[list[bytes]], list[bytes]]:
    """Split items into runs. Return the closed runs, and the items of the open run at the end."""
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
    return runs, run


def group_addresses(addresses: Iterable[bytes]) -> tuple[list[list[bytes]], list[bytes]]:
    """Group addresses. Return the closed groups, and the addresses of the open group at the end."""
    groups: list[list[bytes]] = []
    group: list[bytes] = []
    for address in addresses:
        group.append(address)
        if len(group) >= GROUP_MIN and (address[-1] % GROUP_MODULUS == 0 or len(group) == GROUP_MAX):
            groups.append(group)
            group = []
    return groups, group


def cut_text(data: bytes) -> list[bytes]:
    """Cut UTF-8 text between characters."""
    return _cut(data, _TEXT_CUT, is_text=True)


def cut_bytes(data: bytes) -> list[bytes]:
    return _cut(data, _BYTES_CUT, is_text=False)


def _cut(data: bytes, candidates: Pattern[bytes], *, is_text: bool) -> list[bytes]:
    cuts: list[int] = []
    last = 0

    def force(end: int) -> None:
        nonlocal last
        while end - last > CUT_FROM_BYTES:
            last += CUT_FROM_BYTES
            while is_text and data[last] & 0xC0 == 0x80:
                last -= 1
            cuts.append(last)

    for candidate in candidates.finditer(data):
        end = candidate.end()
        force(end)
        if end - last < CUT_MIN_BYTES or end == len(data):
            continue
        if crc32(data[end - CUT_WINDOW_BYTES : end]) % CUT_MODULUS == 0:
            cuts.append(end)
            last = end
    force(len(data))
    return [data[start:stop] for start, stop in pairwise([0, *cuts, len(data)])]
