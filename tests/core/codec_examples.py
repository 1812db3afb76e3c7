"""Classes that the codec's tests record: one of every form, at module level so that their labels can be resolved."""

from __future__ import annotations

import dataclasses
import enum
from collections import OrderedDict, defaultdict, namedtuple
from typing import Any, NamedTuple, NoReturn

import attrs
import msgspec
import pydantic


class Colour(enum.Enum):
    RED = 1
    BLUE = "blue"
    PAIR = (1, 2)


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Word(enum.StrEnum):
    YES = "yes"


class Right(enum.Flag):
    READ = 1
    WRITE = 2


class Odd(enum.Flag):
    ONE = 1
    TWO = 2

    @classmethod
    def _missing_(cls, value: object) -> NoReturn:
        raise AssertionError("code of the user ran")


Pair = namedtuple("Pair", "left right")


class Place(NamedTuple):
    name: str
    at: tuple[int, int]


@dataclasses.dataclass
class Receipt:
    total: int
    lines: list[Line] = dataclasses.field(default_factory=list)
    note: str | None = None

    def __post_init__(self) -> None:
        if self.note == "explode":
            raise AssertionError("code of the user ran")


@dataclasses.dataclass(frozen=True, slots=True)
class Line:
    text: str
    cents: int = 0
    count: int = dataclasses.field(init=False, default=1)


@dataclasses.dataclass(frozen=True, slots=True)
class Special(Line):
    more: tuple[int, ...] = ()


class Person(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="allow")

    name: str
    age: int = 3
    friend: Person | None = None
    _seen: int = pydantic.PrivateAttr(default=7)


class Strict(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(frozen=True)

    lines: list[Line] = []
    when: Any = None


@attrs.define
class Crate:
    size: int
    things: list[Any] = attrs.field(factory=list)


@attrs.frozen
class Sealed:
    size: int


class Packet(msgspec.Struct):
    number: int
    body: Any = None


class Fixed(msgspec.Struct, frozen=True, kw_only=True):
    number: int


class Checked(msgspec.Struct):
    number: int

    def __post_init__(self) -> None:
        self.number = abs(self.number)


class Text(str):
    pass


class Slotted(str):
    __slots__ = ()


class Number(int):
    pass


class Real(float):
    pass


class Items(list[Any]):
    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.made = True

    def __iter__(self) -> NoReturn:
        raise AssertionError("code of the user ran")


class Table(dict[Any, Any]):
    pass


class Ordered(OrderedDict[Any, Any]):
    pass


class Defaults(defaultdict[Any, Any]):
    pass


class Bag(set[Any]):
    pass


class Couple(tuple[Any, ...]):
    pass


class Blob(bytes):
    pass


class AppError(ValueError):
    def __init__(self, code: int, *, detail: Any) -> None:
        super().__init__(f"code {code}")
        self.code = code
        self.detail = detail


class FileError(OSError):
    def __init__(self, name: str) -> None:
        super().__init__(2, "gone", name)


class ManyError(ExceptionGroup):
    def __new__(cls, errors: list[Exception], code: int) -> ManyError:
        made = super().__new__(cls, "many", errors)
        made.code = code  # type: ignore[attr-defined]
        return made

    def __init__(self, errors: list[Exception], code: int) -> None:
        pass


class Client:
    def __init__(self) -> None:
        self.key = "secret-of-the-client"

    def __repr__(self) -> str:
        return self.key
