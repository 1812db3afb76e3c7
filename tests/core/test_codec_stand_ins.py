"""Exceptions whose class is gone are caught as what it derived from, without code of anybody's running."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from onrecord.core.canonical import parse_stored, stored_bytes
from onrecord.core.codec import RecordedError, decode, encode
from onrecord.errors import OnrecordError


def through(value: Any, **options: Any) -> Any:
    return decode(parse_stored(stored_bytes(encode(value).tree)), **options)


def test_a_stand_in_is_caught_as_what_its_class_derived_from() -> None:
    class Base(OSError):
        def __init__(self, code: int) -> None:
            super().__init__(code, "strange", "a.txt")
            self.code = code

    class Gone(Base, LookupError):
        pass

    error = Gone(13)
    with pytest.raises(OSError, match="strange") as caught:
        raise through(error)
    found: Any = caught.value
    assert isinstance(found, LookupError)
    assert isinstance(found, RecordedError)
    assert not isinstance(found, ValueError)
    assert (found.errno, found.filename, found.code, found.args) == (13, "a.txt", 13, error.args)
    assert not hasattr(found, "other")
    assert str(found) == str(error)
    assert encode(found).tree == encode(error).tree


def test_a_stand_in_for_a_group_is_a_group() -> None:
    class GoneGroup(ExceptionGroup[Exception]):
        pass

    group = GoneGroup("several", [ValueError("a"), KeyError("b")])
    found = through(group)
    seen: list[Any] = []
    try:
        raise found
    except* ValueError as errors:
        seen += errors.exceptions
    except* KeyError as errors:
        seen += errors.exceptions
    assert [type(error) for error in seen] == [ValueError, KeyError]
    assert isinstance(found, RecordedError)
    assert encode(found).tree == encode(group).tree


class Known(ValueError):
    ran: ClassVar[list[str]] = []

    def __new__(cls, *args: Any) -> Any:
        cls.ran.append("new")
        return super().__new__(cls, *args)

    def __init__(self, *args: Any) -> None:
        self.ran.append("init")
        super().__init__(*args)

    def __setattr__(self, name: str, value: Any) -> None:
        self.ran.append("setattr")


class Counting(KeyError):
    derived: ClassVar[list[str]] = []

    def __init_subclass__(cls) -> None:
        Counting.derived.append(cls.__name__)


def test_a_loaded_base_of_the_programs_own_is_found_only_where_it_may_be() -> None:
    class Gone(Known):
        pass

    gone = Gone("x")
    Known.ran.clear()
    found = through(gone, loaded_classes=True)
    assert isinstance(found, Known)
    assert str(found) == "x"
    assert Known.ran == [], "nobody's code runs to make it"
    stranger = through(gone)
    assert isinstance(stranger, ValueError)
    assert not isinstance(stranger, Known)


def test_a_class_that_wants_to_know_who_derives_from_it_is_left_alone() -> None:
    class Gone(Counting):
        pass

    Counting.derived.clear()
    found = through(Gone("x"), loaded_classes=True)
    assert isinstance(found, KeyError)
    assert not isinstance(found, Counting)
    assert Counting.derived == []


@pytest.mark.parametrize(
    "error",
    [
        UnicodeDecodeError("ascii", b"x", 0, 1, "no"),
        SystemExit(3),
        StopIteration(5),
        SyntaxError("bad", ("f", 1, 2, "text")),
        ImportError("no", name="x", path="y"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_stand_ins_of_every_built_in_can_be_made(error: BaseException) -> None:
    cls = type("Gone", (type(error),), {"__module__": "gone"})
    gone: BaseException = cls(*error.args)
    found = through(gone)
    assert isinstance(found, type(error))
    assert isinstance(found, RecordedError)
    assert (str(found), found.args) == (str(gone), gone.args)
    assert encode(found).tree == encode(gone).tree


def test_an_old_record_without_bases_has_a_plain_stand_in() -> None:
    found = decode({"$error": {"type": "gone:Gone", "message": "m", "args": ["m"]}})
    assert type(found) is RecordedError
    assert str(found) == "m"


@pytest.mark.parametrize("bases", [5, "builtins:ValueError", [5], {"a": 1}, ["builtins:int"], ["os:system"]])
def test_bases_that_are_none_are_refused_or_left_out(bases: Any) -> None:
    try:
        found = decode({"$error": {"type": "gone:Gone", "message": "m", "bases": bases}}, loaded_classes=True)
    except OnrecordError:
        return
    assert type(found) is RecordedError
