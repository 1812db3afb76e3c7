"""What a search finds, and that nothing that is typed is anything but words."""

from __future__ import annotations

from contextlib import suppress

import pytest

from kit.index import found, record, said, states
from onrecord.core.events import Completed, StateUpdated
from onrecord.errors import InvalidInput
from onrecord.index import searches
from onrecord.index.index import Index
from onrecord.index.queries import parse_query
from onrecord.index.searches import search_report
from onrecord.index.texts import MOST_CHARACTERS
from onrecord.journal.journal import Journal
from onrecord.store.contract import Store


def marked(index: Index, query: str) -> list[str]:
    (hit,) = search_report(index, query)["hits"]
    return [piece["text"] for piece in hit["snippet"] if piece["marked"]]


def test_words_phrases_and_beginnings(store: Store, index: Index) -> None:
    record(store, "first", said("the quick brown fox"))
    record(store, "second", said("a brown and quick hare"))
    assert found(index, "fox") == [("first", 2)]
    assert found(index, "QUICK brown") == [("second", 2), ("first", 2)], "all words, the latest first"
    assert found(index, '"quick brown"') == [("first", 2)]
    assert found(index, "har*") == [("second", 2)]
    assert found(index, "har") == []
    assert found(index, '"a bro"*') == [("second", 2)]
    assert found(index, "fox hare") == []


def test_runs_are_found_by_id_agent_kind_name_and_input(store: Store, index: Index) -> None:
    record(store, "order-4711", facts={"agent": "till", "input": ["Zanzibar"]})
    assert found(index, "order-4711") == [("order-4711", 0)]
    assert found(index, "till zanzibar") == [("order-4711", 0)]
    assert found(index, "ActionSucceeded") == [("order-4711", 2)]
    assert found(index, "ask") == [("order-4711", 1)]


def test_numbers_and_names_of_members_are_found(store: Store, index: Index) -> None:
    record(store, "one", said({"amount_cents": 4200, "deep": [{"customer": "Ada", "rate": 0.25}]}))
    assert found(index, "4200") == [("one", 2)]
    assert found(index, "customer ada 0.25") == [("one", 2)]


@pytest.mark.parametrize("text", ["東京タワー", "สวัสดี", "서울역"])
def test_scripts_without_spaces_are_found_inside(store: Store, index: Index, text: str) -> None:
    record(store, "one", said(f"abc {text} def"))
    assert found(index, text[1:3]) == [("one", 2)]
    assert marked(index, text[1:3])[0][0] == text[1]


def test_accents_do_not_matter(store: Store, index: Index) -> None:
    record(store, "one", said("Crème brûlée"))
    assert found(index, "creme brulee") == [("one", 2)]


@pytest.mark.parametrize(
    "query",
    ["fox OR hare", "fox NOT hare", "NEAR(fox hare)", "text : fox", "fox AND", "^fox", "fox + hare", "-fox", "(fox"],
)
def test_nothing_is_an_operator(store: Store, index: Index, query: str) -> None:
    record(store, "one", said("fox"))
    words = [word.lower() for term in parse_query(query).terms for word in term.words]
    assert found(index, query) == ([("one", 2)] if words == ["fox"] else [])


@pytest.mark.parametrize(
    "query", ['"', "'; DROP TABLE runs;--", "a') OR 1=1--", "%", "*", "a*b*", "\0fox", "\ud800", "{", "x" * 200]
)
def test_odd_queries_are_words_or_refused(store: Store, index: Index, query: str) -> None:
    record(store, "one", said("fox"))
    with suppress(InvalidInput):
        assert found(index, query) in ([], [("one", 2)])
    assert found(index, "fox") == [("one", 2)], "the index is as it was"


@pytest.mark.parametrize("query", ["", "   ", "+++", '""', "x" * 201, "a " * 17])
def test_what_cannot_be_asked_is_refused(index: Index, query: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        search_report(index, query)
    assert refused.value.code == "bad_query"


def test_a_snippet_marks_the_words_and_keeps_the_text(store: Store, index: Index) -> None:
    record(store, "one", said("x" * 300 + " <b>before</b> the Fox & the fox" + " y" * 300))
    assert found(index, "fox")
    (hit,) = search_report(index, "fox")["hits"]
    text = "".join(piece["text"] for piece in hit["snippet"])
    assert marked(index, "fox") == ["Fox", "fox"]
    assert text.startswith("…")
    assert text.endswith("…")
    assert "<b>before</b> the Fox & the fox" in text
    assert len(text) < 300


def test_pages_go_on_where_the_last_one_ended(store: Store, index: Index) -> None:
    for number in range(7):
        record(store, f"run-{number}", said("fox"))
    assert index.catch_up()
    seen, cursor = [], None
    while True:
        report = search_report(index, "fox", cursor=cursor, limit=3)
        seen += [hit["run"] for hit in report["hits"]]
        cursor = report["next"]
        if cursor is None:
            break
    assert seen == [f"run-{number}" for number in range(6, -1, -1)]
    for bad in ("", "x", "1", "other.3", "a.b", "a." + "9" * 40):
        with pytest.raises(InvalidInput):
            search_report(index, "fox", cursor=bad)


def test_a_conversation_is_indexed_once(store: Store, index: Index) -> None:
    """Its beginning is found where it came up, not in all that repeat it."""
    texts = [f"message {number} says unique{number} " + "and more " * 40 for number in range(12)]
    with Journal.create(store, "talk", facts={"agent": "talker"}) as journal:
        for number in range(1, 13):
            journal.append([StateUpdated(payload={"messages": [{"content": text} for text in texts[:number]]})])
            index.catch_up()  # also when it grows while it is indexed
        journal.append([Completed(output=None)])
    for number in range(12):
        hits = found(index, f"unique{number}")
        assert hits[-1] == ("talk", number + 1)
        assert len(hits) <= 3, "the end of a list may be kept anew until it is long enough to be shared"


def test_long_events_are_cut_and_say_so(store: Store, index: Index) -> None:
    record(store, "long", said("begin " + "word " * MOST_CHARACTERS + " hidden"))
    assert found(index, "hidden") == []
    assert found(index, "begin") == [("long", 2)]
    (hit,) = search_report(index, "begin")["hits"]
    assert hit["cut"] is True


def test_what_nobody_types_is_left_out(store: Store, index: Index) -> None:
    record(store, "blob", said({"data": "A" * 5000, "raw": b"secretbytes" * 20, "note": "kept"}))
    assert found(index, "kept") == [("blob", 2)]
    assert found(index, "AAAA*") == []


def test_surrogates_nul_and_depth_do_not_break_it(store: Store, index: Index) -> None:
    deep: object = "bottom"
    for _ in range(300):
        deep = [deep]
    record(store, "odd", states("half \ud800 pair", "nul \0 here", deep, "__proto__ constructor"))
    assert found(index, "pair") == [("odd", 1)]
    assert found(index, "here") == [("odd", 2)]
    assert found(index, "__proto__") == [("odd", 4)]


def test_a_search_that_takes_too_long_is_given_up(store: Store, index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(30):
        record(store, f"run-{number}", said("fox"))
    assert found(index, "fox", limit=2)
    monkeypatch.setattr(searches, "SLOWEST_SECONDS", -1.0)
    monkeypatch.setattr(searches, "STEPS_BETWEEN", 1)
    with pytest.raises(InvalidInput, match="takes too long"):
        search_report(index, "f*")
    monkeypatch.undo()
    assert len(found(index, "f*")) == 30, "the index is as it was"
