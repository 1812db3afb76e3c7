"""Logs of receipts: in memory, and as a view of a store's journals. Both keep the same promises."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kit.receipts import FixedSources, built, chained, recorded_run
from onrecord.core.events import ActionRequested, ActionSucceeded
from onrecord.errors import Damaged, InvalidInput, NotFound, Refused
from onrecord.journal.erasure import erase_value
from onrecord.journal.export import export_run
from onrecord.journal.import_file import import_file
from onrecord.journal.journal import Journal
from onrecord.journal.reader import JournalReader
from onrecord.journal.verify import verify_run
from onrecord.proof.receipts import InMemoryReplayLog, JournalReplayLog, ReplayLog, ReplayToken, check_chain, mint
from onrecord.store.contract import Store
from onrecord.store.memory import MemoryStore

MakeLog = Callable[[str], ReplayLog]


@pytest.fixture(params=["in memory", "journals"])
def make_log(request: pytest.FixtureRequest, memory: MemoryStore) -> MakeLog:
    """Logs of namespaces that share whatever they share."""
    if request.param == "in memory":
        return InMemoryReplayLog
    return lambda namespace: JournalReplayLog(memory, namespace, sources=FixedSources(namespace))


def code_of(refused: pytest.ExceptionInfo[Any]) -> str:
    code: str = refused.value.code
    return code


def test_what_is_appended_is_found(make_log: MakeLog) -> None:
    log = make_log("default")
    tokens = chained(1, {"b": [2.0]}, (3,), flow="f1")
    for token in tokens:
        log.append(token)
    assert [log.get(token.token_hash) for token in tokens] == tokens
    assert log.tokens_for_flow("f1") == tokens
    assert check_chain(log.tokens_for_flow("f1")).whole


def test_the_order_is_kept_with_equal_times(make_log: MakeLog) -> None:
    log = make_log("default")
    tokens = chained(*range(8), flow="f1", time=1000)
    for token in tokens:
        log.append(token)
    assert log.tokens_for_flow("f1") == tokens
    assert log.query() == tokens


def test_another_namespace_finds_nothing(make_log: MakeLog) -> None:
    log, other = make_log("tenant-a"), make_log("tenant-b")
    token = built(namespace="tenant-a", flow="f1")
    log.append(token)
    with pytest.raises(NotFound) as refused:
        other.get(token.token_hash)
    assert code_of(refused) == "unknown_token"
    with pytest.raises(NotFound) as refused:
        other.tokens_for_flow("f1")
    assert code_of(refused) == "unknown_flow"
    assert other.query() == []
    with pytest.raises(Refused) as refused:
        other.append(token)
    assert code_of(refused) == "other_namespace"


def test_unknown_receipts_and_flows_are_errors(make_log: MakeLog) -> None:
    log = make_log("default")
    for name in ("nothing", "../x", "", "operations"):
        with pytest.raises(NotFound) as refused:
            log.tokens_for_flow(name)
        assert code_of(refused) == "unknown_flow"
    for name in ("sha256:" + "0" * 64, "", "x"):
        with pytest.raises(NotFound) as refused:
            log.get(name)
        assert code_of(refused) == "unknown_token"


def test_the_same_receipt_again_changes_nothing(make_log: MakeLog) -> None:
    log = make_log("default")
    tokens = chained(1, 2)
    for token in (*tokens, *tokens):
        log.append(token)
    assert log.tokens_for_flow("default") == tokens


def test_what_does_not_follow_or_verify_is_refused(make_log: MakeLog) -> None:
    log = make_log("default")
    one, two, three = chained(1, 2, 3)
    log.append(one)
    for token in (three, built("other first", 5)):
        with pytest.raises(Refused) as refused:
            log.append(token)
        assert code_of(refused) == "out_of_chain"
    edited = ReplayToken.from_json(two.to_json().replace(b"2+2?", b"3+3?"))
    with pytest.raises(InvalidInput) as bad:
        log.append(edited)
    assert code_of(bad) == "bad_token"
    assert log.tokens_for_flow("default") == [one]


def test_receipts_are_found_by_basis_and_period(make_log: MakeLog) -> None:
    log = make_log("default")
    last = None
    for number, basis in enumerate(["contract", "consent", "contract", "consent"]):
        last = built(f"e{number}", number, last, tags={"legal_basis": basis}, time=number * 10)
        log.append(last)
    log.append(built("untagged", 9, flow="f2", time=15))

    def names(*args: Any, **more: Any) -> list[str]:
        return [token.effect_name for token in log.query(*args, **more)]

    assert names({"legal_basis": "contract"}) == ["e0", "e2"]
    assert names({"legal_basis": "contract"}, since=1) == ["e2"]
    assert names({"legal_basis": None}, since=10, until=30) == ["e1", "e2"]
    assert names({"legal_basis": "contract", "purpose": "x"}) == []
    assert names(since=10, until=20) == ["e1", "untagged"]


# Journals


def test_receipts_of_a_run_are_a_view_of_its_journal(store: Store) -> None:
    recorded_run(store, tags={"purpose": "support"})
    log = JournalReplayLog(store)
    tokens = log.tokens_for_flow("r1")
    assert tokens == list(mint(JournalReader(store, "r1")))
    assert [log.get(token.token_hash) for token in reversed(tokens)] == tokens[::-1]
    assert log.query({"purpose": "support"}) == tokens
    events = JournalReader(store, "r1").head().seq
    for token in tokens:
        log.append(token)  # they are there
    assert JournalReader(store, "r1").head().seq == events
    with pytest.raises(Refused) as refused:
        log.append(built(flow="r1"))
    assert code_of(refused) == "recorded_flow"


def test_a_run_that_goes_on_is_looked_through_from_where_it_stood(memory: MemoryStore) -> None:
    recorded_run(memory, end=False)
    log = JournalReplayLog(memory)
    first = log.tokens_for_flow("r1")
    assert log.get(first[-1].token_hash) == first[-1]
    with Journal.open(memory, "r1") as journal:
        journal.append([ActionRequested("z", {}, "late"), ActionSucceeded("z", "x")])
    late = log.tokens_for_flow("r1")[-1]
    assert late.effect_name == "late"
    assert log.get(late.token_hash) == late
    assert log.get(first[0].token_hash) == first[0]


def test_receipts_of_no_journal_are_a_run_like_any_other(store: Store, tmp_path: Path) -> None:
    tokens = chained({"a": 1, "z": 2.0, "b": [1]}, (1, b"\0"), 2**70, bytes(70_000), {"$x": 1}, flow="f1")
    with JournalReplayLog(store) as log:
        for token in tokens:
            log.append(token)
    kept = JournalReplayLog(store).tokens_for_flow("f1")
    assert [token.token_hash for token in kept] == [token.token_hash for token in tokens]
    assert list(kept[0].outputs) == ["a", "z", "b"]
    assert all(token.verifies for token in kept)
    assert kept[3].decoded(kept[3].outputs, artifact=log.artifact) == bytes(70_000)
    assert verify_run(store, "f1", deep=True).verdict == "VALID"
    export_run(JournalReader(store, "f1"), tmp_path / "f1.jsonl")
    other = MemoryStore()
    import_file(other, tmp_path / "f1.jsonl")
    assert JournalReplayLog(other).tokens_for_flow("f1") == kept


def test_two_logs_append_to_one_flow_one_after_the_other(memory: MemoryStore) -> None:
    tokens = chained(1, 2, 3, 4)
    one, two = JournalReplayLog(memory), JournalReplayLog(memory)
    one.append(tokens[0])
    one.close()
    two.append(tokens[1])
    with pytest.raises(Refused):
        one.append(built("fork", 9, tokens[0]))
    two.close()
    one.append(tokens[2])
    assert two.get(tokens[2].token_hash) == tokens[2]
    one.close()
    two.append(tokens[3])
    assert one.tokens_for_flow("default") == tokens


def test_erasing_a_value_takes_the_whole_receipt(memory: MemoryStore) -> None:
    """With its nonce: the hash by which the next one names it gives nothing away."""
    tokens = chained("Ada Lovelace", "harmless", flow="f1")
    with JournalReplayLog(memory) as log:
        for token in tokens:
            log.append(token)
        assert log.get(tokens[0].token_hash) == tokens[0]
    erase_value(memory, "Ada Lovelace", reason="asked for")
    left = log.tokens_for_flow("f1")
    assert [token.effect_name for token in left] == ["step1"]
    assert check_chain(left).problems[0].code == "missing_receipt"
    with pytest.raises(NotFound):
        log.get(tokens[0].token_hash)
    kept = b"".join(row.link + (row.content or b"") for row in memory.scan("default", "f1"))
    assert tokens[0].nonce.encode() not in kept


def test_a_hostile_run_of_receipts_gives_none_that_verify(memory: MemoryStore) -> None:
    """Somebody's own recording says that it keeps receipts."""
    from onrecord.core.codec import UnknownTag
    from onrecord.core.events import SignalReceived
    from onrecord.proof.receipts.mint import RECEIPT_SIGNAL, receipt_tree

    for number, payload in enumerate(["x", {}, UnknownTag(receipt_tree(built(flow="other")))]):
        journal = Journal.create(memory, f"h{number}", facts={"receipts": "onrecord.token/1"})
        journal.append(SignalReceived(RECEIPT_SIGNAL, payload))
        with pytest.raises(Damaged):
            JournalReplayLog(memory).tokens_for_flow(f"h{number}")
    journal = Journal.create(memory, "agent")
    journal.append(SignalReceived(RECEIPT_SIGNAL, UnknownTag(receipt_tree(built(flow="agent")))))
    assert JournalReplayLog(memory).tokens_for_flow("agent") == [], "signals to an agent are no receipts"


