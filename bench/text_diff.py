"""The difference of two long texts: what a megabyte costs must not grow with their length, whatever the texts are."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

from bench.measuring import Row, Workplace, interleaved
from reenact.replays.comparing.texts import diff_texts

MEGABYTE = 1_000_000
Texts = Callable[[int], tuple[str, str]]


def _prose(size: int, seed: int) -> list[str]:
    """Words as texts have them: a few very often, many seldom."""
    generator = random.Random(seed)
    count = size // 7
    return [f"w{int(20_000 * generator.random() ** 4)}" for _ in range(count)]


def edited(size: int) -> tuple[str, str]:
    words = _prose(size, 1)
    generator = random.Random(2)
    other = [f"new{number}" if generator.random() < 0.01 else word for number, word in enumerate(words)]
    return " ".join(words), " ".join(other)


def unrelated(size: int) -> tuple[str, str]:
    return " ".join(_prose(size, 1)), " ".join(_prose(size, 3))


def nothing_in_common(size: int) -> tuple[str, str]:
    count = size // 7
    return " ".join(f"a{n % 9000:04}" for n in range(count)), " ".join(f"b{n % 9000:04}" for n in range(count))


def one_word(size: int) -> tuple[str, str]:
    count = size // 5
    return "word " * count, "other " + "word " * (count // 2) + "end " + "word " * (count // 2 - 1)


def periodic(size: int) -> tuple[str, str]:
    return "a b c d " * (size // 8), "b c d a x " * (size // 10)


def diff_of_texts(workplace: Workplace) -> Iterator[Row]:
    small = workplace.count(MEGABYTE, least=20_000)
    cases: list[tuple[str, Texts]] = [
        ("one word in a hundred changed", edited),
        ("unrelated", unrelated),
        ("no common words", nothing_in_common),
        ("one word repeated", one_word),
        ("periodic", periodic),
    ]
    for name, texts in cases:
        one, five = texts(small), texts(5 * small)

        def act(pair: tuple[str, str]) -> Callable[[int], object]:
            return lambda _: diff_texts(*pair)

        medians, ratios = interleaved([act(one), act(five)], times=2, rounds=2)
        seconds = [median.wall_us / 1e6 for median in medians]
        yield Row(
            f"diff of two {5 * small / MEGABYTE:g} MB texts, {name}, per MB against {small / MEGABYTE:g} MB",
            f"{ratios[1] / 5:.2f} × ({seconds[1]:.2f} s; {small / MEGABYTE:g} MB {seconds[0]:.2f} s)",
            "≤ 3 ×",
            ratios[1] / 5 <= 3,
        )
