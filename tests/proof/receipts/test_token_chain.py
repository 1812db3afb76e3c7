"""Receipts of a flow belong together: one that is missing, moved or doubled is named."""

from __future__ import annotations

import json

import pytest

from kit.receipts import built, chained
from onrecord.errors import Damaged
from onrecord.proof.receipts import ReplayToken, check_chain


def codes(tokens: list[ReplayToken], **more: str) -> list[tuple[int, str]]:
    return [(problem.at, problem.code) for problem in check_chain(tokens, **more).problems]


def test_a_whole_chain_is_whole() -> None:
    report = check_chain(chained(1, 2, 3))
    assert report.whole
    assert str(report) == "3 receipts in order, nothing later to compare with"


@pytest.mark.parametrize("gone", range(3))
def test_a_receipt_that_was_taken_away_is_missed(gone: int) -> None:
    tokens = chained(1, 2, 3, 4)
    del tokens[gone]
    assert codes(tokens) == [(gone, "missing_receipt")]


def test_one_that_was_taken_away_at_the_end_is_missed_by_who_knows_the_last() -> None:
    tokens = chained(1, 2, 3)
    assert check_chain(tokens[:2]).open_ended, "otherwise nobody can tell, and the report says so"
    assert codes(tokens[:2], last=tokens[2].token_hash) == [(2, "missing_receipt")]
    assert codes(tokens, last=tokens[2].token_hash) == []


def test_a_reordered_chain_is_named() -> None:
    one, two, three = chained(1, 2, 3)
    assert (1, "reordered_receipt") in codes([one, three, two])
    assert codes([two, one, three])[0] == (0, "reordered_receipt")
    assert {code for _, code in codes([three, two, one])} == {"reordered_receipt"}


def test_a_doubled_receipt_is_named() -> None:
    one, two, three = chained(1, 2, 3)
    assert codes([one, two, two, three]) == [(2, "duplicate_receipt")]
    assert codes([one, two, three, one]) == [(3, "duplicate_receipt")]


def test_a_receipt_of_another_flow_is_named() -> None:
    one, two = chained(1, 2)
    assert codes([one, two, built("x", 3, two, flow="other")]) == [(2, "other_flow")]
    assert codes([one, two, built("x", 3, two, namespace="other")]) == [(2, "other_flow")]


def test_an_edited_receipt_breaks_the_chain_it_stands_in() -> None:
    one, two, three = chained(1, 2, 3)
    tree = json.loads(two.to_json())
    tree["inputs"] = "edited"
    edited = ReplayToken.from_json(json.dumps(tree))
    assert codes([one, edited, three]) == [(1, "bad_inputs_hash"), (1, "bad_token_hash")]
    minted_anew = built("step1", 99, one)
    assert codes([one, minted_anew, three]) == [(2, "missing_receipt")]


def test_nothing_is_no_chain() -> None:
    report = check_chain([])
    assert not report.whole
    with pytest.raises(Damaged) as broken:
        report.raise_if_broken()
    assert broken.value.code == "no_receipts"


def test_a_part_of_a_flow_is_checked_against_what_it_follows() -> None:
    tokens = chained(1, 2, 3)
    assert codes(tokens[1:], follows=tokens[0].token_hash) == []
    assert codes(tokens[1:]) == [(0, "missing_receipt")]