def test_bytes_that_nobody_has_are_asked_for(memory: MemoryStore) -> None:
    token = built(inputs=bytes(70_000))
    bare = ReplayToken.from_members({k: v for k, v in token.members().items() if k != "artifacts"})
    log = JournalReplayLog(memory)
    with pytest.raises(InvalidInput) as refused:
        log.append(bare)
    assert code_of(refused) == "missing_artifact"
    log.append(token)
    log.append(built("again", 1, token, inputs=bytes(70_000)))
    with pytest.raises(Damaged):
        log.artifact(bytes(32))


def test_a_damaged_run_hides_nobody_elses_receipts(memory: MemoryStore) -> None:
    from kit.journals import Altered, rows_of, with_content

    recorded_run(memory)
    recorded_run(memory, "r2")
    rows = rows_of(memory)
    rows[1] = with_content(rows[1], lambda stored: stored.replace(b'"4"', b'"5"'))
    log = JournalReplayLog(Altered(memory, rows=rows))  # type: ignore[arg-type]
    token = next(mint(JournalReader(memory, "r2")))
    assert log.get(token.token_hash) == token
    with pytest.raises(Damaged):
        log.get("sha256:" + "0" * 64)  # nobody can say that there is none
    with pytest.raises(Damaged):
        log.query()  # an answer with holes is no answer
