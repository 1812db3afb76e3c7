"""Scopes as values: what they say of themselves, what is refused, and which run is theirs."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onrecord.core.links import check_run_id
from onrecord.errors import InvalidInput, OnrecordError
from onrecord.hosts.scopes import ExecutionScope, RuntimeScope, ScopeKind, owner_prefix, run_id

CONSTRUCTORS = {
    ScopeKind.TURN: (ExecutionScope.turn, 2),
    ScopeKind.PROCESS: (ExecutionScope.process, 1),
    ScopeKind.QUEUE_DRAIN: (ExecutionScope.queue_drain, 2),
    ScopeKind.SESSION_DELETE: (ExecutionScope.session_delete, 1),
    ScopeKind.RUNTIME_OPERATION: (ExecutionScope.runtime_operation, 1),
}


def test_each_kind_has_a_constructor() -> None:
    assert set(CONSTRUCTORS) == set(ScopeKind)
    for kind, (make, arity) in CONSTRUCTORS.items():
        assert make(*"ab"[:arity]).kind is kind


def test_ids_of_each_kind() -> None:
    turn, drain = ExecutionScope.turn("s", "t"), ExecutionScope.queue_drain("s", "d")
    delete, process = ExecutionScope.session_delete("s"), ExecutionScope.process("p")
    operation = ExecutionScope.runtime_operation("o")
    assert [scope.scope_id for scope in (turn, drain, delete, process, operation)] == ["t", "d", "s", "p", "o"]
    assert [scope.turn_id for scope in (turn, drain, delete, process, operation)] == ["t", None, None, None, None]
    assert [scope.session_id for scope in (turn, drain, delete, process, operation)] == ["s", "s", "s", None, None]
    assert [scope.process_id for scope in (turn, drain, delete, process, operation)] == [None, None, None, "p", None]


@pytest.mark.parametrize("blank", ["", " ", "\t\n", "\u00a0\u2003"])
@pytest.mark.parametrize("kind", list(ScopeKind))
def test_blank_ids_are_refused_with_the_stable_code(kind: ScopeKind, blank: str) -> None:
    make, arity = CONSTRUCTORS[kind]
    for position in range(arity):
        ids = ["id"] * arity
        ids[position] = blank
        with pytest.raises(InvalidInput) as caught:
            make(*ids).validate()
        assert caught.value.code == "missing_execution_scope_id"


@pytest.mark.parametrize("value", ["x" * 1025, "\ud800", 7, None])
def test_what_is_no_id_is_refused(value: object) -> None:
    with pytest.raises(InvalidInput):
        ExecutionScope.process(value).validate()  # type: ignore[arg-type]


def test_equal_turn_ids_of_two_sessions_do_not_meet() -> None:
    assert run_id("default", ExecutionScope.turn("one", "t")) != run_id("default", ExecutionScope.turn("two", "t"))


def test_no_two_splits_of_the_same_text_meet() -> None:
    assert run_id("default", ExecutionScope.turn("a", "bc")) != run_id("default", ExecutionScope.turn("ab", "c"))
    assert run_id("a", ExecutionScope.process("bc")) != run_id("ab", ExecutionScope.process("c"))


def test_kinds_and_namespaces_with_the_same_ids_do_not_meet() -> None:
    scopes = [make(*"xx"[:arity]) for make, arity in CONSTRUCTORS.values()]
    runs = [run_id(namespace, scope) for namespace in ("one", "two") for scope in scopes]
    assert len(set(runs)) == len(runs)


TEXT = st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=6)


@given(st.lists(st.tuples(TEXT, TEXT), min_size=2, max_size=8, unique=True))
def test_distinct_turns_have_distinct_runs(pairs: list[tuple[str, str]]) -> None:
    runs = [check_run_id(run_id("default", ExecutionScope.turn(*pair))) for pair in pairs]
    assert len(set(runs)) == len(pairs)


def test_runs_of_one_owner_share_a_prefix_and_nobody_else_has_it() -> None:
    mine = [ExecutionScope.turn("s", "t"), ExecutionScope.queue_drain("s", "d"), ExecutionScope.session_delete("s")]
    others = [ExecutionScope.turn("s2", "t"), ExecutionScope.process("s"), ExecutionScope.runtime_operation("s")]
    prefix = owner_prefix("default", mine[0])
    assert all(run_id("default", scope).startswith(prefix) for scope in mine)
    assert not any(run_id("default", scope).startswith(prefix) for scope in others)
    assert not run_id("other", mine[0]).startswith(prefix)


def test_run_ids_are_pinned() -> None:
    assert run_id("default", ExecutionScope.turn("session-1", "turn-1")) == (
        "session:f8ab43a4c9d440c4864484c5027e5128:1b3774043616558e791698dd88cf90eed858a848b1dbb8c91ab9210e3835376e"
    )
    assert run_id("default", ExecutionScope.process("p")) == (
        "process:a64268c94d48463932a615801b5d5bb3:9bac7210be822a5e8ae38e12f489b559558813f5bf66a2cb3653f02847b8baf6"
    )


def test_scope_comes_back_from_its_data() -> None:
    for make, arity in CONSTRUCTORS.values():
        scope = make(*"ab"[:arity])
        assert ExecutionScope.from_data(scope.to_data()) == scope


@pytest.mark.parametrize(
    "data",
    [None, [], {}, {"kind": "turn"}, {"kind": "?", "session": "s"}, {"kind": "process", "process": "p", "x": "y"}],
)
def test_data_that_is_no_scope_is_refused(data: object) -> None:
    with pytest.raises(OnrecordError):
        ExecutionScope.from_data(data)


def test_runtime_scopes_differ_in_every_member() -> None:
    made = [RuntimeScope.for_turn(*ids) for ids in itertools.product("ab", "ab", (0, 1), (0, 1))]
    assert len({str(scope.to_data()) for scope in made}) == 16
    assert RuntimeScope.for_process("p").to_data() == {"process_id": "p"}
