"""Measure the comparison of two long texts: the cost of a megabyte must not grow with the length of any texts."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

from bench.measurement import Row, Workplace, measure_interleaved
from onrecord.analysis.compare.texts import diff_texts

MEGABYTE = 1_000_000
Texts = Callable[[int], tuple[str, str]]


def _make_prose(size: int, seed: int) -> list[str]:
    """Return words with a natural distribution: a few very often, many rarely."""
    generator = random.Random(seed)
    count = size // 7
    return [f"w{int(20_000 * generator.random() ** 4)}" for _ in range(count)]


def make_edited(size: int) -> tuple[str, str]:
    words = _make_prose(size, 1)
    generator = random.Random(2)
    other = [f"new{number}" if generator.random() < 0.01 else word for number, word in enumerate(words)]
    return " ".join(words), " ".join(other)


def make_unrelated(size: int) -> tuple[str, str]:
    return " ".join(_make_prose(size, 1)), " ".join(_make_prose(size, 3))


def make_disjoint(size: int) -> tuple[str, str]:
    count = size // 7
    return " ".join(f"a{n % 9000:04}" for n in range(count)), " ".join(f"b{n % 9000:04}" for n in range(count))


def make_repeated_word(size: int) -> tuple[str, str]:
    count = size // 5
    return "word " * count, "other " + "word " * (count // 2) + "end " + "word " * (count // 2 - 1)


def make_periodic(size: int) -> tuple[str, str]:
    return "a b c d " * (size // 8), "b c d a x " * (size // 10)


def measure_text_diff(workplace: Workplace) -> Iterator[Row]:
    small = workplace.count(MEGABYTE, least=20_000)
    cases: list[tuple[str, Texts]] = [
        ("one word in a hundred changed", make_edited),
        ("unrelated", make_unrelated),
        ("no common words", make_disjoint),
        ("one word repeated", make_repeated_word),
        ("periodic", make_periodic),
    ]
    for name, texts in cases:
        one, five = texts(small), texts(5 * small)

        def act(pair: tuple[str, str]) -> Callable[[int], object]:
            return lambda _: diff_texts(*pair)

        medians, ratios = measure_interleaved([act(one), act(five)], times=2, rounds=2)
        seconds = [median.wall_us / 1e6 for median in medians]
        yield Row(
            f"diff of two {5 * small / MEGABYTE:g} MB texts, {name}, per MB against {small / MEGABYTE:g} MB",
            f"{ratios[1] / 5:.2f} × ({seconds[1]:.2f} s; {small / MEGABYTE:g} MB {seconds[0]:.2f} s)",
            "≤ 3 ×",
            ratios[1] / 5 <= 3,
        )
