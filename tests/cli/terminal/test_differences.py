"""`onrecord diff` on a terminal: beside each other or one under the other, and where they part is in view."""

from __future__ import annotations

from kit.cli import asking, onrecord, record
from kit.terminal import Terminal, shown
from onrecord.core.events import Completed, StateUpdated

PROMPT = [f"Rule {number}: be kind to everybody who asks." for number in range(60)]


def two_runs() -> None:
    other = [*PROMPT]
    other[30] = other[30].replace("kind", "brief")
    record("one", [*asking("\n".join(PROMPT), "yes"), Completed()])
    record("two", [*asking("\n".join(other), "no"), Completed()])


def test_two_columns_where_there_is_room() -> None:
    two_runs()
    lines = shown("diff", "one", "two", columns=120, status=1).screen
    (changed,) = [line for line in lines if "≠" in line]
    left, right = changed.split("≠")
    assert "Rule 30: be kind" in left
    assert "Rule 30: be brief" in right
    beside = next(line for line in lines if line.count("Rule 29:") == 2)
    assert beside.index("│") == changed.index("≠"), "in the same column"
    assert not any("Rule 10:" in line for line in lines), "far from any difference"


def test_one_under_the_other_where_there_is_none() -> None:
    two_runs()
    lines = shown("diff", "one", "two", columns=60, status=1).screen
    at = next(number for number, line in enumerate(lines) if line.startswith("- ") and "Rule 30" in line)
    assert lines[at + 1].startswith("+ ")
    assert "brief" in lines[at + 1]
    assert max(map(len, lines)) <= 60


def test_the_words_that_differ_are_marked_in_colour_and_without() -> None:
    two_runs()
    coloured = shown("diff", "one", "two", columns=120, status=1).written
    assert "\x1b[31m\x1b[9mkind\x1b[0m" in coloured
    assert "\x1b[32m\x1b[1mbrief\x1b[0m" in coloured
    plain = shown("diff", "one", "two", columns=120, status=1, env={"NO_COLOR": "1"}).text
    assert "be [-kind-] to" in plain
    assert "be {+brief+} to" in plain


def test_where_they_part_is_in_view_however_much_differs() -> None:
    record("one", [*asking("\n".join(PROMPT), "yes"), *(StateUpdated(payload=n) for n in range(50)), Completed()])
    record("two", [*asking("else\n" * 40, "no"), *(StateUpdated(payload=-n - 1) for n in range(50)), Completed()])
    for columns in (60, 120):
        with Terminal("diff", "one", "two", "--limit", "100", columns=columns, rows=24) as terminal:
            assert terminal.end() == 1
            assert "first divergence" in terminal.text, "it has scrolled away"
            assert "seq 1 ActionRequested" in terminal.text


def test_it_is_marked_among_the_changes() -> None:
    two_runs()
    marked = [
        line for line in shown("diff", "one", "two", columns=120, status=1).screen if line.startswith("▶  changed")
    ]
    assert len(marked) == 1
    assert "1 ActionRequested" in marked[0]


def test_it_is_marked_where_each_run_did_something_else() -> None:
    record("one", [*asking("Where?", "there"), Completed(output="done")])
    record("two", [StateUpdated(payload={"turn": 1}), Completed(output="done")])
    lines = shown("diff", "one", "two", columns=120, status=1).screen
    marked = [line for line in lines if line.startswith("▶") and "divergence" not in line]
    assert len(marked) == 1
    assert "1 ActionRequested" in marked[0]


def test_everything_is_shown_when_asked_for() -> None:
    record("one", [*asking("\n".join(PROMPT), "yes"), Completed()])
    record("two", [*asking("\n".join(line.upper() for line in PROMPT), "yes"), Completed()])
    short = shown("diff", "one", "two", columns=120, rows=30, status=1)
    assert "more lines of this event" in short.text
    whole = onrecord("diff", "one", "two", "--full").stdout
    assert all(line.upper() in whole.replace("{+", "").replace("+}", "") for line in PROMPT)


def test_a_run_that_ends_earlier_has_nothing_beside_it() -> None:
    record("one")
    record("two", asking("2+2?", "the answer is 4"))
    text = shown("diff", "one", "two", columns=120, status=1).text
    assert "two  nothing" in text
    assert "null" not in text


def test_what_was_erased_is_said_to_be() -> None:
    record("one", [*asking("a secret", "yes"), Completed()])
    record("two", [*asking("another", "yes"), Completed()])
    assert onrecord("erase", "--value", "a secret", "--yes").exit_code == 0
    text = onrecord("diff", "one", "two").stdout
    assert "(erased)" in text


def test_huge_and_odd_contents() -> None:
    long = "x" * 300_000
    record("one", [*asking(f"{long}a{long}", {"": None, "deep": [[[[]]]]}), Completed()])
    record("two", [*asking(f"{long}b{long}", {"": 0.0, "deep": [[[{}]]]}), Completed()])
    result = onrecord("diff", "one", "two")
    assert result.exit_code == 1
    assert len(result.stdout) < 60_000, "only what is around the difference is shown"
