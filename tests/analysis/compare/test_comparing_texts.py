"""The difference of two texts: true for every input, short for ordinary ones, and never costly."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onrecord.analysis.compare import sequence_alignment as alignment
from onrecord.analysis.compare.texts import TextDiff, diff_texts

TEXTS = st.text(alphabet="ab \n.1é漢字", max_size=80) | st.text(max_size=40)


def told(diff: TextDiff) -> str:
    marks = {"equal": "{}", "removed": "[-{}-]", "added": "[+{}+]"}
    return "".join(marks[run.kind].format(run.text) for run in diff.runs)


@pytest.mark.parametrize(
    ("expected", "actual", "runs"),
    [
        ("", "", ""),
        ("the same", "the same", "the same"),
        ("", "new", "[+new+]"),
        ("old", "", "[-old-]"),
        ("the cat sat", "the dog sat", "the [-cat-][+dog+] sat"),
        ("a cat sat", "the dog sat", "[-a cat-][+the dog+] sat"),
        ("it costs 5 EUR.", "it costs 7 EUR.", "it costs [-5-][+7+] EUR."),
        ("one three", "one two three", "one [+two +]three"),
        ("価格は五円", "価格は七円", "価格は[-五-][+七+]円"),
        ("first\nsecond", "first\n\nsecond", "first[-\n-][+\n\n+]second"),
    ],
)
def test_words_that_changed_are_told(expected: str, actual: str, runs: str) -> None:
    assert told(diff_texts(expected, actual)) == runs


def test_lines_that_changed_are_told() -> None:
    diff = diff_texts("one\ntwo\nthree\n", "one\n2\nthree\nfour\n", by="lines")
    assert told(diff) == "one\n[-two\n-][+2\n+]three\n[+four\n+]"
    assert diff.to_data()["runs"][0] == {"kind": "equal", "text": "one\n"}
    assert not diff.equal


@given(TEXTS, TEXTS, st.sampled_from(["words", "lines"]))
def test_the_runs_are_both_texts_to_the_character(expected: str, actual: str, by: str) -> None:
    diff = diff_texts(expected, actual, by="lines" if by == "lines" else "words")
    assert diff.expected == expected
    assert diff.actual == actual
    assert diff.equal == (expected == actual)
    assert all(run.text for run in diff.runs)
    kinds = [run.kind for run in diff.runs]
    assert all(kinds[n] != kinds[n + 1] for n in range(len(kinds) - 1))


MANY = 30_000


@pytest.mark.parametrize(
    ("expected", "actual"),
    [
        (" ".join(f"a{n}" for n in range(MANY)), " ".join(f"b{n}" for n in range(MANY))),
        ("word " * MANY, "other " + "word " * (MANY // 2)),
        ("a b c d " * MANY, "b c d a x " * MANY),
        (" ".join(map(str, range(MANY))), " ".join(map(str, range(MANY - 1, -1, -1)))),
        ("\n" * MANY, " \n" * MANY),
        ("x" * MANY, "x" * (MANY + 1)),
        ("x y " * MANY, "y y x " * MANY),
    ],
    ids=["nothing in common", "one word", "periodic", "reversed", "blank lines", "one long word", "two words"],
)
def test_hostile_texts_cost_a_bounded_number_of_steps_for_each_word(
    expected: str, actual: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    searched = 0
    step = alignment._step

    def counting(reached: dict[int, int], diagonal: int, changes: int) -> int:
        nonlocal searched
        searched += 1
        return step(reached, diagonal, changes)

    monkeypatch.setattr(alignment, "_step", counting)
    diff = diff_texts(expected, actual)
    assert diff.expected == expected
    assert diff.actual == actual
    assert searched <= 40 * (len(expected) + len(actual)) + 5000


def test_a_phrase_that_repeats_words_is_still_found_in_a_long_text() -> None:
    words = [f"w{n * n % 97}" for n in range(3000)] + [f"v{n * n * n % 89}" for n in range(3000)]
    moved = [*words[:2000], "here", "it", "is", *words[2000:]]
    assert told(diff_texts(" ".join(words), " ".join(moved))).count("[") == 1
